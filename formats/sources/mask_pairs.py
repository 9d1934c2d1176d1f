"""Pairs of images and masks of classes: a folder of images and a folder of masks.

A mask has the path of its image, up to the suffix (ADE20K: ``ADE_train_1.jpg`` and ``ADE_train_1.png``). In
Cityscapes, the mask of ``x_leftImg8bit.png`` is ``x_gtFine_labelTrainIds.png`` or, where that is missing,
``x_gtFine_labelIds.png``. The two folders may be nested differently: a file name that occurs once suffices.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError

from ..codecs.codec import CODECS, MAX_PIXELS
from ..codecs.header import grey_bits, open_mask
from .listing import ListedFiles, Listing, Skip, no_images_error
from .source import Source, SourceFolder
from .source_reader import SkippedError, check_image, read_source_file

_IMAGE_ENDING = "_leftImg8bit"
_MASK_ENDINGS = ("", "_gtFine_labelTrainIds", "_gtFine_labelIds")
_NAMES = "classes.txt"
_ADE_FILE, _ADE_FOLDER = "ADE_", "ADEChallengeData"  # ADE_train_00000001.png in ADEChallengeData2016


def is_pairs(source: Source) -> bool:
    """Whether the caller has named a folder of masks, of classes or of objects."""
    return source.options.masks is not None or source.options.instances is not None


def is_of_ade20k(path: str) -> bool:
    """Whether the path of an image or a mask has a name that ADE20K gives to its files or its folder."""
    return path.rpartition("/")[2].startswith(_ADE_FILE) or _ADE_FOLDER in path


def list_pairs(source: Source) -> Listing:
    """List the images of a folder; :func:`with_masks` and ``with_instances`` add the masks.

    Raises: As :func:`list_images`, and ConfigError where no folder of masks is named.
    """
    if not is_pairs(source):
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


def read_mask(files: ListedFiles, row: int) -> npt.NDArray[Any]:
    """Return the values of a mask among files, see :func:`checked_values`."""
    key, size = files.keys[row].as_py(), int(files.sizes[row])
    return checked_values(read_source_file(str(files.root), key, size, follow_links=files.follow_links))


def checked_values(data: bytes) -> npt.NDArray[Any]:
    """Return the values of the file of a mask, (H, W) uint8 or uint16, after checks of the file."""
    header = check_image(data, MAX_PIXELS)
    if CODECS[header.codec].lossy:
        raise SkippedError(f"mask in {header.codec.name}, which changes values", "PNG keeps them")
    return mask_values(data, grey_bits(data, header.codec) or 8)


def mask_values(data: bytes, bits: int) -> npt.NDArray[Any]:
    """Return the values of a mask, (H, W) uint8 or uint16; a grey one has ``bits`` for each pixel."""
    try:
        with open_mask(data) as image:
            image.load()
            mode = image.mode
            pixels = np.asarray(image)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken mask", str(error)) from error
    if mode == "1":
        return pixels.astype(np.uint8)
    if mode in ("L", "P"):
        # Pillow spreads grey of 2 and 4 bits over all of 0 to 255.
        return (pixels // (255 // ((1 << bits) - 1))).astype(np.uint8) if bits < 8 else pixels
    if mode in ("I;16", "I;16B", "I") and 0 <= pixels.min() <= pixels.max() < 1 << 16:
        return pixels.astype(np.uint16)
    if mode in ("I", "F"):
        kind = "floating-point numbers" if mode == "F" else "numbers that are not from 0 to 65535"
        raise SkippedError(f"mask of {kind}", "a mask has the number of a class in each pixel")
    hint = "; mask_map (--mask-map) takes the classes of colours" if mode.startswith("RGB") else ""
    raise SkippedError("mask of more than one channel", f"Pillow's mode {mode}{hint}")
