"""``stoker.append``: a version of a dataset with the samples of another source."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from stoker.errors import ConfigError, DatasetError, StokerError, StorageError, WriteError
from stoker.urls import without_credentials

from ..containers.registry import CONTAINERS
from ..conversion.convert import convert
from ..conversion.execution import Summary
from ..conversion.writer import appended_classes
from ..dataset.index import BAND_COLUMNS, Index
from ..dataset.joining import Part, add_part, check_parts, join_classes
from ..dataset.manifest import SKIPPED_NAME, Manifest, Option, published_names
from ..dataset.versions import ChangeSummary, locked_dataset, read_sha256, staging_folder, with_sha256
from ..files import remove
from ..sources.classes import check_classes
from ..sources.detection import is_data_file
from ..sources.registry import find_format
from ..sources.source import Source
from ..text.convert import convert_text

_UNFINISHED = ".stoker-append"
_OF_IMAGES = (
    "make",
    "fields",
    "strict",
    "class_depth",
    "unlabelled",
    "follow_links",
    "max_pixels",
    "engine",
    "source_format",
    "images",
    "masks",
    "instances",
    "path_column",
    "label_column",
    "suffix",
    "skip_other_classes",
    "max_per_class",
    "allow_loss",
)
_OF_TEXT = ("strict", "parallel", "label", "columns")


def append(
    dataset: str | os.PathLike[str],
    src: str | os.PathLike[str] | Iterable[Any],
    *,
    classes: Sequence[str] | None = None,
    num_threads: int | None = None,
    progress: Callable[[int, int, int, str], None] | None = None,
    **options: Any,
) -> ChangeSummary:
    """Add the samples of a source to a dataset as its next version. Shards and earlier versions stay.

    The samples are converted as the dataset was: with its container, size, encoding and tokenizer. If
    the call is killed, the last version stays valid, and the same call resumes. If the dataset already has
    all samples of the source, with the same keys and bytes, no version is made.

    :class:`stoker.Writer` with ``append=True`` makes such a version from samples of a program.

    Args:
        dataset: The dataset's folder.
        src: A source as :func:`stoker.convert` takes it, or :func:`stoker.convert_text` for text.
        classes: Names of the classes, those of the dataset first, then new ones. None takes those of the
            dataset; another class in the source is then an error.
        num_threads: Number of threads; by default the number of cores that this process may use.
        progress: Called as by :func:`stoker.convert`.
        options: Options of :func:`stoker.convert` that say how a source is read, such as ``source_format``,
            ``images``, ``fields``, ``label_column`` or ``strict``; of text ``label``, ``columns``,
            ``parallel`` and ``strict``.

    Raises:
        ConfigError: An option is not one of these, or the samples differ in form from those of the dataset.
        DatasetError: There is no dataset in the folder, or it is at a URL or made of shards of another
            program.
        LockedError: Another process changes the dataset.
        StokerError: As :func:`stoker.convert` and :func:`stoker.convert_text`.
    """
    with locked_dataset(dataset, resumes=True) as (folder, last):
        _check_own_shards(folder, last)
        names = appended_classes(check_classes(classes), last)
        unfinished = folder / _UNFINISHED
        arguments = {**options, "num_threads": num_threads, "progress": progress}
        try:
            conversion = _convert_like(last, folder, src, unfinished, classes=names, **arguments)
            manifest = with_sha256(Manifest.load(unfinished), read_sha256(unfinished), unfinished)
            new = Part.of(unfinished, _with_meaning(manifest, last, src))
            already = _has_all(folder, last, new)
            grown = last if already else _publish(Part.of(folder, last), new, f"append {_name(src)}")
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
            skipped=(new.folder / SKIPPED_NAME).read_bytes(),
            change=change,
            staging=staging,
        )


def _convert_like(
    last: Manifest, folder: Path, src: Any, target: Path, *, classes: tuple[str, ...], **arguments: Any
) -> Summary:
    """Convert a source into a new dataset, whose samples get the form that the dataset ``last`` has.

    An unfinished conversion of the same source in ``target`` resumes. ``arguments`` has the other options of
    :func:`stoker.append`.
    """
    allowed = _OF_TEXT if last.sample_type == "text" else _OF_IMAGES
    if unknown := sorted(arguments.keys() - {*allowed, "num_threads", "progress"}):
        raise ConfigError(
            f"append has no option {unknown[0]}: new samples are converted as those of the dataset were",
            hint=f"Options that say how the source is read are {', '.join(allowed)}.",
        )
    if isinstance(src, (str, os.PathLike)) and is_data_file(src):
        raise ConfigError(
            "append adds one source, and a data.yaml names several splits",
            path=src,
            hint="Name the folder of one split, such as train/images.",
        )
    # With overwrite, an unfinished conversion resumes if its source is the same, and is removed otherwise.
    common = {"format": last.container, "overwrite": True, **_sharding(last.options), **arguments}
    if last.sample_type == "text":
        names = {"classes": classes} if classes and arguments.get("label") is not None else {}
        return convert_text(src, target, **{**_text_options(last, folder), **names, **common})
    options = _image_options(last, folder, src, classes, arguments.get("source_format"))
    if arguments.get("make") is None and isinstance(src, (str, os.PathLike)):
        options |= _reading(last.options)
    return convert(src, target, **{**options, **common})


def _reading(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the options for reading annotations, which the added source needs, too."""
    reading: dict[str, Any] = {"mask_map": options["mask_map"]} if options.get("mask_map") else {}
    if options.get("class_map"):
        reading["class_map"] = json.loads(str(options["class_map"]))
    return reading


