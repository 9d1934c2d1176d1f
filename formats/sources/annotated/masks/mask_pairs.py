"""Pairs of images and masks of classes: a folder of images and a folder of masks.

A mask has the path of its image, up to the suffix (ADE20K: ``ADE_train_1.jpg`` and ``ADE_train_1.png``). In
Cityscapes, the mask of ``x_leftImg8bit.png`` is ``x_gtFine_labelTrainIds.png`` or, where that is missing,
``x_gtFine_labelIds.png``. The two folders may be nested differently: a file name that occurs once suffices.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stoker.errors import ConfigError, SourceError

from ...folders.source_folder import SourceFolder
from ...listing import ListedFiles, Listing, Skip
from ...no_images import no_images_error
from ...source import Source

_IMAGE_ENDING = "_leftImg8bit"
_MASK_ENDINGS = ("", "_gtFine_labelTrainIds", "_gtFine_labelIds")
_NAMES = "classes.txt"
_ADE_FILE, _ADE_FOLDER = "ADE_", "ADEChallengeData"  # ADE_train_00000001.png in ADEChallengeData2016


def has_masks(source: Source) -> bool:
    """Whether the caller has named a folder of masks, of classes or of objects."""
    return source.masks is not None or source.instances is not None


def is_of_ade20k(path: str) -> bool:
    """Whether the path of an image or a mask has a name that ADE20K gives to its files or its folder."""
    return path.rpartition("/")[2].startswith(_ADE_FILE) or _ADE_FOLDER in path


def list_pairs(source: Source) -> Listing:
    """List the images of a folder; :func:`with_masks` and ``with_instances`` add the masks.

    Raises: As :func:`list_images`, and ConfigError where no folder of masks is named.
    """
    if not has_masks(source):
        raise ConfigError(
            "pairs of images and masks need the folder of the masks", hint="--masks DIR, or --instances DIR"
        )
    return list_images(source.folder)


def list_images(folder: SourceFolder) -> Listing:
    """List the images of a folder and the folders in it, without labels."""
    files, skipped = folder.images()
    if not len(files):
        raise no_images_error("the folder holds no image", folder.root, skipped)
    return Listing(**vars(files), labels=None, classes=(), skipped=tuple(skipped))


def with_masks(listing: Listing, folder: SourceFolder, ignore: int | None) -> Listing:
    """A listing with the masks of its images; images without a mask are skipped."""
    if ignore is not None and not 0 <= ignore < 1 << 16:
        raise ConfigError(f"ignore_index must be a value of a mask, 0 to 65535, not {ignore}")
    pairs = pair_files(listing, folder, _MASK_ENDINGS, "mask")
    info = replace(pairs.listing.info, ignore=ignore, mask_classes=class_names(folder))
    return replace(pairs.listing, masks=pairs.masks, info=info)


class Pairs(NamedTuple):
    """The images of a listing that have a mask, and the mask of each."""

    listing: Listing
    masks: ListedFiles


def pair_files(listing: Listing, folder: SourceFolder, endings: tuple[str, ...], kind: str) -> Pairs:
    """Return the images that have a mask in a folder, and their masks; other images are skipped.

    ``endings`` replace Cityscapes' ``_leftImg8bit`` in names of masks; an empty one stands for the name of
    the image. ``kind`` is the word for a mask in messages.
    """
    masks, _ = folder.images()
    by_path = {_stem(key): row for row, key in enumerate(masks.names())}
    names = Counter(stem.rpartition("/")[2] for stem in by_path)
    by_name = {name: row for stem, row in by_path.items() if names[name := stem.rpartition("/")[2]] == 1}
    mask_of = np.array([_mask_of(key, by_path, by_name, endings) for key in listing.names()], np.int64)
    rows = np.flatnonzero(mask_of >= 0)
    if not len(rows):
        raise SourceError(
            f"not one of {len(listing):,} images has a {kind} among {len(masks):,}",
            path=folder.root,
            hint=f"a {kind} has the name of its image, up to the suffix",
        )
    used = masks.take(mask_of[rows])
    _check_no_image_has_two(masks, used, folder.root)
    without = (Skip(key, f"image without a {kind}") for key in listing.keys.filter(mask_of < 0).to_pylist())
    return Pairs(replace(listing.take(rows), skipped=tuple(sorted([*listing.skipped, *without]))), used)


def _stem(key: str) -> str:
    return os.path.splitext(key)[0]  # noqa: PTH122 - a key is no path


def _mask_of(key: str, by_path: dict[str, int], by_name: dict[str, int], endings: tuple[str, ...]) -> int:
    """Row of the mask of an image; -1 if there is none."""
    stem = _stem(key)
    for ending in endings:
        path = stem.removesuffix(_IMAGE_ENDING) + ending if ending else stem
        row = by_path.get(path, by_name.get(path.rpartition("/")[2], -1))
        if row >= 0:
            return row
    return -1


def _check_no_image_has_two(masks: ListedFiles, used: ListedFiles, folder: str) -> None:
    """Raise SourceError if an image has two masks, such as ``x.png`` and ``x.tif``."""
    several = Counter(map(_stem, masks.names()))
    for stem in map(_stem, used.names()):
        if several[stem] > 1:
            both = (name for name in masks.names() if _stem(name) == stem)
            raise SourceError(
                f"an image has more than one mask: {', '.join(sorted(both))}",
                path=folder,
                hint="keep one of them in the folder",
            )


def class_names(folder: SourceFolder) -> tuple[str, ...]:
    """Return the names of classes beside masks, by value; empty where there are none."""
    for candidate in (folder, folder.parent):
        if (names := candidate.lines(_NAMES)) is not None:
            return tuple(names)
    return ()
