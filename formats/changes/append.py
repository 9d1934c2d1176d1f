"""``stoker.append``: a version of a dataset with the samples of another source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from stoker.arguments import named_arguments
from stoker.errors import ConfigError, DatasetError, SourceError, StokerError, StorageError, WriteError
from stoker.urls import without_credentials

from ..codecs.codec import MAX_PIXELS
from ..containers.container import CONTAINERS
from ..conversion.captions import captions_like
from ..conversion.convert import convert
from ..conversion.options import Engine, ImageStorage, Progress, Selection, Storage
from ..conversion.publishing import Summary
from ..conversion.writer import appended_classes
from ..dataset.index import BAND_COLUMNS, KNOWN_COLUMNS, Index
from ..dataset.joining import Part, add_part, check_parts, join_classes
from ..dataset.manifest import SKIPPED_NAME, Manifest, Option, published_names
from ..dataset.versions import ChangeSummary, locked_dataset, read_sha256, staging_folder, with_sha256
from ..files import read_regular, remove
from ..sources.classes import check_classes
from ..sources.detection import is_data_file
from ..sources.options import SourceOptions
from ..sources.registry import find_format
from ..sources.source import Source
from ..text.convert import convert_text
from ..text.options import Training
from ..token_columns import length_column, trained_column
from ..tokenization import TokenizerSettings

_UNFINISHED = ".stoker-append"
_OF_TEXT = ("label", "columns", "parallel")
_OF_IMAGES = ("engine", "source_options", "selection")


@named_arguments
def append(
    dataset: str | os.PathLike[str],
    source: str | os.PathLike[str] | Iterable[Any],
    *,
    classes: Sequence[str] | None = None,
    strict: bool = False,
    num_threads: int | None = None,
    progress: Progress | None = None,
    engine: Engine = "local",
    source_options: SourceOptions | None = None,
    selection: Selection | None = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    parallel: bool = False,
    allow_loss: Fraction | float | str | None = None,
) -> ChangeSummary:
    """Add the samples of a source to a dataset as its next version. Shards and earlier versions stay.

    The samples are converted as the dataset was: with its container, size, encoding and tokenizer. If
    the call is killed, the last version stays valid, and the same call resumes. If the dataset already has
    all samples of the source, with the same keys and bytes, no version is made.

    :class:`stoker.Writer` with ``append=True`` makes such a version from samples of a program.

    Args:
        dataset: The dataset's folder.
        source: A source as :func:`stoker.convert` takes it, or :func:`stoker.convert_text` for text.
        classes: Names of the classes: of the dataset first, then new ones. None takes the names of the
            dataset; another class in the source is then an error.
        strict: Stop at the first sample that would be skipped.
        num_threads: Number of threads; by default the number of cores that this process may use.
        progress: Called as by :func:`stoker.convert`.
        engine: For images, as for :func:`stoker.convert`.
        source_options: For images, how the source is read; masks are mapped as those of the dataset were.
        selection: For images, the samples that are taken; classes are renamed as those of the dataset were.
        label: For text, as for :func:`stoker.convert_text`.
        columns: For text, further values that become columns of the index; by default those of the dataset.
        parallel: For text, whether the files are parallel.
        allow_loss: Largest share of the source that may be left out, as for :func:`stoker.convert_text` and
            :class:`stoker.Selection`.

    Raises:
        ConfigError: An option is not one of these, or the samples differ in form from those of the dataset.
        DatasetError: There is no dataset in the folder, or it is at a URL or made of shards of another
            program.
        LockedError: Another process changes the dataset.
        SourceError: The dataset has some of the images already, with the same keys and bytes, but not all.
        StokerError: As :func:`stoker.convert` and :func:`stoker.convert_text`.
    """
    with locked_dataset(dataset, resumes=True) as (folder, last):
        _check_own_shards(folder, last)
        if isinstance(source, (str, os.PathLike)) and os.path.realpath(source) == os.path.realpath(folder):
            raise ConfigError("the source is the dataset itself", path=folder, hint="Name another source.")
        names = appended_classes(check_classes(classes), last)
        unfinished = folder / _UNFINISHED
        given: dict[str, Any] = {
            "engine": None if engine == "local" else engine,
            "source_options": source_options,
            "selection": selection,
            "label": label,
            "columns": columns,
            "parallel": parallel or None,
            "allow_loss": allow_loss,
        }
        arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        arguments |= {"strict": strict, "num_threads": num_threads, "progress": progress}
        try:
            conversion = _convert_like(last, folder, source, unfinished, classes=names, given=arguments)
            manifest = with_sha256(Manifest.load(unfinished), read_sha256(unfinished), unfinished)
            new = Part.of(unfinished, _with_meaning(manifest, last, source))
            already = _has_all(folder, last, new)
            if not already and last.sample_type == "image":
                _check_new(folder, last, new, source)
            grown = last if already else _publish(Part.of(folder, last), new, f"append {_name(source)}")
        except (WriteError, StorageError):
            raise  # the same call resumes
        except StokerError:
            remove(unfinished)
            raise
        remove(unfinished)
    version, samples = grown.dataset_version, grown.index.rows
    if already:
        return ChangeSummary(folder, version, samples, already=True)
    return ChangeSummary(folder, version, samples, added=conversion.written, skipped=conversion.skipped)


def _check_own_shards(folder: Path, last: Manifest) -> None:
    if any(shard.path is not None for shard in last.shards) or not CONTAINERS[last.container].can_write:
        raise DatasetError(
            "samples can be added only to a dataset whose shards Stoker wrote into its folder",
            path=folder,
            hint="Convert the new samples into another dataset, and load both: stoker.mix.",
        )


def _with_meaning(new: Manifest, last: Manifest, src: Any) -> Manifest:
    """Return the manifest of new samples; those from Python get the dataset's keypoints and mask values."""
    if isinstance(src, (str, os.PathLike)):
        return new
    count, names = len(new.annotations.keypoints), last.annotations.keypoints
    if count and names and count != len(names):
        raise ConfigError(
            f"an object of the samples has {count} keypoints, and one of the dataset has {len(names)}: "
            f"{', '.join(names)}",
            hint="Give all of them in this order; one with visibility 0 is not labelled.",
        )
    same = count == len(names) and new.annotations.ignore == last.annotations.ignore
    return replace(new, annotations=last.annotations) if same else new


