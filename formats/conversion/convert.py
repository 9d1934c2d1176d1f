"""``stoker.convert``, which takes the options of a conversion and publishes its datasets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from stoker.arguments import check_progress, renamed_option
from stoker.errors import ConfigError
from stoker.urls import is_url

from ..codecs.codec import MAX_PIXELS
from ..containers.registry import DEFAULT_CONTAINER
from ..dataset.columns import ORIGIN_COLUMNS
from ..files import check_named
from ..sources.classes import check_classes
from ..sources.listing import Listing
from ..sources.options import SourceFormatName, SourceOptions
from ..sources.registry import find_format
from ..sources.source import Source
from ..sources.table_blocks import BlockImages
from .captions import caption_choice, tokenize_captions
from .execution import (
    Summary,
    check_num_threads,
    check_outside_source,
    execute,
)
from .image_encoder import ImageEncoder
from .listed_samples import check_loss, check_mask_map, list_samples, parse_loss
from .options import ConvertOptions, ConvertRequest, Engine, Progress, SupportsItems, parse_resize
from .plan import plan_conversion
from .python_dataset import convert_samples
from .runners import no_progress

_FILE_OPTIONS = (
    "val", "test", "shards", "class_depth", "unlabelled", "source_format", "images", "masks", "instances",
    "path_column", "label_column", "suffix", "skip_other_classes", "min_per_class", "max_per_class",
    "allow_loss", "mask_map", "class_map",
)  # fmt: skip
_WRITER_OPTIONS = (
    "classes", "format", "resize", "encoding", "quality", "subsampling", "restarts", "shard_size",
    "shard_records", "strict", "max_pixels", "overwrite", "ignore_index", "caption_column", "tokenizer",
    "vocabulary", "bos", "eos",
)  # fmt: skip


def convert_request(request: ConvertRequest) -> Summary:
    """Check the options that belong to the kind of the source, and convert it."""
    src = request.src
    if request.make is not None or not isinstance(src, (str, os.PathLike)):
        return _convert_items(request)
    return _convert_files(request, src)


def _convert_items(request: ConvertRequest) -> Summary:
    """Convert the items of a dataset in Python, or the samples that ``make`` returns for them."""
    for name in _FILE_OPTIONS:
        if getattr(request, name):
            raise ConfigError(
                f"{name} is for sources of files, and the source is a dataset in Python",
                hint="leave it out; Dataset.split divides a dataset that is written",
            )
    check_progress(request.progress)
    return convert_samples(
        request.src,
        request.dst,
        make=request.make,
        fields=request.fields,
        seed=request.seed,
        engine=request.engine,
        num_threads=request.num_threads,
        progress=request.progress,
        **{name: getattr(request, name) for name in _WRITER_OPTIONS},
    )


def _convert_files(request: ConvertRequest, src: str | os.PathLike[str]) -> Summary:
    """Convert images in files, with annotations of a format that Stoker knows."""
    dst, images, masks, instances = request.dst, request.images, request.masks, request.instances
    check_named(source=src, target=dst, images=images, masks=masks, instances=instances)
    resize = parse_resize(request.resize)
    names = check_classes(request.classes)
    source = _source(src, request)
    choice = caption_choice(request)
    found_format = find_format(source, request.source_format)
    options = request.options(resize, found_format.name)
    allow_loss = parse_loss(request.allow_loss)
    check_progress(request.progress)
    threads = check_num_threads(request.num_threads, remote=any(map(is_url, (src, images, masks, instances))))
    check_outside_source(src, dst, options.splits)
    report = request.progress or no_progress
    report(0, 0, 0, "listing")
    listing = list_samples(request, source, found_format, names)
    _check_splits(listing, options, dst)
    _check_columns(listing, options)
    check_mask_map(listing, options.mask_map)
    tokenizer: bytes | None = None
    if choice is not None and request.caption_column is not None:
        column = request.caption_column
        listing, captions, tokenizer = tokenize_captions(listing, column, choice, threads, src)
        options = replace(options, captions=captions)
    check_loss(listing, allow_loss)
    with _block_images(listing, request, threads) as block_images:
        return execute(
            plan_conversion(listing, options, ImageEncoder(listing, options, block_images, tokenizer)),
            dst,
            threads,
            overwrite=request.overwrite,
            report=report,
            engine=request.engine,
            allow_loss=allow_loss,
        )


def _source(src: str | os.PathLike[str], request: ConvertRequest) -> Source:
    options = SourceOptions(
        follow_links=request.follow_links,
        class_depth=request.class_depth,
        unlabelled=request.unlabelled,
        images=request.images,
        path_column=request.path_column,
        label_column=request.label_column,
        suffix=request.suffix,
        fields=request.fields,
        masks=request.masks,
        instances=request.instances,
        ignore_index=request.ignore_index,
        mask_map=request.mask_map,
    )
    return Source(src, options, request.caption_column)


def _check_splits(listing: Listing, options: ConvertOptions, dst: str | os.PathLike[str]) -> None:
    """Raise ConfigError if a source with splits is to be divided, or a split would lie among its images."""
    if listing.splits and (options.val or options.test):
        raise ConfigError(
            f"val and test divide a source, and this one has the splits {', '.join(listing.splits)}",
            hint="leave val and test (--val, --test) out, or convert the folder of one split",
        )
    for split in () if is_url(dst) else listing.splits:
        folder = os.path.relpath(os.path.realpath(Path(dst) / split), listing.root)
        if pc.any(pc.starts_with(listing.keys, f"{folder}/")).as_py():
            raise ConfigError(
                "images of the source lie in the target, and would mix with shards",
                path=Path(dst) / split,
                hint="name another folder as the target",
            )


def _check_columns(listing: Listing, options: ConvertOptions) -> None:
    """Raise ConfigError if a column of the source has the name of a column that resizing adds."""
    taken = sorted(listing.columns.keys() & ORIGIN_COLUMNS.keys())
    if taken and options.mode != "none":
        raise ConfigError(
            f"the source has a column {taken[0]!r}, a name that the index of resized images uses itself",
            hint="give the column another name in the source, or convert without resize (--resize)",
        )


@contextmanager
def _block_images(listing: Listing, request: ConvertRequest, threads: int) -> Iterator[BlockImages | None]:
    """Yield the reader of images that lie in blocks of files; None for other listings."""
    if listing.blocks is None:
        yield None
        return
    folder = tempfile.gettempdir() if is_url(request.dst) else os.path.abspath(request.dst)  # noqa: PTH100 - as text
    spool = None if request.seed is None else folder
    with closing(BlockImages(listing.blocks, spool, threads)) as images:
        yield images


@renamed_option("num_workers", "num_threads")
def convert(
    src: str | os.PathLike[str] | Iterable[Any] | SupportsItems,
    dst: str | os.PathLike[str],
    *,
    make: Callable[[Any], Any] | None = None,
    fields: Mapping[str, str | None] | None = None,
    format: str = DEFAULT_CONTAINER,  # noqa: A002 - the user's word for it
    seed: int | None = None,
    resize: str | None = None,
    encoding: str = "keep",
    quality: int | None = None,
    subsampling: str | None = None,
    shard_size: str | int | None = None,
    shard_records: int | None = None,
    shards: int | None = None,
    val: str | float | Fraction = 0,
    test: str | float | Fraction = 0,
    strict: bool = False,
    num_threads: int | None = None,
    class_depth: int | None = None,
    unlabelled: bool = False,
    classes: Sequence[str] | None = None,
    allow_missing_classes: bool = False,
    follow_links: bool = True,
    max_pixels: int = MAX_PIXELS,
    restarts: bool | None = None,
    overwrite: bool = False,
    engine: Engine = "local",
    source_format: SourceFormatName | None = None,
    images: str | os.PathLike[str] | None = None,
    masks: str | os.PathLike[str] | None = None,
    instances: str | os.PathLike[str] | None = None,
    ignore_index: int | None = 255,
    path_column: str | None = None,
    label_column: str | None = None,
    suffix: str | None = None,
    skip_other_classes: bool = False,
    min_per_class: int | None = None,
    max_per_class: int | None = None,
    allow_loss: str | float | Fraction | None = None,
    mask_map: str | Mapping[Any, int] | None = None,
    class_map: Mapping[str, str] | Sequence[str] | None = None,
    caption_column: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
    bos: bool = False,
    eos: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Convert images, with their labels, objects and masks, into a dataset of shards.

    The same source and options give the same bytes, whatever ``num_threads``. If the conversion is
    killed or the disk fills up, the same call resumes it and ends with the same bytes, too. Once it has
    ended, the same call recognises the dataset and does nothing, see
    :mod:`stoker.formats.conversion.already_converted`.
    ``dst`` becomes a dataset (with splits: ``dst/train``, ``dst/val``, ``dst/test``) at the very end of the
    conversion, and not before.

    Args:
        src: A source in one of the formats that ``SOURCE_DESCRIPTIONS`` of
            :mod:`stoker.formats.sources.registry` describes, such as a folder with one folder for each
            class, or a list of path and label. It may be at a URL that fsspec knows, such as
            ``s3://bucket/photos``. Or Parquet files, such as ``data/train-*.parquet``, or a folder of Hugging
            Face's ``save_to_disk``. Or a dataset in Python: anything with a length and items by position, as
            those of PyTorch, torchvision and Hugging Face, or an iterable. Its items are dicts of the
            arguments of :meth:`stoker.Writer.write`, pairs of an image and its label, images, or paths. The
            conversion of such a dataset does not resume.
        make: Called with each item of ``src``, in ``num_threads`` processes or on Ray; returns a sample in
            one of these forms, or None to leave the item out.
        fields: For datasets of dicts: names of :meth:`stoker.Writer.write` by names of fields, such as
            ``{"picture": "image", "fine_label": "label", "uuid": "key", "coarse_label": None}``. None leaves
            a field out. For tar archives: image, label, key or the name of a column, by members, such as
            ``{"png": "image", "json:label": "label", "json:text": "caption"}``. For Parquet, by columns.
        dst: Folder to write; made if missing. It may be such a URL, too.
        format: Container of the shards: ``tfrecord`` or ``lmdb``.
        seed: Seed of a global shuffle; None keeps the sorted order.
        resize: ``shorter=N``, ``longer=N``, ``squash=HxW``, ``crop=HxW`` or ``fill=HxW``, see
            :func:`stoker.formats.conversion.options.parse_resize`. None keeps the size of the images.
        encoding: Encoding of the stored images: ``keep`` (resized images are JPEG where they were JPEG or
            WebP, else PNG), ``jpeg``, ``png``, or ``raw`` for (H, W, 3) uint8 RGB pixels. The EXIF
            orientation is applied where images are encoded anew; elsewhere the index records it.
        quality: JPEG quality of images that are encoded anew, 1 to 100, by default 90. With
            ``encoding="jpeg"``, JPEGs are encoded anew only if ``quality`` or ``subsampling`` is given. A
            quality is refused if no JPEG is encoded.
        subsampling: JPEG chroma subsampling of the same images: 444, 422 or, by default, 420.
        shard_size: Approximate bytes of a shard, such as ``256MB``, which is the default.
        shard_records: Records of a shard, instead of a size.
        shards: Number of shards of each split, instead of a size.
        val: Share of the samples of each class that becomes a validation dataset: ``0.1`` or ``10%``.
            Only the samples' keys decide which samples these are.
        test: Share that becomes a test dataset, chosen in the same way.
        strict: Stop at the first image, or object of one, that would be skipped. Hidden files, and files that
            are not images by name and content, are still skipped.
        num_threads: Number of threads; by default the number of cores that this process may use, and at least
            32 if the source is at a URL. With ``engine="ray"``, the number of CPUs of a Ray cluster that is
            started on this machine.
        class_depth: Number of leading folders that name the class; None for all of them.
        unlabelled: Whether the images of a folder have no labels; folders in it name no classes.
        classes: Names of the classes, that of label 0 first, such as those of another dataset,
            ``stoker.open("shards/train").classes``; by default those of the source, in its order.
        allow_missing_classes: Convert a source even if one of its classes has no image: its folder is empty
            or cannot be read, or a list names only unreadable images for it. ``class_map`` may then name
            classes that the source lacks.
        follow_links: Whether to follow links in the source, to files and folders anywhere.
        max_pixels: Images of more pixels are skipped.
        restarts: Whether stored JPEGs get restart markers, which let a loader decode a crop without the rest
            of the image. Pixels stay the same: where JPEGs are not encoded anew, their coefficients are
            copied. By default only images that are resized to JPEG get them. A JPEG that cannot be copied
            stays as it is, and is counted in ``Summary.skipped``.
        overwrite: Replace a dataset, or another unfinished conversion, in ``dst``.
        engine: ``local``, or ``ray``: each shard is a task of the Ray cluster that this process is
            connected to, or that ``RAY_ADDRESS`` names, or else of a new one on this machine. All machines of
            the cluster must be able to reach ``src`` and ``dst``. The bytes are the same.
        source_format: Name of the format of the source, such as ``folder`` or ``coco``; by default it is
            detected, see :func:`stoker.formats.sources.registry.find_format`.
        images: Folder or URL of the images that a file of annotations (COCO, Open Images) or a list names;
            by default the folder of that file.
        masks: Folder or URL with a mask of classes for each image, see
            :mod:`stoker.formats.sources.mask_pairs`.
        instances: Folder or URL with a mask for each image, whose values number its objects. The objects get
            boxes, areas and masks. Values are ``class * 1000 + n`` (Cityscapes' ``instanceIds``). With
            ``masks``, values are plain numbers, and the class of an object is that of most of its pixels in
            ``masks`` (Pascal VOC's ``SegmentationObject``). These objects replace those of other annotations,
            see :mod:`stoker.formats.sources.instance_pairs`. For Open Images, the folder of
            the masks of single objects that its CSV names.
        ignore_index: Value in masks for pixels without a class; None if there is none.
        path_column: Name of the column of a list that has the paths, by default ``path``.
        label_column: Name of the column of a list that has the labels, by default ``label``.
        suffix: Text to append to every path of a list, such as ``.jpg`` where the list has names without it.
        skip_other_classes: Leave out samples of classes that are not among ``classes``; otherwise such a
            class is an error. In a source with objects, only the objects of such classes are left out, and no
            image.
        min_per_class: Least number of images of a class; smaller classes are left out.
        max_per_class: Largest number of images of a class. The keys of the images and ``seed`` decide which
            of them stay.
        allow_loss: Share of the images and objects of a source that may be left out, such as ``0.1`` or
            ``10%``; above it nothing is published. The default is 1% for a source with objects or masks, and
            no limit for others.
        mask_map: Classes by the values of masks: ``{0: 255, 1: 0}``, or ``"0:255,1:0"``; by colours:
            ``{(255, 0, 0): 1}``, or ``"#ff0000:1"``. Or a name: ``ade20k`` ignores value 0 and counts the
            classes from 0 (MMSegmentation's ``reduce_zero_label``), ``cityscapes`` makes training classes of
            ``labelIds``, and ``none`` keeps these. An image whose mask has another value is left out.
        class_map: New names of classes by old ones, such as ``{"van": "car"}``, or texts ``"van:car"``.
            Classes that get the same name are joined. ``classes`` takes the new names.
        caption_column: Column of a list or of a table, member of a tar archive (``txt``, ``json:captions``),
            or name among the values of samples from Python, that has the caption of each image, or a list of
            several. Captions become token ids beside the images; an image without one is left out. The images
            of a list then need no labels.
        tokenizer: Tokenizer of captions; it and the next three arguments are as for
            :func:`stoker.convert_text`.
        vocabulary: Folder of a dataset whose tokenizer to use, such as that of the training data.
        bos: Whether each caption begins with the tokenizer's token for it.
        eos: Whether each caption ends with the tokenizer's token for it.
        progress: Called about ten times a second.

    Raises:
        ConfigError: An option has a value that it cannot have.
        SourceError: The source cannot be used, has a class without an image or not among ``classes``, or
            more of it is left out than ``allow_loss``.
        EngineError: A process that runs ``make`` has died.
        DatasetError: There is another dataset or another unfinished conversion in ``dst``.
        LockedError: Another process is converting into ``dst``.
        DecodeError: ``strict`` is given, and a file is not an intact image, or an object of an image is
            broken.
        StorageError: A URL cannot be reached, read or written; the same call resumes.
        WriteError: The disk is full or refuses a write; the same call resumes.
    """
    return convert_request(ConvertRequest(**locals()))
