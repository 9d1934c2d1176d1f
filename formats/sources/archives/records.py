"""MXNet's RecordIO files and shards of Mosaic Streaming as sources.

Listing reads every record, because its labels and its columns lie in it. Conversion reads images by offset
and length again; of compressed shards it decompresses a whole one.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from stoker.errors import CorruptRecordError, DecodeError, SourceError, with_details

from ...codecs.codec import Codec
from ...concurrency.bounded_map import thread_map
from ...concurrency.cores import available_cores
from ...containers.base import Container, Record
from ...containers.mds.container import MDS
from ...containers.mds.index_file import INDEX_FILE
from ...containers.messages.image_record import ExternalSample, FeatureNames, LeftOutError
from ...containers.recordio import RECORDIO
from ...remote.store import is_url
from ..folders.suffixes import holds_alone
from ..listing import Listing, Skip
from ..no_images import no_images_error
from ..source import Source
from ..source_status import source_status
from .compressed_mds import is_compressed_shard, uncompressed
from .names import expand, is_pattern
from .part_names import free_name, name_parts
from .shard_images import Gathered, ShardImage, ShardImages

_HINT = "stoker index reads them in place"
_NO_NAMES = FeatureNames()


def is_recordio(source: Source) -> bool:
    """Return whether a source is a RecordIO file by its name, or a folder with nothing but such files."""
    return _is_named(source, ".rec") or (_is_folder(source) and _holds(source, ".rec", (".idx", ".lst")))


def is_mds(source: Source) -> bool:
    """Return whether a source is an MDS shard by its name, or a folder with shards and ``index.json``."""
    if _is_named(source, ".mds"):
        return True
    if is_url(source.path):
        return _is_folder(source) and any(".mds" in name for name in source.folder.names(""))
    try:
        described = json.loads((Path(source.path) / INDEX_FILE).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and "shards" in described


def _is_named(source: Source, suffix: str) -> bool:
    path = os.fspath(source.path).rstrip("/")
    name = path.rpartition("/")[2]
    if not is_url(path) and not is_pattern(path) and Path(path).is_dir():
        return False
    return name.endswith(suffix) or (f"{suffix}." in name and is_compressed_shard(name))


def _is_folder(source: Source) -> bool:
    path = os.fspath(source.path).rstrip("/")
    if is_url(path):
        return not is_pattern(path) and not Path(path).suffix
    return Path(path).is_dir()


def _holds(source: Source, suffix: str, others: tuple[str, ...]) -> bool:
    if not is_url(source.path):
        return holds_alone(source.path, suffix, others)
    names = source.folder.names("")
    return any(name.endswith(suffix) for name in names) and all(
        name.endswith((suffix, *others)) for name in names
    )


def list_recordio(source: Source) -> Listing:
    """List the images in RecordIO files, in the order of the files and of their records."""
    return _list(source, RECORDIO)


def list_mds(source: Source) -> Listing:
    """List the images in MDS shards, compressed or not, in the order of the shards and of their samples.

    Raises: As :func:`list_recordio`.
    """
    return _list(source, MDS)


def _list(source: Source, container: Container) -> Listing:
    files = _files(source)
    fields = source.parts
    roles = {part: name for part, name in fields.items() if name in ("image", "label", "key", None)}
    usual = container.feature_names
    names = None if usual is None else name_parts(roles, usual)
    renamed = {part: name for part, name in fields.items() if name not in ("image", "label", "key")}
    gathered = Gathered()
    cores = available_cores()
    for _, shard in thread_map(partial(_read, container=container, names=names), files, "list", cores, cores):
        images = [image._replace(entry=_entry(image.entry, renamed)) for image in shard.images]
        gathered.add(shard._replace(images=images))
    if not gathered:
        raise no_images_error("the shards hold no image", source.path, gathered.skipped)
    try:
        column = names.encoded if names else ""
        return gathered.listing(files, column if any(map(is_compressed_shard, files)) else None)
    except ValueError as error:
        raise SourceError(f"the classes cannot be used: {error}", path=source.path) from error


def _files(source: Source) -> list[str]:
    """Return the paths or URLs of the shards; of a folder at a URL also those of compressed shards."""
    if is_url(source.path) and _is_folder(source):
        names = [name for name in source.folder.names("") if "/" not in name]
        plain = [name for name in names if name.endswith((".mds", ".rec"))]
        compressed = [name for name in names if ".mds." in name and is_compressed_shard(name)]
        return [f"{os.fspath(source.path).rstrip('/')}/{name}" for name in sorted(plain or compressed)]
    return expand(source.path)


def _read(file: str, container: Container, names: FeatureNames | None) -> ShardImages:
    size, modified = source_status(file, "shard")
    shard = ShardImages(size, modified, [], [])
    try:
        with uncompressed(file) as path:
            for record in container.scan(path):
                _add(shard, file, record, container, names)
    except OSError as error:
        raise SourceError(f"the shard cannot be read: {error.strerror}", path=file) from error
    return shard


def _add(
    shard: ShardImages, file: str, record: Record, container: Container, names: FeatureNames | None
) -> None:
    """Add the image of a record, or why it is left out."""
    name = file.rpartition("/")[2]
    key = record.key.decode(errors="backslashreplace") or f"{name}:{record.number}"
    try:
        sample = container.parse_image(record, names or _NO_NAMES)
        if sample.header.codec == Codec.RAW:
            raise SourceError("the image is raw pixels, and conversions read encoded images", hint=_HINT)
    except DecodeError as error:
        shard.skipped.append(Skip(key, "broken image", error.message))
    except LeftOutError as error:
        shard.skipped.append(Skip(key, str(error)))
    except (CorruptRecordError, SourceError) as error:
        raise with_details(error, path=file, shard=name, record=record.number, key=key) from error
    else:
        shard.images.append(_image(record, sample, sample.key or key))


def _image(record: Record, sample: ExternalSample, key: str) -> ShardImage:
    label = list(sample.label) if isinstance(sample.label, tuple) else sample.label
    entry: dict[str, Any] = {**sample.columns, "label": label, "path": key}
    offset = record.offset + sample.payload.offset
    return ShardImage(key, offset, sample.payload.length, entry, record.number, record.pieces)


def _entry(entry: dict[str, Any], renamed: dict[str, str | None]) -> dict[str, Any]:
    """The values of a sample, with the names of columns in the dataset; None leaves a column out."""
    fixed = {name: entry[name] for name in ("label", "path")}
    names = {name: renamed.get(name, free_name(name)) for name in entry.keys() - fixed.keys()}
    return fixed | {new: entry[name] for name, new in names.items() if new is not None}