def _name(src: Any) -> str:
    if isinstance(src, (list, tuple)) and src and all(isinstance(path, (str, os.PathLike)) for path in src):
        return " ".join(map(_name, src))
    if isinstance(src, (str, os.PathLike)):
        return without_credentials(os.fspath(src))
    return "samples from Python"


def _has_all(folder: Path, last: Manifest, new: Part) -> bool:
    """Return whether a dataset has every sample of another, in whichever shard and record."""
    index, added = Index.open(folder / last.index.file), Index.open(new.index)
    rows = pc.index_in(added.arrow("key"), value_set=index.arrow("key"))
    if rows.null_count:
        return False
    names = [name for name in added.types if name not in ("shard", "record") and not name.endswith("offset")]
    return all(
        name in index.types and index.arrow(name).take(rows).equals(added.arrow(name)) for name in names
    )


def _check_new(folder: Path, last: Manifest, new: Part, source: Any) -> None:
    """Raise SourceError for images that the dataset has already, with the same keys and bytes."""
    index, added = Index.open(folder / last.index.file), Index.open(new.index)
    rows = pc.index_in(added.arrow("key"), value_set=index.arrow("key"))
    found, rows = np.flatnonzero(rows.is_valid()), rows.drop_null().to_numpy()
    same = np.ones(len(rows), bool)
    for name in ("length", "crc"):
        same &= index.column(name)[rows] == added.column(name)[found]
    if same.any():
        raise SourceError(
            f"{same.sum():,} of the {len(added):,} samples are in the dataset already, with the same key "
            f"and bytes, such as {added.keys(found[same][:1])[0]!r}",
            path=_name(source),
            hint="Append a source of the new samples alone. stoker.remove leaves out those to be replaced.",
        )


def _publish(dataset: Part, new: Part, change: str) -> Manifest:
    parts = (dataset, new)
    check_parts(parts)
    files = [
        {key: new.folder / name for key, name in published_names(shard.name, new.manifest.container).items()}
        for shard in new.manifest.shards
    ]
    with staging_folder(dataset.folder) as staging:
        return add_part(
            dataset,
            new,
            files,
            classes=join_classes(parts),
            skipped=read_regular(new.folder / SKIPPED_NAME),
            change=change,
            staging=staging,
        )


