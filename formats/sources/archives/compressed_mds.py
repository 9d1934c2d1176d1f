"""Compressed shards of Mosaic Streaming, which are decompressed whole to read their samples.

MDSWriter writes the compressions of streaming/base/compression.py: zstd, gz, bz2, br and snappy.
"""

from __future__ import annotations

import bz2
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from stoker.errors import CorruptRecordError, StokerError, with_details

from ...containers.mds.compression import compression_of
from ...containers.mds.container import MDS
from ...containers.mds.index_file import INDEX_FILE
from ...containers.messages.image_record import FeatureNames, LeftOutError
from ...files.reading import open_regular, read_at
from ...remote.store import Store, is_url

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
