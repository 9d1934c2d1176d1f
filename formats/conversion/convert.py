"""``stoker.convert``: the stages of a conversion of images, in order."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow.compute as pc

from stoker.arguments import check_progress, named_arguments
from stoker.errors import ConfigError
from stoker.urls import is_url, join_url, split_url

from ..containers.container import DEFAULT_CONTAINER
from ..dataset.columns import ORIGIN_COLUMNS
from ..dataset.dataset import Dataset
from ..dataset.index import BAND_COLUMNS
from ..dataset.manifest import Manifest
from ..dataset.versions import split_version
from ..files import check_named, is_inside
from ..remote.store import Store
from ..sources.listing import Listing
from ..sources.options import SourceOptions
from ..sources.registry import find_format
from ..sources.source import Source
from ..threads import available_cores, check_threads
from .captions import CaptionOptions, Captions, tokenize_captions
from .execution import execute
from .image_encoder import ImageEncoder
from .listed_samples import check_loss, check_mask_map, list_samples
from .options import ConvertArguments, ConvertOptions, Engine, ImageStorage, Progress, Selection, Share
from .plan import plan_conversion
from .publishing import Summary

_LEAST_THREADS_FOR_URLS = 32  # most of them wait for the network


class SupportsItems(Protocol):
    """A dataset of PyTorch's kind: a number of items, which are read by their indices."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@named_arguments