def _convert_like(
    last: Manifest,
    folder: Path,
    source: Any,
    target: Path,
    *,
    classes: tuple[str, ...],
    given: dict[str, Any],
) -> Summary:
    # An unfinished conversion of the same source in ``target`` resumes.
    is_text = last.sample_type == "text"
    if wrong := sorted(given.keys() & set(_OF_IMAGES if is_text else _OF_TEXT)):
        raise ConfigError(
            f"{wrong[0]} is for datasets of {'images' if is_text else 'text'}, and this one has "
            f"{last.sample_type}s",
            path=folder,
            hint=f"It takes {', '.join(_OF_TEXT if is_text else _OF_IMAGES)}.",
        )
    if isinstance(source, (str, os.PathLike)) and is_data_file(source):
        raise ConfigError(
            "append adds one source, and a data.yaml names several splits",
            path=source,
            hint="Name the folder of one split, such as train/images.",
        )
    options: Mapping[str, Any] = last.options
    # With overwrite, an unfinished conversion resumes if its source is the same, and is removed otherwise.
    common: dict[str, Any] = {**given, "container": last.container, "overwrite": True}
    common["shard_size"], records = options.get("shard_bytes") or None, options.get("shard_records") or None
    if is_text:
        if classes and "label" in given:
            common["classes"] = classes
        if "label" in last.columns and "label" not in given:
            raise ConfigError(
                "the samples of the dataset have labels, and none is read",
                path=folder,
                hint="Say with label= which value of a sample it is.",
            )
        fields = str(options["fields"]).split(",")
        own = {name(field) for field in fields for name in (length_column, trained_column)}
        common.setdefault("columns", sorted(last.columns.keys() - KNOWN_COLUMNS - own - {"label"}))
        storage = Storage(shard_records=records)
        return convert_text(source, target, storage=storage, **{**_text_options(options, folder), **common})
    storage = ImageStorage(
        shard_records=records,
        subsampling=options.get("subsampling"),
        restarts=set(BAND_COLUMNS) <= last.columns.keys(),
        max_pixels=options.get("max_pixels") or MAX_PIXELS,
    )
    common.pop("allow_loss", None)
    common |= _image_options(last, folder, source, classes, given)
    return convert(source, target, storage=storage, **common)


def _image_options(
    last: Manifest, folder: Path, source: Any, classes: tuple[str, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    options = last.options
    reading, selection = given.get("source_options") or SourceOptions(), given.get("selection") or Selection()
    if "allow_loss" in given:
        selection = replace(selection, allow_loss=given["allow_loss"])
    is_file = reading.make is None and isinstance(source, (str, os.PathLike))
    has_masks = "mask_offset" in last.columns
    labelled = {"label", "object_labels"} & last.columns.keys()
    meaning: dict[str, Any] = {"ignore_index": last.annotations.ignore if has_masks else 255}
    if is_file:
        meaning["mask_map"] = options.get("mask_map")
        meaning["annotations_before_exif"] = bool(options.get("annotations_before_exif"))
        if options.get("class_map"):
            selection = replace(selection, class_map=json.loads(str(options["class_map"])))
        if labelled:
            selection = replace(selection, allow_missing_classes=True)
        elif not has_masks:
            found = find_format(Source(source, reading), reading.source_format)
            meaning["unlabelled"] = found.name in ("folder", "list", "table", "mds", "webdataset")
    return {
        "classes": classes or None if labelled else None,
        "resize": _resize(options),
        **{name: options[name] for name in ("encoding", "quality") if options.get(name)},
        "source_options": replace(reading, **meaning),
        "selection": selection,
        "captions": captions_like(last, folder),
    }


def _resize(options: Mapping[str, Option]) -> str | None:
    mode, height, width = (options.get(name) for name in ("mode", "height", "width"))
    if mode in (None, "none"):
        return None
    return f"{mode}={height}" if mode in ("shorter", "longer") else f"{mode}={height}x{width}"


def _text_options(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "vocabulary": folder,
        **{name: bool(options.get(name)) for name in ("bos", "eos")},
    }
    if not options.get("template_digest"):
        fields = str(options.get("joined") or options["fields"]).split(",")
        training = Training(train_on=options.get("train_on"), layout=options.get("layout") or None)
        return {**arguments, "fields": fields, "training": training}
    named = "chatml" if options.get("chat_template") == "chatml" else None
    if not named and TokenizerSettings.of_dataset(options).chat_template is None:
        raise ConfigError(
            "the dataset has chats, but not the template that made documents of them",
            path=folder,
            hint="Convert the new chats with vocabulary=FOLDER and the same template, then merge.",
        )
    pairs = "," in str(options["fields"])
    training = Training(
        str(options.get("joined") or options["fields"]),
        named,
        None if pairs else options.get("train_on"),
        date=options.get("template_date") or None,
        template_variables=options.get("template_variables") or None,
    )
    return {**arguments, "training": training}
