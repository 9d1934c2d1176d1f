"""The images of shards and archives, gathered one shard after the other into a listing."""

from __future__ import annotations

import bz2
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, CorruptRecordError, DecodeError, SourceError, StokerError, with_details
from stoker.urls import is_url

from ..codecs.codec import Codec
from ..containers.base import Container, Read, Record, RecordPart
from ..containers.external import Window, expand, is_pattern, window_at_url
from ..containers.image_record import ExternalSample, FeatureNames, LeftOutError, Value
from ..containers.mds import INDEX_FILE, MDS, compression_of
from ..containers.recordio import RECORDIO
from ..containers.webdataset import (
    TAR_NAMES,
    BadArchiveError,
    SampleParts,
    TarSample,
    archive_error,
    find_samples,
    image_part,
)
from ..dataset.columns import Strings
from ..dataset.index import KNOWN_COLUMNS
from ..files import open_regular, read_at
from ..remote.store import Store
from ..threads import available_cores, thread_map
from .entry_columns import EntryColumns
from .image_files import holds_alone, holds_without_images
from .listing import FileRanges, ListedBlocks, Listing, Skip, no_images_error
from .source import Source
from .source_reader import source_status


class ShardImage(NamedTuple):
    """An image in a shard."""

    key: str  # Its name
    offset: int  # Its first byte in the file
    length: int  # Its bytes
    entry: dict[str, Any]  # The values of its sample by name: path, label, and its columns
    record: int = 0  # Number of its record in the shard
    pieces: int = 1  # Pieces in which its record lies


class ShardImages(NamedTuple):
    """A shard's bytes, the time of its last change, its images, and the entries that are left out."""

    size: int
    modified: int
    images: list[ShardImage]
    skipped: list[Skip]


class Gathered:
    """The images of shards, which are added one after the other."""

    def __init__(self) -> None:
        self._columns = EntryColumns(cells=False)
        self._keys = Strings()
        self._sizes: list[int] = []
        self._modified: list[int] = []
        self._labelled: set[bool] = set()
        self._ranges: list[tuple[int, int, int, int, int]] = []  # shard, record, offset, bytes, pieces
        self.skipped: list[Skip] = []

    def __len__(self) -> int:
        """The number of images."""
        return len(self._ranges)

    def add(self, shard: ShardImages) -> None:
        """Add the images of the next shard."""
        number = len(self._sizes)
        self._sizes.append(shard.size)
        self._modified.append(shard.modified)
        self.skipped += shard.skipped
        for image in shard.images:
            self._keys.add(image.key.encode(errors="backslashreplace"))
            self._labelled.add(image.entry["label"] is not None)
            self._ranges.append((number, image.record, image.offset, image.length, image.pieces))
        for _ in self._columns.gather(image.entry for image in shard.images):
            pass

    def listing(self, files: Sequence[str], compressed_column: str | None = None) -> Listing:
        """Return the listing of all images, one at least."""
        if len(self._labelled) > 1:
            raise ValueError("some samples have a class and some have none")
        shard, record, offset, length, pieces = np.array(self._ranges, np.int64).T
        rows = np.arange(len(shard), dtype=np.int64)
        labels, classes = self._columns.labels(rows) if True in self._labelled else (None, ())
        file, sizes = shard.astype(np.int32), tuple(self._sizes)
        blocks = ranges = None
        if compressed_column is None:
            cut = pieces.astype(np.int32) if pieces.max() > 1 else None
            ranges = FileRanges(tuple(files), sizes, file, offset.copy(), cut)
        else:
            zeros, at = np.zeros(len(rows), np.int32), record.astype(np.int32)
            blocks = ListedBlocks(tuple(files), sizes, compressed_column, file, zeros, at, kind="mds")
        return Listing(
            files[0].rpartition("/")[0],
            self._keys.to_arrow(),
            length.copy(),
            np.array(self._modified, np.int64)[file],
            labels=labels,
            classes=classes,
            columns=self._columns.others(rows),
            skipped=tuple(sorted(self.skipped)),
            ranges=ranges,
            blocks=blocks,
        )


_TAKEN = {*KNOWN_COLUMNS, "label", "row", "image", "mask", "count", "dataset", "segmentation"}


def free_name(name: str) -> str:
    """Return the name of a column in the dataset: a name that datasets use themselves gets a ``_``."""
    return f"{name}_" if name in _TAKEN or name.startswith(("object_", "mask_")) else name