def _sharding(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the options that set the size of shards, if the conversion had any."""
    names = {"shard_bytes": "shard_size", "shard_records": "shard_records"}
    return {name: options[key] for key, name in names.items() if options.get(key)}


def _image_options(
    last: Manifest, folder: Path, src: Any, classes: tuple[str, ...], source_format: str | None
) -> dict[str, Any]:
    options = last.options
    labelled = {"label", "object_labels"} & last.columns.keys()
    arguments: dict[str, Any] = {
        "resize": _resize(options),
        "restarts": set(BAND_COLUMNS) <= last.columns.keys(),
        "ignore_index": last.annotations.ignore if "mask_offset" in last.columns else 255,
        "classes": classes or None if labelled else None,
    }
    if labelled:
        arguments["allow_missing_classes"] = True
    elif isinstance(src, (str, os.PathLike)) and "mask_offset" not in last.columns:
        arguments["unlabelled"] = find_format(Source(src), source_format).name == "folder"
    if options.get("caption_column"):
        arguments |= {"caption_column": options["caption_column"], "vocabulary": folder}
        arguments |= {name: bool(options.get(name)) for name in ("bos", "eos")}
    arguments |= {name: options[name] for name in ("encoding", "quality", "subsampling") if options.get(name)}
    return arguments


def _resize(options: Mapping[str, Option]) -> str | None:
    mode, height, width = (options.get(name) for name in ("mode", "height", "width"))
    if mode in (None, "none"):
        return None
    return f"{mode}={height}" if mode in ("shorter", "longer") else f"{mode}={height}x{width}"


def _text_options(last: Manifest, folder: Path) -> dict[str, Any]:
    options = last.options
    arguments: dict[str, Any] = {
        "vocabulary": folder,
        "fields": str(options.get("joined") or options["fields"]).split(","),
    }
    arguments |= {name: bool(options.get(name)) for name in ("bos", "eos")}
    if options.get("train_on"):
        arguments["train_on"] = options["train_on"]
    if not options.get("chat_template"):
        return arguments
    if options["chat_template"] != "chatml":
        raise ConfigError(
            "the dataset has chats, but not the template that made documents of them",
            path=folder,
            hint="Convert the new chats with vocabulary=FOLDER and the same template, then merge both.",
        )
    return {**arguments, "fields": None, "messages": options["fields"], "chat_template": "chatml"}
