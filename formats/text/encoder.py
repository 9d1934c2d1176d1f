"""The encoder of text, which takes records from :mod:`.records` and makes the columns of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import SourceError

from ..conversion.shards.encoder import EncodedRecord
from ..dataset.columns import ListColumn
from ..dataset.manifest import TOKENIZER_NAME
from ..sources.listing import Skip
from .listing.line_format import SampleLines
from .listing.text_listing import TextListing
from .records import TextRecords

# With so many, the overhead of a tokenizer's call is small.
_CHUNK_SAMPLES = 1024


def length_column(field: str) -> str:
    """Name of the index column with the number of tokens of a field."""
    return f"{field}_length"


def trained_column(field: str) -> str:
    """Name of the index column with the runs of a field's trained tokens: first token and end of each."""
    return f"{field}_trained"


@dataclass(frozen=True)
class TextEncoder:
    """Encodes the samples of a text listing."""

    listing: TextListing  # The text
    records: TextRecords  # Makes records of lines
    # Calls ``records.encode`` in this process or in another; several threads use it at once
    make: Callable[[list[SampleLines]], list[EncodedRecord | Skip]]

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the sequences of a sample."""
        return self.records.fields

    @property
    def sample_type(self) -> str:
        """See :class:`Encoder`."""
        return "text"

    @property
    def chunk_samples(self) -> int:
        """See :class:`Encoder`."""
        return _CHUNK_SAMPLES

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        """See :class:`Encoder`; they are the numbers of tokens of the fields."""
        return {length_column(field): np.int32 for field in self.fields}

    @property
    def files(self) -> Mapping[str, bytes]:
        """See :class:`Encoder`; the file of the tokenizer, if it has one."""
        return {} if self.records.tokenizer.file is None else {TOKENIZER_NAME: self.records.tokenizer.file}

    @property
    def arrays(self) -> Mapping[str, str]:
        """See :class:`Encoder`; there are none."""
        return {}

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        """See :class:`Encoder`."""
        yield from self.make(self.listing.read(rows))

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[Any], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """See :class:`Encoder`; labels and the user's columns."""
        labels = {} if self.listing.labels is None else {"label": self.listing.labels}
        columns = {name: array.take(rows) for name, array in {**labels, **self.listing.columns}.items()}
        composer = self.records.composer
        if composer is not None and not composer.trains_all:
            bounds = np.array([bound for runs in details for bound in runs], np.int32)
            lists = ListColumn.of_counts([len(runs) for runs in details], bounds)
            columns[trained_column(composer.field)] = lists.to_arrow()
        return columns

    def strict_error(self, skip: Skip) -> SourceError:
        """See :class:`Encoder`."""
        return SourceError(
            skip.message,
            path=self.listing.path_of(skip.key),
            key=skip.key,
            hint="repair or remove the line, or convert without strict to skip it",
        )