def name_parts(fields: Mapping[str, str | None] | None, usual: FeatureNames) -> FeatureNames:
    """Return the parts to read: the usual ones, and those that the user names in ``fields``.

    A part is the image, the label, the key or a column of that name; None leaves it out.
    """
    names, columns = usual, dict(usual.columns)
    part_of_role: dict[str, str] = {}
    for part, name in (fields or {}).items():
        if name is None:
            columns = {column: column_part for column, column_part in columns.items() if column_part != part}
            names = replace(names, label=None) if part == names.label else names
        elif name in ("image", "label", "key"):
            part_of_role[name] = part
        elif name in (*KNOWN_COLUMNS, "path", ""):
            raise ConfigError(f"a column cannot have the name {name!r}", hint="give it another name")
        else:
            columns[name] = part
    return replace(
        names,
        encoded=part_of_role.get("image", names.encoded),
        label=part_of_role.get("label", names.label),
        key=part_of_role.get("key"),
        columns=columns,
    )


_CHUNK = 1 << 20
_MOST = 1 << 33  # bytes of a shard: MDSWriter's usual limit is 64 MiB


def is_compressed_shard(file: str) -> bool:
    """Return whether a shard has the suffix of a compressed file."""
    return compression_of(file.rpartition("/")[2], b"") is not None


@contextmanager
def uncompressed(file: str) -> Iterator[Path]:
    """Yield the file of a shard, or an uncompressed copy that lasts for the block. Errors name the shard."""
    if not is_url(file) and not is_compressed_shard(file):
        yield Path(file)
        return
    folder, _, name = file.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="stoker-shard-") as temporary:
        copy = Path(temporary) / name
        beside = _beside(folder, copy)
        if beside is not None:
            copy.with_name(INDEX_FILE).write_bytes(beside)
        try:
            if is_compressed_shard(file):
                copy = _decompress(Path(file) if not is_url(file) else copy, Path(temporary))
            yield copy
        except StokerError as error:
            if not str(error.path).startswith(temporary):
                raise
            raise with_details(error, path=file, shard=name) from error


def _beside(folder: str, copy: Path) -> bytes | None:
    """Copy a shard at a URL, and return the content of ``index.json`` beside the shard; None without one."""
    if is_url(folder):
        store = Store(folder)
        store.download(copy.name, copy)
        return store.read_if_there(INDEX_FILE)
    file = Path(folder) / INDEX_FILE
    return file.read_bytes() if file.is_file() else None


def _decompress(file: Path, into: Path) -> Path:
    """Decompress a shard into a folder, and return the path of the result."""
    kind = compression_of(file.name, b"") or ""
    target = into / file.name.removesuffix(f".{kind}")
    try:
        with target.open("xb") as out:
            written = 0
            for piece in _DECOMPRESS[kind](file):
                written += len(piece)
                if written > _MOST:
                    raise ValueError(f"it has more than {_MOST >> 30} GiB")
                out.write(piece)
    except (pa.ArrowException, zlib.error, OSError, ValueError, EOFError) as error:
        raise CorruptRecordError(
            f"the shard cannot be decompressed: {error}",
            path=file,
            shard=file.name,
            hint="copy the shard again; if it is whole, write it with another compression",
        ) from error
    return target


def _chunks(file: Path) -> Iterator[bytes]:
    with open_regular(file) as (descriptor, size):
        for offset in range(0, size, _CHUNK):
            yield read_at(descriptor, offset, _CHUNK)


def _stream(codec: str) -> Callable[[Path], Iterator[bytes]]:
    def pieces(file: Path) -> Iterator[bytes]:
        with pa.OSFile(str(file)) as raw, pa.CompressedInputStream(raw, codec) as stream:
            while piece := stream.read(_CHUNK):
                yield piece

    return pieces


def _by(make: Callable[[], Any]) -> Callable[[Path], Iterator[bytes]]:
    def pieces(file: Path) -> Iterator[bytes]:
        decompressor = make()
        for chunk in _chunks(file):
            yield decompressor.decompress(chunk)
        if not decompressor.eof:
            raise ValueError("it is cut short")

    return pieces


def _snappy(file: Path) -> Iterator[bytes]:
    """Decompress snappy's format of one block, whose first bytes state its length as a varint."""
    data = b"".join(_chunks(file))
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > _MOST or size > 64 * len(data):  # three bytes copy 64 at the most
        raise ValueError(f"it claims {size} bytes")
    yield bytes(pa.Codec("snappy").decompress(data, size))


_DECOMPRESS: dict[str, Callable[[Path], Iterator[bytes]]] = {
    "zstd": _stream("zstd"),
    "br": _stream("brotli"),
    "gz": _by(lambda: zlib.decompressobj(31)),
    "bz2": _by(bz2.BZ2Decompressor),
    "snappy": _snappy,
}


