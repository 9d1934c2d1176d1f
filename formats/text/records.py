"""Records of text, made from the lines of samples.

A record is a tf.train.Example. It has an int64_list for each field, which any reader of TensorFlow's format
parses, and a bytes feature ``stoker/ids`` with all ids again, as little-endian numbers of one width. This
feature is the payload: the index locates it, its checksum covers it, and NumPy decodes it without parsing
varints (docs/decisions/0005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker._native import encode_token_records
from stoker.errors import SourceError

from ..conversion.plan import EncodedRecord
from ..dataset.columns import ListColumn
from ..dataset.manifest import TOKENIZER_NAME
from ..sources.listing import Skip
from ..token_columns import length_column, trained_column
from ..tokenization import Ids, Lengths, Tokenizer
from .chats import TemplateError, TextComposer, trained_runs
from .listing import LineFormat, SampleLines, TextListing

IDS_FEATURE = "stoker/ids"


@dataclass(frozen=True)
class TextRecords:
    """An encoder of samples that any process can use."""

    format: LineFormat  # The format of the lines of a sample
    tokenizer: Tokenizer  # Makes token ids of texts
    dtype: str  # Type of the payload: uint16 or int32
    # Makes one text from the values of a sample; None if each field is a sequence
    composer: TextComposer | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the sequences of a sample."""
        return self.format.fields if self.composer is None else (self.composer.field,)

    def encode(self, samples: list[SampleLines]) -> list[EncodedRecord | Skip]:
        """Return the records of samples, with a skip in place of each sample that is left out."""
        results = [self._composed(sample) for sample in samples]
        kept = [index for index, result in enumerate(results) if not isinstance(result, Skip)]
        columns, runs = self._tokenize([results[index] for index in kept])
        fields = [(field, *column) for field, column in zip(self.fields, columns, strict=True)]
        encoded = encode_token_records(fields, IDS_FEATURE, np.dtype(self.dtype).itemsize)
        lengths = np.stack([field_lengths for _, field_lengths in columns], axis=1).tolist()
        for number, (index, (prefix, payload)) in enumerate(zip(kept, encoded, strict=True)):
            key = samples[index].key
            if 0 in lengths[number]:
                results[index] = Skip(key, "no tokens", self.fields[lengths[number].index(0)])
            elif runs is not None and not runs[number]:
                results[index] = Skip(key, "no trained tokens")
            else:
                trained = None if runs is None else runs[number]
                results[index] = EncodedRecord(key, prefix, payload, b"", tuple(lengths[number]), (), trained)
        return results

    def _composed(self, sample: SampleLines) -> Any:
        """The texts of a sample: one for each field, or the composed one. A skip if there is none."""
        values = self.format.values(sample)
        if self.composer is None or isinstance(values, Skip):
            return values
        try:
            return self.composer.compose(values)
        except TemplateError as error:
            return Skip(sample.key, "refused by the chat template", str(error))

    def _tokenize(self, texts: Sequence[Any]) -> tuple[list[tuple[Ids, Lengths]], list[list[int]] | None]:
        """Ids and lengths of each field, and the runs of trained tokens of each sample (None: all tokens)."""
        if self.composer is None:
            fields = range(len(self.fields))
            return [self.tokenizer.encode([text[field] for text in texts]) for field in fields], None
        ids, lengths, starts, ends = self.tokenizer.encode_with_offsets(
            [composed.text for composed in texts], special=self.composer.adds_special_tokens
        )
        if self.composer.trains_all:
            return [(ids, lengths)], None
        bounds = np.concatenate(([0], np.cumsum(lengths))).tolist()
        runs = [
            trained_runs(composed.spans, len(composed.text), starts[a:b], ends[a:b])
            for composed, (a, b) in zip(texts, pairwise(bounds), strict=True)
        ]
        return [(ids, lengths)], runs


@dataclass(frozen=True)
class TextEncoder:
    """Encodes the samples of a text listing."""

    listing: TextListing  # The text
    records: TextRecords  # Makes records of lines
    # Calls ``records.encode`` in this process or in another; several threads use it at once
    make: Callable[[list[SampleLines]], list[EncodedRecord | Skip]]

    sample_type: ClassVar[str] = "text"
    chunk_samples: ClassVar[int] = 1024  # so many that the overhead of a tokenizer's call is small
    arrays: ClassVar[Mapping[str, str]] = {}

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        return {length_column(field): np.int32 for field in self.records.fields}

    @property
    def files(self) -> Mapping[str, bytes]:
        return {} if self.records.tokenizer.file is None else {TOKENIZER_NAME: self.records.tokenizer.file}

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        yield from self.make(self.listing.read(rows))

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[Any], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        columns = {name: array.take(rows) for name, array in self.listing.labelled_columns.items()}
        composer = self.records.composer
        if composer is not None and not composer.trains_all:
            bounds = np.array([bound for runs in details for bound in runs], np.int32)
            lists = ListColumn.of_counts([len(runs) for runs in details], bounds)
            columns[trained_column(composer.field)] = lists.to_arrow()
        return columns

    def strict_error(self, skip: Skip) -> SourceError:
        return SourceError(
            skip.message,
            path=self.listing.path_of(skip.key),
            key=skip.key,
            hint="Repair or remove the line, or convert without strict to skip it.",
        )
