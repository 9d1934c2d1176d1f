"""The records of external shards with the samples in them, read from a disk or by ranges from URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stoker._native import crc32c
from stoker.errors import CorruptRecordError, DecodeError, SourceError, with_details

from ..concurrency.bounded_map import thread_map
from ..containers.base import Container, Record
from ..containers.messages.image_record import ExternalSample, FeatureNames, LeftOutError
from ..dataset.reading.samples import NO_CHECKSUM
from ..sources.archives.window import window_at_url
from .shards import ExternalShard

_CONNECTIONS = 32  # shards that are read at once, each by one request after the other


class ParsedRecord(NamedTuple):
    """A record of a shard."""

    record: Record  # The record
    sample: ExternalSample | None  # The sample in it; None if it is left out
    crc: int = NO_CHECKSUM  # CRC32C of its image, or NO_CHECKSUM where the image was not read
    reason: str = ""  # Why it is left out


def parse_records(
    records: Iterable[Record], container: Container, names: FeatureNames, path: str | Path, shard: str
) -> Iterator[ParsedRecord]:
    """Yield the records that the container's ``scan`` found in a shard, with their samples."""
    for record in records:
        with errors_about(record, path, shard):
            parsed = _parsed(record, container, names)
        yield parsed


def _parsed(record: Record, container: Container, names: FeatureNames) -> ParsedRecord:
    try:
        sample = container.parse_image(record, names)
    except DecodeError:
        return ParsedRecord(record, None, reason="image whose header cannot be read")
    except LeftOutError as error:
        return ParsedRecord(record, None, reason=str(error))
    return ParsedRecord(record, sample, _checksum(record, sample))


def _checksum(record: Record, sample: ExternalSample) -> int:
    if record.read is not None:
        return NO_CHECKSUM if sample.crc is None else sample.crc
    offset, length = sample.payload
    return crc32c(record.view[offset : offset + length])


@contextmanager
def errors_about(record: Record, path: str | Path, shard: str) -> Iterator[None]:
    """Raise the errors of the block with the names of the record and its shard."""
    try:
        yield
    except (CorruptRecordError, SourceError) as error:
        key = record.key.decode(errors="backslashreplace") or None
        raise with_details(error, path=path, shard=shard, record=record.number, key=key) from error


def parsed_at_urls(
    container: Container, names: FeatureNames, shards: Sequence[ExternalShard], shard_names: Sequence[str]
) -> Iterator[list[ParsedRecord]]:
    """Yield the records of each shard at a URL, without reading images; several shards are read at once."""
    read = partial(_read_at_url, container, names)
    named_shards = zip(shards, shard_names, strict=True)
    for _, parsed in thread_map(read, named_shards, "fetch", _CONNECTIONS, _CONNECTIONS):
        yield parsed


def _read_at_url(
    container: Container, names: FeatureNames, named_shard: tuple[ExternalShard, str]
) -> list[ParsedRecord]:
    shard, name = named_shard
    if container.scan_at_url is None:
        raise TypeError(f"shards of {container.name} cannot be read by ranges")
    records = container.scan_at_url(window_at_url(shard.file, shard.size), shard.size, shard.file)
    return [
        parsed._replace(record=parsed.record._replace(parts=(), read=None))
        for parsed in parse_records(records, container, names, shard.file, name)
    ]
