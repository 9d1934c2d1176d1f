"""A shard for the records that lie in several pieces in the shard of another program.

No loader can read such a record in place. The indexer writes it in one piece to this shard, beside the index.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stoker.errors import SourceError

from ..containers.base import Container, Record
from ..dataset.manifest import Shard
from ..files.reading import file_digest

_NAME = "joined-records"


class JoinedRecord(NamedTuple):
    """The location of a record: the number of the shard, its number there, and the offset of its value."""

    shard: int
    record: int
    offset: int


class JoinedRecords:
    """The shard for joined records, whose number comes last; its file is made with the first record."""

    def __init__(self, folder: Path, container: Container, number: int) -> None:
        self._number = number
        self._path = folder / _NAME
        self._container = container
        self._records = self._bytes = 0

    def add(self, record: Record) -> JoinedRecord:
        """Write a record in one piece, and return its location."""
        if self._container.join is None:
            raise SourceError(f"the record lies in {record.pieces} pieces, which cannot be read in place")
        data, before = self._container.join(record.view)
        with self._path.open("ab") as file:
            file.write(data)
        location = JoinedRecord(self._number, self._records, self._bytes + before)
        self._records += 1
        self._bytes += len(data)
        return location

    def shards(self) -> list[Shard]:
        """Return the shard, or none if there was no such record."""
        if not self._records:
            return []
        return [Shard(_NAME, self._bytes, self._records, file_digest(self._path))]