def mds_images(file: str, column: str) -> Iterator[pa.Array]:
    """Yield the images of a shard one after the other, (1,) binary each; null for a sample without an image.

    ``column`` holds the images; empty for the only column of images.
    """
    names = FeatureNames(encoded=column, label=None, text=None, key=None)
    last = None
    with uncompressed(file) as path:
        for record in MDS.scan(path):
            if last is not None:
                yield last
            try:
                span = MDS.parse_image(record, names).payload
                image = bytes(record.view[span.offset : span.offset + span.length])
            except (LeftOutError, StokerError):  # the listing has said why
                image = None
            last = pa.array([image], pa.large_binary())
    if last is not None:  # the copy of the shard is removed before its last image is used
        yield last


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


_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")  # reading names the remedy
_START = 1 << 10
_LOCAL_WINDOW = 2048  # the header of an image often follows two members of a few bytes
_CONCURRENT = 16
_LABEL_HINT = "name another member for the label, or none: --label"


def is_tar(source: Source) -> bool:
    """Whether a source is an archive by its name, or a folder with archives and no image beside them."""
    path = os.fspath(source.path).rstrip("/")
    if path.endswith(_SUFFIXES) and (is_url(path) or is_pattern(path) or not Path(path).is_dir()):
        return True
    if is_url(path):
        if is_pattern(path) or PurePosixPath(path).suffix:
            return False
        there = any("/" not in name for name in source.folder.names(".tar"))
        return there and not len(source.folder.images()[0])
    return Path(path).is_dir() and holds_without_images(path, ".tar")


def list_tar(source: Source) -> Listing:
    """List the images in archives, in the order of the archives and of their members."""
    files = expand(source.path)
    gathered = Gathered()
    for archive in _read_all(files, name_parts(source.parts, TAR_NAMES)):
        gathered.add(archive)
    if not gathered:
        raise no_images_error("the archives hold no image", source.path, gathered.skipped)
    try:
        return gathered.listing(files)
    except ValueError as error:
        raise SourceError(
            f"the classes cannot be used: {error}", path=source.path, hint=_LABEL_HINT
        ) from error


def _read_all(files: list[str], names: FeatureNames) -> Iterator[ShardImages]:
    if not is_url(files[0]):
        yield from (_read_local(file, names) for file in files)
        return
    read = partial(_read_remote, names=names)
    for _, archive in thread_map(read, files, "fetch", _CONCURRENT, _CONCURRENT):
        yield archive


def _read_local(file: str, names: FeatureNames) -> ShardImages:
    try:
        with open_regular(file) as (descriptor, size):
            read = Window(partial(read_at, descriptor), size, _LOCAL_WINDOW)
            return _read_tar(file, read, size, os.fstat(descriptor).st_mtime_ns, names)
    except OSError as error:
        raise SourceError(f"the archive cannot be read: {error.strerror}", path=file) from error


def _read_remote(file: str, names: FeatureNames) -> ShardImages:
    size, modified = source_status(file, "archive")
    return _read_tar(file, window_at_url(file, size), size, modified, names)


def _read_tar(file: str, read: Read, size: int, modified: int, names: FeatureNames) -> ShardImages:
    archive = ShardImages(size, modified, [], [])
    try:
        for sample in find_samples(read, size):
            image = _image_or_skip(file, sample, len(archive.images) + len(archive.skipped), read, names)
            if isinstance(image, Skip):
                archive.skipped.append(image)
            else:
                archive.images.append(image)
    except BadArchiveError as error:
        record = len(archive.images) + len(archive.skipped)
        raise archive_error(error, read(0, _START), file, record) from error
    return archive


def _image_or_skip(
    file: str, sample: TarSample, record: int, read: Read, names: FeatureNames
) -> ShardImage | Skip:
    try:
        return _image_tar(sample, read, names)
    except LeftOutError as error:
        return Skip(sample.key, str(error))
    except SourceError as error:
        shard = file.rpartition("/")[2]
        raise with_details(error, path=file, shard=shard, record=record, key=sample.key) from error


def _image_tar(sample: TarSample, read: Read, names: FeatureNames) -> ShardImage:
    def content(part: RecordPart) -> bytes:
        return read(sample.offset + part.span.offset, part.span.length)

    parts = SampleParts(sample.parts, content)
    image = image_part(parts, names)
    key = parts.value(names.key) if names.key else None
    values: dict[str, Value | None] = {name: parts.value(part) for name, part in names.columns.items()}
    entry: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    entry["label"] = parts.label(names.label) if names.label else None
    entry["path"] = sample.key
    offset, length = sample.offset + image.span.offset, image.span.length
    return ShardImage(sample.key if key is None else str(key), offset, length, entry)
