"""A folder with one folder for each class, as a source.

The class of an image is the folder that holds it, named by its path in the source (``animals/cat``);
``class_depth=1`` takes the first folder alone, as torchvision's ImageFolder does.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from stoker.urls import is_url

from ..dataset.columns import each, number_array, take_strings
from .classes import number_names
from .image_files import EMPTY, find_images, is_text, looks_like_image
from .listing import Listing, Skip, no_images_error
from .source import Source


def list_folder(source: Source) -> Listing:
    """List a folder with one folder for each class, on a disk or at a URL."""
    if source.options.unlabelled:
        return list_unlabelled(source)
    follow_links, at_url = source.options.follow_links, is_url(source.path)
    folders: list[Skip] = []
    if at_url:
        files, skipped = source.folder.images()
    else:
        files, skipped, folders = find_images(os.path.realpath(source.path), follow_links=follow_links)
        skipped += [folder for folder in folders if folder.reason == EMPTY]
    # A folder without an image is a missing class, because the labels of later classes would move, unless
    # its files are plain text or it holds the folders of classes. At a URL, names alone decide.
    depth = source.options.class_depth
    folder_of_file = pa.array((_class_of(key, depth) for key in files.names()), pa.large_string())
    with_image: set[str] = set()
    missing: dict[str, Skip] = {}
    for folder in folders:
        name = "/".join(folder.key.split("/")[:depth])
        missing.setdefault(name, Skip(name, folder.reason, folder.detail))
    for key, name in zip(files.names(), each(folder_of_file), strict=True):
        if name and name not in with_image:
            if at_url or looks_like_image(str(files.root), key, follow_links=follow_links):
                with_image.add(name)
            else:
                missing.setdefault(name, Skip(name, "no file in it is an image"))
    numbers, names = number_names(folder_of_file)
    is_class = np.array([name in with_image for name in names], bool)
    labels = np.where(is_class, np.cumsum(is_class) - 1, -1)[numbers]
    has_class = labels >= 0
    if not has_class.all():  # taking none of a million names takes 20 MB
        left_out = take_strings(files.keys, np.flatnonzero(~has_class)).to_pylist()
        skipped += [Skip(key, "not an image" if "/" in key else "not in a class folder") for key in left_out]
        files, labels = files.take(np.flatnonzero(has_class)), labels[has_class]
    if not len(files):
        raise no_images_error(
            "the folder holds no image in a class folder",
            source.path,
            skipped,
            "Give a folder with one folder for each class: SOURCE/CLASS/IMAGE.jpg; or a CSV or JSON list of "
            "path and label; or take the images without labels: unlabelled=True.",
        )
    return Listing(
        **vars(files),
        labels=number_array(labels),
        classes=tuple(name for name in names if name in with_image),
        skipped=tuple(sorted(skipped)),
        missing_classes=_missing_classes(missing, with_image, skipped, source),
    )


def _missing_classes(
    missing: dict[str, Skip], with_image: set[str], skipped: list[Skip], source: Source
) -> tuple[Skip, ...]:
    """The ``missing`` folders without an image, and those of which every file was left out."""
    found = {name: skip for name, skip in missing.items() if name not in with_image}
    holders = {
        "/".join(name.split("/")[:end]) for name in with_image for end in range(1, name.count("/") + 2)
    }
    for skip in skipped:
        name = _class_of(skip.key, source.options.class_depth)
        if name and name not in holders and name not in found and _may_be_sample(skip, source):
            found[name] = Skip(name, "no file in it is an image", f"{skip.key} is left out: {skip.message}")
    return tuple(sorted(found.values()))


def _may_be_sample(skip: Skip, source: Source) -> bool:
    """Whether a file that was left out may be a sample, and not a note or a table beside the classes."""
    if skip.reason != "not an image":
        return skip.reason not in ("hidden", EMPTY)
    return not is_url(source.path) and not is_text(str(source.path), skip.key)


def _class_of(key: str, depth: int | None) -> str:
    return "/".join(key.split("/")[:-1][:depth])


def list_unlabelled(source: Source) -> Listing:
    """List all images of a folder and of the folders in it, as samples without labels."""
    files, skipped = source.folder.images()
    if not len(files):
        raise no_images_error("the folder holds no image", source.folder.root, skipped)
    return Listing(**vars(files), labels=None, classes=(), skipped=tuple(skipped))
