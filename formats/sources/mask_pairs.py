"""Pairs of images and class masks as a source: a folder of images and a folder of masks.

A mask has the path of its image, up to the suffix (ADE20K: ``ADE_train_1.jpg`` and ``ADE_train_1.png``). In
Cityscapes, the mask of ``x_leftImg8bit.png`` is ``x_gtFine_labelTrainIds.png`` or, where that is missing,
``x_gtFine_labelIds.png``. The two folders may be nested differently: a file name that occurs once suffices.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError

from ..codecs.codec import CODECS, MAX_PIXELS
from ..codecs.header import grey_bits, open_mask
from .class_folder import list_unlabelled
from .classes import names_beside
from .detection import is_pairs
from .listing import ListedFiles, Listing, Skip
from .source import Source, SourceFolder
from .source_reader import SkippedError, check_image, read_source_file

_IMAGE_ENDING = "_leftImg8bit"
_MASK_ENDINGS = ("", "_gtFine_labelTrainIds", "_gtFine_labelIds")


def list_pairs(source: Source) -> Listing:
    """List the images of a folder, to which ``list_source`` adds the masks."""
    if not is_pairs(source):
        raise ConfigError(
            "pairs of images and masks need the folder of the masks", hint="Name it with masks or instances."
        )
    return list_unlabelled(source)


def with_masks(listing: Listing, folder: SourceFolder, ignore: int | None) -> Listing:
    """A listing with the masks of its images; images without a mask are skipped."""
    listing, masks = pair_files(listing, folder, _MASK_ENDINGS, "a mask")
    info = replace(listing.info, ignore=ignore, mask_classes=names_beside(folder, folder.parent))
    return replace(listing, masks=masks, info=info)


def pair_files(
    listing: Listing, folder: SourceFolder, endings: tuple[str, ...], kind: str
) -> tuple[Listing, ListedFiles]:
    """The images that have a mask in a folder, and the mask of each; other images are skipped."""
    # ``endings`` replace Cityscapes' ``_leftImg8bit`` in names of masks; an empty one stands for the name of
    # the image. ``kind`` names a mask in messages.
    masks, _ = folder.images()
    by_path = {_stem(key): row for row, key in enumerate(masks.names())}
    names = Counter(stem.rpartition("/")[2] for stem in by_path)
    by_name = {name: row for stem, row in by_path.items() if names[name := stem.rpartition("/")[2]] == 1}
    mask_of = np.array([_mask_of(key, by_path, by_name, endings) for key in listing.names()], np.int64)
    rows = np.flatnonzero(mask_of >= 0)
    if not len(rows):
        raise SourceError(
            f"not one of {len(listing):,} images has {kind} among {len(masks):,}",
            path=folder.root,
            hint=f"{kind.capitalize()} has the name of its image, up to the suffix.",
        )
    used = masks.take(mask_of[rows])
    several = Counter(map(_stem, masks.names()))
    for stem in map(_stem, used.names()):
        if several[stem] > 1:
            both = (name for name in masks.names() if _stem(name) == stem)
            raise SourceError(
                f"an image has more than one mask: {', '.join(sorted(both))}",
                path=folder.root,
                hint="Keep one of them in the folder.",
            )
    without = (Skip(key, f"image without {kind}") for key in listing.keys.filter(mask_of < 0).to_pylist())
    return replace(listing.take(rows), skipped=tuple(sorted([*listing.skipped, *without]))), used


def _stem(key: str) -> str:
    return os.path.splitext(key)[0]  # noqa: PTH122 - a key is not a path


def _mask_of(key: str, by_path: dict[str, int], by_name: dict[str, int], endings: tuple[str, ...]) -> int:
    """Row of the mask of an image; -1 if there is none."""
    stem = _stem(key)
    for ending in endings:
        path = stem.removesuffix(_IMAGE_ENDING) + ending if ending else stem
        row = by_path.get(path, by_name.get(path.rpartition("/")[2], -1))
        if row >= 0:
            return row
    return -1


def read_mask(files: ListedFiles, row: int) -> npt.NDArray[Any]:
    """The values of a mask among files, (H, W) uint8 or uint16, after checks of the file."""
    key, size = files.keys[row].as_py(), int(files.sizes[row])
    data = read_source_file(str(files.root), key, size, follow_links=files.follow_links)
    codec = check_image(data, MAX_PIXELS).codec
    if CODECS[codec].lossy:
        raise SkippedError(f"mask in {codec.name}, which changes values", "PNG keeps them")
    return mask_values(data, grey_bits(data, codec) or 8)


def mask_values(data: bytes, bits: int) -> npt.NDArray[Any]:
    """The values of a mask, (H, W) uint8 or uint16; a grey one has ``bits`` for each pixel."""
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
    hint = "; mask_map takes the classes of colours" if mode.startswith("RGB") else ""
    raise SkippedError("mask of more than one channel", f"Pillow's mode {mode}{hint}")
