"""Conversion of a source as the samples of a dataset were converted, for :mod:`.append`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.errors import ConfigError

from ..conversion.convert import convert
from ..conversion.execution import Summary
from ..dataset.index import BAND_COLUMNS
from ..dataset.manifest import Manifest, Option
from ..sources.annotated.yolo.yolo_splits import is_data_file
from ..sources.detect import find_format
from ..sources.source import Source
from ..text.convert import convert_text

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


def convert_like(
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
            hint=f"options that say how the source is read are {', '.join(allowed)}",
        )
    if isinstance(src, (str, os.PathLike)) and is_data_file(src):
        raise ConfigError(
            "append adds one source, and a data.yaml names several splits",
            path=src,
            hint="name the folder of one split, such as train/images",
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
            "the dataset has chats, but not the template that made texts of them",
            path=folder,
            hint="convert the new chats with --vocabulary FOLDER and the same template, then stoker merge",
        )
    return {**arguments, "fields": None, "messages": options["fields"], "chat_template": "chatml"}