def convert(
    source: str | os.PathLike[str] | Iterable[Any] | SupportsItems,
    target: str | os.PathLike[str],
    *,
    container: str = DEFAULT_CONTAINER,
    seed: int | None = None,
    resize: str | None = None,
    encoding: str = "keep",
    quality: int | None = None,
    shard_size: str | int | None = None,
    val: Share = 0,
    test: Share = 0,
    classes: Sequence[str] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    num_threads: int | None = None,
    progress: Progress | None = None,
    engine: Engine = "local",
    source_options: SourceOptions | None = None,
    selection: Selection | None = None,
    captions: Captions | None = None,
    storage: ImageStorage | None = None,
) -> Summary:
    """Convert images, with their labels, objects and masks, into a dataset of shards.

    The same source and options give the same bytes, whatever ``num_threads``. If the conversion is
    killed or the disk fills up, the same call resumes it and ends with the same bytes, too. Once it has
    ended, the same call recognises the dataset and does nothing; a dataset of objects is refused instead,
    since it does not tell which annotations it was made of.
    ``target`` becomes a dataset (with splits: ``target/train``, ``target/val``, ``target/test``) at the very
    end of the conversion, and not before.

    Args:
        source: A folder with one folder for each class, a list of path and label, or another source that
            ``stoker convert --help`` describes. It may be at a URL that fsspec knows, such as
            ``s3://bucket/photos``. Or a dataset in Python, such as one of PyTorch, torchvision or Hugging
            Face, or an iterable; none of these conversions resumes. Its items are dicts of the arguments of
            :meth:`stoker.Writer.write`, pairs of an image and its label, images, or paths.
        target: Folder to write; made if missing. It may be such a URL, too.
        container: Container of the shards: ``tfrecord`` or ``lmdb``.
        seed: Seed of a global shuffle; None keeps the sorted order.
        resize: ``shorter=N``, ``longer=N``, ``squash=HxW``, ``crop=HxW`` or ``fill=HxW``. ``shorter`` and
            ``longer`` scale an image so that this side has at most N pixels. ``squash`` scales height and
            width independently; ``crop`` scales the image to cover height x width and crops the centre;
            ``fill`` scales it to fit into height x width and pads it with black. None keeps the sizes.
        encoding: Encoding of the stored images: ``keep`` (resized images are JPEG where they were JPEG or
            WebP, else PNG), ``jpeg``, ``png``, or ``raw`` for (H, W, 3) uint8 RGB pixels. The EXIF
            orientation is applied where images are encoded again; elsewhere the index records it.
        quality: JPEG quality of images that are encoded again, 1 to 100, by default 90. With
            ``encoding="jpeg"``, JPEGs are encoded again only if a quality or a subsampling is given.
        shard_size: Approximate bytes of a shard, such as ``256MB``, which is the default.
        val: Share of the samples of each class that becomes a validation dataset: ``0.1`` or ``10%``; the
            samples' keys decide which ones.
        test: Share that becomes a test dataset, chosen in the same way.
        classes: Names of the classes, label 0 first, such as the names of another dataset,
            ``stoker.open("shards/train").classes``; by default those of the source, in its order.
        strict: Stop at the first image, or object of one, that would be skipped. Hidden files, and files that
            are not images by name and content, are still skipped.
        overwrite: Replace a dataset, or another unfinished conversion, in ``target``.
        num_threads: Number of threads, or CPUs of a Ray cluster that is started on this machine; by default
            the number of cores that this process may use, and at least 32 if the source is at a URL.
        progress: Called about ten times a second with the samples done, the samples in all, the source bytes
            done, and the stage: listing, converting or publishing.
        engine: ``local``, or ``ray``: each shard is a task of the Ray cluster that this process is
            connected to, or that ``RAY_ADDRESS`` names, or else of a new one on this machine. All machines of
            the cluster must be able to reach ``source`` and ``target``. The bytes are the same.
        source_options: How the source is read, see :class:`stoker.SourceOptions`.
        selection: The samples and classes of the source that are taken, see :class:`stoker.Selection`.
        captions: Captions of images, which become token ids, see :class:`stoker.Captions`.
        storage: Further options of shards and of stored images, see :class:`stoker.ImageStorage`.

    Raises:
        ConfigError: An option has a value that it cannot have.
        SourceError: The source cannot be used, has a class without an image or not among ``classes``, or
            more of it is left out than ``allow_loss``.
        EngineError: A process that runs ``make`` has died.
        DatasetError: There is another dataset or another unfinished conversion in ``target``.
        LockedError: Another process is converting into ``target``.
        DecodeError: ``strict`` is given, and a file is not an intact image, or an object of an image is
            broken.
        StorageError: A URL cannot be reached, read or written; the same call resumes.
        WriteError: The disk is full or refuses a write; the same call resumes.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    del given["source"], given["target"]
    check_progress(given.pop("progress", None))
    arguments = ConvertArguments(**given)
    if isinstance(source, Dataset) and arguments.source_options.make is None:
        return _convert_files(source.address, target, arguments, progress, source)
    if arguments.source_options.make is not None or not isinstance(source, (str, os.PathLike)):
        from .python_dataset import convert_items

        return convert_items(source, target, arguments, progress)
    return _convert_files(source, target, arguments, progress)


def _convert_files(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    arguments: ConvertArguments,
    progress: Progress | None,
    dataset: Dataset | None = None,
) -> Summary:
    """Convert images in files: every stage of a conversion, in order."""
    # 1. The options, checked and resolved for the format of the source, which is detected.
    reading, captions = arguments.source_options, arguments.captions
    places = {"images": reading.images, "masks": reading.masks, "instances": reading.instances}
    check_named(source=path, target=target, **places)
    remote = any(map(is_url, (path, *places.values())))
    default_threads = max(available_cores(), _LEAST_THREADS_FOR_URLS) if remote else None
    threads = check_threads(arguments.num_threads, default_threads)
    source = Source(path, reading, captions.caption_column, dataset)
    source_format = find_format(source, reading.source_format)
    options = ConvertOptions.resolve(arguments, source_format.name)
    _check_outside_source(path, target, options.splits)
    # 2. The samples of the source: listed, chosen by their classes, and with captions as token ids.
    if progress is not None:
        progress(0, 0, 0, "listing")
    listing = list_samples(source, source_format, arguments)
    _check_listing(listing, options, target)
    tokenizer: bytes | None = None
    if captions.caption_column is not None:
        listing, recorded, tokenizer = tokenize_captions(listing, captions, threads, path)
        options = replace(options, captions=recorded)
    elif listing.manifest is not None:
        options, tokenizer = _as_in_dataset(listing.manifest, options, arguments), listing.tokenizer
    allow_loss = cast("Fraction | None", arguments.selection.allow_loss)  # the check has parsed it
    check_loss(listing, allow_loss)
    with ExitStack() as stack:
        images = None
        if listing.blocks is not None:  # images that lie in blocks of files
            from ..sources.tables import BlockImages

            folder = tempfile.gettempdir() if is_url(target) else os.path.abspath(target)  # noqa: PTH100
            spool = None if options.seed is None else folder
            images = stack.enter_context(closing(BlockImages(listing.blocks, spool, threads)))
        # 3. The plan: the split, the shard and the record of every sample. Nothing is written yet.
        plan = plan_conversion(listing, options, ImageEncoder(listing, options, images, tokenizer))
        # 4. What earlier calls have made is found; missing shards are made; index and manifest are published.
        return execute(
            plan,
            target,
            threads,
            overwrite=arguments.overwrite,
            report=progress,
            engine=arguments.engine,
            allow_loss=allow_loss,
            allow_missing_classes=arguments.selection.allow_missing_classes,
        )


def _as_in_dataset(
    manifest: Manifest, options: ConvertOptions, arguments: ConvertArguments
) -> ConvertOptions:
    """Options for samples with restart markers or captions of a dataset."""
    has_bands = BAND_COLUMNS.keys() <= manifest.columns.keys()
    if has_bands and arguments.storage.restarts is None and options.encoding in ("keep", "jpeg"):
        options = replace(options, restarts=True)
    return replace(options, captions=CaptionOptions.of_dataset(manifest))


def _check_outside_source(
    source: str | os.PathLike[str], target: str | os.PathLike[str], splits: Iterable[str]
) -> None:
    """Raise ConfigError if the target lies in the source, whose images would mix with shards."""
    source, _ = split_version(source)
    if not is_url(source) and not os.path.isdir(source):  # noqa: PTH112 - a path or a string
        return
    root = _place(source)
    for path, folder in _targets(target, splits):
        if folder == root or is_inside(folder, root):
            raise ConfigError(
                "the target lies in the source, whose images would mix with shards",
                path=path,
                hint="Name a folder beside the source.",
            )


def _targets(
    target: str | os.PathLike[str], splits: Iterable[str]
) -> Iterator[tuple[str | os.PathLike[str], str]]:
    """Yield the folder of each split, and the one text that stands for it."""
    for split in splits:
        path = target
        if split:
            path = join_url(os.fspath(target), split) if is_url(target) else Path(target) / split
        yield path, _place(path)


def _place(path: str | os.PathLike[str]) -> str:
    """Return one text for all spellings of a path or URL."""
    return Store(path).place if is_url(path) else os.path.realpath(path)


def _check_listing(listing: Listing, options: ConvertOptions, target: str | os.PathLike[str]) -> None:
    """Raise ConfigError if options do not fit the samples, or a target lies among the images."""
    if listing.splits and (options.val or options.test):
        raise ConfigError(
            f"val and test divide a source, and this one has the splits {', '.join(listing.splits)}",
            hint="Leave val and test out, or convert the folder of one split.",
        )
    files = listing.ranges.files if listing.ranges is not None else ()
    parts = (split_url(file) for file in files)
    shards = {_place(folder) for folder, name in parts if name.startswith("shard-")}
    for path, folder in _targets(target, listing.splits or options.splits):
        inside = f"{os.path.relpath(folder, _place(listing.root))}/" if listing.splits else None
        if folder in shards or (inside and pc.any(pc.starts_with(listing.keys, inside)).as_py()):
            raise ConfigError(
                "images of the source lie in the target, and would mix with shards",
                path=path,
                hint="Name another folder as the target.",
            )
    taken = sorted(listing.columns.keys() & ORIGIN_COLUMNS.keys())
    if taken and options.mode != "none" and listing.manifest is None:
        raise ConfigError(
            f"the source has a column {taken[0]!r}, a name that the index of resized images uses itself",
            hint="Give the column another name in the source, or convert without resize.",
        )
    check_mask_map(listing, options.mask_map)
