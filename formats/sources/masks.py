"""Images beside masks as a source: class masks, and instance masks whose values number objects.

A mask has the path of its image, up to the suffix (ADE20K: ``ADE_train_1.jpg`` and ``ADE_train_1.png``). In
Cityscapes, the mask of ``x_leftImg8bit.png`` is ``x_gtFine_labelTrainIds.png`` or, where that is missing,
``x_gtFine_labelIds.png``. A mask may also be named ``x_mask.png``, as by Roboflow, ISIC and Carvana, and then
lie beside its image. The two folders may be nested differently: a file name that occurs once suffices.

A value of an instance mask is ``class * 1000 + n``, as in Cityscapes, or a plain number; then a class mask
has the class of the object, as in Pascal VOC. Stoker takes the class from the class mask if the caller has
named one, except for Cityscapes' ``instanceIds``, whose values contain the class.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError

from ..codecs.codec import CODECS, MAX_PIXELS
from ..codecs.header import grey_bits, open_mask
from ..threads import available_cores, thread_map
from .class_folder import list_unlabelled
from .classes import names_beside, read_labelmap
from .detection import IMAGE_SETS
from .image_files import SkippedError, check_image, read_source_file
from .layouts import MASK_ENDS
from .listing import ListedFiles, Listing, Skip
from .objects import ObjectTable
from .options import SourceOptions
from .source import Source, SourceFolder, split_at_folder
from .voc import listed_stems

_IMAGE_ENDING = "_leftImg8bit"
_MASK_ENDINGS = ("", "_gtFine_labelTrainIds", "_gtFine_labelIds", *MASK_ENDS)
_INSTANCE_ENDINGS = ("", "_gtFine_instanceIds")
AHEAD = 8  # masks in memory beyond those that are read
# cityscapesScripts, helpers/labels.py: classes with objects that its evaluation counts.
_CITYSCAPES = {
    24: "person", 25: "rider", 26: "car", 27: "truck", 28: "bus", 31: "train",
    32: "motorcycle", 33: "bicycle",
}  # fmt: skip
_CITYSCAPES_ENDING = "_instanceIds."
# VOC2012 development kit, section 3.1, in the order of the values of SegmentationClass, from 1.
_VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train",
    "tvmonitor",
)  # fmt: skip
_VOC_FOLDER = "SegmentationClass"
_PER_CLASS = 1000  # values of a class: class * 1000 + number


def list_pairs(source: Source) -> Listing:
    """List the images of a folder, to which ``list_source`` adds the masks."""
    parts = split_at_folder(source.path, IMAGE_SETS)
    if source.options.masks is None and source.options.instances is None:
        such = f", such as {parts[0]}/{_VOC_FOLDER}" if parts else ""
        raise ConfigError(
            "pairs of images and masks need the folder of the masks",
            hint=f"Name it with masks or instances{such}.",
        )
    if not parts or source.folder.exists():
        return list_unlabelled(source)
    listing = list_unlabelled(Source(f"{parts[0]}/JPEGImages", source.options))
    row_of = {_stem(key): row for row, key in enumerate(listing.names())}
    stems = listed_stems(source)
    missing = (Skip(stem, "listed image that is missing") for stem in stems if stem not in row_of)
    rows = np.array(sorted(row_of[stem] for stem in stems if stem in row_of), np.int64)
    return replace(listing.take(rows), skipped=tuple(missing))


def with_masks(listing: Listing, folder: SourceFolder, options: SourceOptions) -> Listing:
    """A listing with the masks of its images; images without a mask are skipped."""
    listing, masks = _pair_files(listing, folder, _MASK_ENDINGS, "a mask")
    names, mapped = names_beside(folder, folder.parent), options.mask_map
    if not names and isinstance(mapped, str) and mapped.endswith(".txt"):
        names = tuple(read_labelmap(mapped))
    info = replace(listing.info, ignore=options.ignore_index, mask_classes=names)
    return replace(listing, masks=masks, info=info)


def _pair_files(
    listing: Listing, folder: SourceFolder, endings: tuple[str, ...], kind: str
) -> tuple[Listing, ListedFiles]:
    """The images that have a mask in a folder, and the mask of each; other images are skipped."""
    # ``endings`` replace Cityscapes' ``_leftImg8bit`` in names of masks; an empty one stands for the name of
    # the image. ``kind`` names a mask in messages.
    masks, _ = folder.images()
    by_path = {_stem(key): row for row, key in enumerate(masks.names())}
    names = Counter(stem.rpartition("/")[2] for stem in by_path)
    by_name = {name: row for stem, row in by_path.items() if names[name := stem.rpartition("/")[2]] == 1}
    find = partial(_mask_of, by_path=by_path, by_name=by_name)
    is_beside = os.fspath(listing.root) == folder.root
    named = tuple(filter(None, endings))
    if is_beside and any(find(key, endings=named) >= 0 for key in listing.names()):
        endings = named  # no image is its own mask
    mask_of = np.array([find(key, endings=endings) for key in listing.names()], np.int64)
    rows = np.flatnonzero(mask_of >= 0)
    if not len(rows):
        raise SourceError(
            f"not one of {len(listing):,} images has {kind} among {len(masks):,}",
            path=folder.root,
            hint=f"{kind.capitalize()} has the name of its image, up to the suffix, or this name and _mask.",
        )
    used = masks.take(mask_of[rows])
    several = Counter(map(_stem, masks.names()))
    if twice := next((stem for stem in map(_stem, used.names()) if several[stem] > 1), None):
        both = sorted(name for name in masks.names() if _stem(name) == twice)
        raise SourceError(
            f"an image has more than one mask: {', '.join(both)}",
            path=folder.root,
            hint="Keep one of them in the folder.",
        )
    beside = {*used.names()} if is_beside else set()
    others = [key for key in listing.keys.filter(mask_of < 0).to_pylist() if key not in beside]
    without = (Skip(key, f"image without {kind}") for key in others)
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


def only_class(masks: ListedFiles, ignore: int) -> int | None:
    """The class of masks that have one class, or none, and the value to ignore alone; None of other masks."""

    def read(row: int) -> npt.NDArray[Any]:
        try:
            return np.unique(read_mask(masks, row))
        except SkippedError:  # the conversion reports it
            return np.zeros(0, np.uint8)

    seen: set[int] = set()
    cores = available_cores()
    for _, values in thread_map(read, range(len(masks)), "masks", cores, cores + AHEAD):
        seen.update(values.tolist())
        if len(seen - {ignore}) > 1:
            return None
    return next(iter(seen - {ignore}), 0) if ignore in seen else None


def mask_values(data: bytes, bits: int) -> npt.NDArray[Any]:
    """The values of a mask, (H, W) uint8 or uint16; a grey one has ``bits`` for each pixel."""
    try:
        with open_mask(data) as image:
            image.load()
            mode = image.mode
            pixels = np.asarray(image)
    except MemoryError:
        raise
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
    hint = "; mask_map takes the classes of colours, or CVAT's labelmap.txt" if mode.startswith("RGB") else ""
    raise SkippedError("mask of more than one channel", f"Pillow's mode {mode}{hint}")


def with_instances(listing: Listing, folder: SourceFolder, *, has_mask_map: bool) -> Listing:
    """A listing with the objects of instance masks, in place of objects that it has; reads all masks."""
    # Images without such a mask are skipped, and so are masks that cannot be read, with their images.
    if listing.labels is not None:
        raise ConfigError(
            "instance masks number the classes of objects, and this source has labels of images",
            hint="Leave instances out, or convert the folder of the images with source_format='pairs'.",
        )
    listing, masks = _pair_files(listing, folder, _INSTANCE_ENDINGS, "an instance mask")
    rule = _class_rule(listing, masks)
    if has_mask_map and rule.from_class_masks:
        raise ConfigError(
            "objects get their classes from the class masks, and mask_map would change these",
            hint="Leave mask_map out, or map the files first.",
        )
    table, sizes, skipped = ObjectTable(), np.zeros((len(listing), 2), np.int32), list[Skip]()
    read = partial(_read, masks, listing.masks if rule.from_class_masks else None)
    cores = available_cores()
    for row, mask in thread_map(read, range(len(masks)), "masks", cores, cores + AHEAD):
        key = listing.keys[row].as_py()
        if isinstance(mask, str):
            skipped.append(Skip(key, "instance mask that is left out", mask))
            continue
        sizes[row], instances = mask
        for one in instances:
            outcome = rule.label_of(one)
            if isinstance(outcome, str):
                skipped.append(Skip(key, outcome, f"value {one.value}"))
            elif outcome is not None:
                label, crowd = outcome
                table.add(row, one.box, label, one.value, area=one.area, crowd=crowd, runs=one.runs)
    if not len(table):
        message = f"not one of {len(listing):,} masks has an object"
        hint = "The values of instance masks must be numbers from 1."
        if not rule.from_class_masks:
            hint = "Values must be class * 1000 + n; for plain numbers, name the class masks with masks."
        raise SourceError(message, path=folder.root, hint=hint)
    objects = table.listed(np.array(table.image, np.int64), sizes, "object {} of its mask")
    skips = tuple(sorted([*listing.skipped, *skipped]))
    listing = replace(listing, objects=objects, classes=rule.names, category_ids=rule.ids, skipped=skips)
    whole = sizes.all(axis=1)
    return listing if whole.all() else listing.take(np.flatnonzero(whole))


class _Instance(NamedTuple):
    """An object of a mask."""

    value: int
    box: tuple[int, int, int, int]  # Left, top, right, bottom, pixels
    area: int  # Number of its pixels
    runs: npt.NDArray[np.uint32]  # (R,) run lengths
    class_pixels: npt.NDArray[Any]  # (C,) its pixels of each class in the class mask, if there is one


@dataclass(frozen=True)
class _ClassRule:
    """How the objects of instance masks get their classes."""

    names: tuple[str, ...] = ()  # Names of the classes; empty where labels are numbers
    ids: tuple[int, ...] = ()  # The value of each of these classes
    from_class_masks: bool = False  # Whether the class is in a class mask, where value 1 is label 0
    ignore: int | None = None  # Value of pixels without an object and without a class; None if there is none

    def label_of(self, instance: _Instance) -> tuple[int, bool] | str | None:
        """Label of an object and whether it is a crowd; or the reason for none; None for ignored pixels."""
        value, pixels = instance.value, instance.class_pixels
        if not self.from_class_masks:
            # In Cityscapes a value that is just a class is a group of objects.
            number, crowd = (value, True) if value < _PER_CLASS else (value // _PER_CLASS, False)
            if not self.ids:
                return None if crowd else (number, False)
            return (self.ids.index(number), crowd) if number in self.ids else None
        if value == self.ignore:
            return None
        pixels[[0] if self.ignore is None or self.ignore >= len(pixels) else [0, self.ignore]] = 0
        chosen = int(pixels.argmax())
        if not pixels[chosen]:
            return "object without a class in the class mask"
        return "object of an unknown category" if 0 < len(self.names) < chosen else (chosen - 1, False)


def _class_rule(listing: Listing, instances: ListedFiles) -> _ClassRule:
    if any(_CITYSCAPES_ENDING in name for name in instances.names()):
        return _ClassRule(tuple(_CITYSCAPES.values()), tuple(_CITYSCAPES))
    if listing.masks is None:
        return _ClassRule()
    names = listing.info.mask_classes[1:]
    if not names and str(listing.masks.root).rstrip("/").endswith(f"/{_VOC_FOLDER}"):
        names = _VOC
    return _ClassRule(names, tuple(range(1, len(names) + 1)), True, listing.info.ignore)


def _read(
    masks: ListedFiles, class_masks: ListedFiles | None, row: int
) -> tuple[tuple[int, ...], list[_Instance]] | str:
    """Height and width of a mask, and its objects; or why the mask is left out."""
    try:
        values = read_mask(masks, row)
        classes = None if class_masks is None else read_mask(class_masks, row)
        if classes is not None and classes.shape != values.shape:
            both = (f"{one.shape[1]} x {one.shape[0]}" for one in (values, classes))
            raise SkippedError("instance mask and class mask have two sizes", " and ".join(both))
    except SkippedError as error:
        return ": ".join(filter(None, error.args))
    return values.shape, list(instances_of(values, classes))


def instances_of(values: npt.NDArray[Any], classes: npt.NDArray[Any] | None = None) -> Iterator[_Instance]:
    """The objects of a mask, (H, W) uint8 or uint16: one for each value but 0, in ascending order."""
    # A segment is a piece of a column with one value and one class. Columns follow each other, as in COCO.
    height = len(values)
    flat = np.ascontiguousarray(values.T).ravel()
    class_of = np.zeros(len(flat), np.uint8) if classes is None else np.ascontiguousarray(classes.T).ravel()
    first = np.ones(len(flat), bool)
    first[1:] = (flat[1:] != flat[:-1]) | (class_of[1:] != class_of[:-1])
    first[::height] = True
    starts = np.flatnonzero(first)
    lengths = np.diff(starts, append=len(flat))
    order = np.argsort(flat[starts], kind="stable")
    distinct, bounds = np.unique(flat[starts[order]], return_index=True)
    for value, segments in zip(distinct.tolist(), np.split(order, bounds[1:]), strict=True):
        if not value:
            continue
        start, length = starts[segments], lengths[segments]
        column, top = np.divmod(start, height)
        box = int(column[0]), int(top.min()), int(column[-1]) + 1, int((top + length).max())
        apart = start[1:] != (start + length)[:-1]  # segments that touch are one run
        edges = start[np.append(True, apart)], (start + length)[np.append(apart, True)]
        runs = np.diff(np.stack(edges, axis=1).ravel(), prepend=0, append=len(flat))
        whole = runs[: len(runs) - (not runs[-1])].astype(np.uint32)
        yield _Instance(value, box, int(length.sum()), whole, np.bincount(class_of[start], length))
