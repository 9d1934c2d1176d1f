"""The encoder of text: records of token ids.

A record is a tf.train.Example with an int64_list for each field, which any reader of TensorFlow's format
parses, and a bytes feature ``stoker/ids`` with all ids again, as little-endian numbers of one width. That
feature is the payload: the index locates it, its checksum covers it, and NumPy decodes it without parsing
varints (docs/decisions/0005).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import SourceError

from ..containers.messages.wire import delimited
from ..conversion.shards.encoder import EncodedRecord
from ..dataset.columns.list_column import ListColumn
from ..dataset.manifest import TOKENIZER_NAME
from ..sources.listing import Skip
from .training.chat_template import TemplateError
from .training.composition import trained_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ..tokenization.tokenizers import Tokenizer
    from .listing.text_listing import TextListing
    from .training.composition import ComposedText, Composition

__all__ = ["IDS_FEATURE", "TextEncoder", "encode_varints", "length_column", "trained_column"]

IDS_FEATURE = "stoker/ids"

# Enough to make the overhead of a call of a tokenizer or of Arrow small.
_CHUNK_SAMPLES = 1024
_BYTES_LIST, _INT64_LIST = 1, 3


def length_column(field: str) -> str:
    """Name of the index column with the number of tokens of a field."""
    return f"{field}_length"


def trained_column(field: str) -> str:
    """Name of the index column with the runs of a field's trained tokens: first token and end of each."""
    return f"{field}_trained"


@dataclass(frozen=True)
class TextEncoder:
    """Encodes the samples of a text listing, see :class:`stoker.formats.conversion.shards.encoder.Encoder`.

    Attributes:
        listing: The text.
        tokenizer: Makes token ids of the text.
        dtype: Type of the payload: uint16 or int32.
        composition: Makes one text of the values of a sample; None if each field is a sequence.
    """

    listing: TextListing
    tokenizer: Tokenizer
    dtype: str
    composition: Composition | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the sequences of a sample."""
        return self.listing.fields if self.composition is None else (self.composition.field,)

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
        return {} if self.tokenizer.file is None else {TOKENIZER_NAME: self.tokenizer.file}

    @property
    def arrays(self) -> Mapping[str, str]:
        """See :class:`Encoder`; there are none."""
        return {}

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        """See :class:`Encoder`."""
        found: list[Any] = self.listing.texts(rows)
        keys = self.listing.keys.take(rows).to_pylist()
        runs: list[list[int]] = []
        if self.composition is None:
            texts = [one for one in found if not isinstance(one, Skip)]
            columns = [self._tokenize([text[field] for text in texts]) for field in range(len(self.fields))]
        else:
            found, columns, runs = self._compose(keys, found, self.composition)
        names = [delimited(1, field.encode()) for field in self.fields]
        at = 0
        for key, one in zip(keys, found, strict=True):
            if isinstance(one, Skip):
                yield one
                continue
            parts = [column[at] for column in columns]
            trained = runs[at] if runs else None
            at += 1
            lengths = tuple(part.length for part in parts)
            if 0 in lengths:
                yield Skip(key, "no tokens", self.fields[lengths.index(0)])
                continue
            if trained is not None and not trained:
                yield Skip(key, "no trained tokens")
                continue
            payload = b"".join(part.ids for part in parts)
            prefix = _record_prefix(names, [part.varints for part in parts], len(payload))
            yield EncodedRecord(key, prefix, payload, b"", lengths, (), trained)

    def _compose(
        self, keys: Sequence[str], found: Sequence[tuple[Any, ...] | Skip], composition: Composition
    ) -> tuple[list[Any], list[list[_Sequence]], list[list[int]]]:
        """The samples with skips for those that give no text, their tokens, and their runs."""
        composed = [
            one if isinstance(one, Skip) else _compose(composition, key, one)
            for key, one in zip(keys, found, strict=True)
        ]
        texts = [one for one in composed if not isinstance(one, Skip)]
        ids, lengths, starts, ends = self.tokenizer.encode_places(
            [one.text for one in texts], special=composition.adds_special_tokens
        )
        bounds = np.concatenate(([0], np.cumsum(lengths))).tolist()
        runs = [
            trained_runs(one.spans, len(one.text), starts[a:b], ends[a:b])
            for one, (a, b) in zip(texts, pairwise(bounds), strict=True)
            if one.spans is not None
        ]
        return composed, [self._sequences(ids, lengths)], runs

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[Any], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """See :class:`Encoder`; labels and the user's columns."""
        labels = {} if self.listing.labels is None else {"label": self.listing.labels}
        columns = {name: array.take(rows) for name, array in {**labels, **self.listing.columns}.items()}
        if self.composition is not None and not self.composition.trains_all:
            runs = np.array([place for one in details for place in one], np.int32)
            lists = ListColumn.of_counts([len(one) for one in details], runs)
            columns[trained_column(self.composition.field)] = lists.to_arrow()
        return columns

    def strict_error(self, skip: Skip) -> SourceError:
        """See :class:`Encoder`."""
        return SourceError(
            skip.message,
            path=self.listing.path_of(skip.key),
            key=skip.key,
            hint="repair or remove the line, or convert without strict to skip it",
        )

    def _tokenize(self, texts: Sequence[str]) -> list[_Sequence]:
        return self._sequences(*self.tokenizer.encode(texts))

    def _sequences(self, ids: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> list[_Sequence]:
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        varints, places = encode_varints(ids)
        stored = ids.astype(np.dtype(self.dtype).newbyteorder("<")).tobytes()
        width = np.dtype(self.dtype).itemsize
        edges = zip(bounds.tolist(), places[bounds].tolist(), strict=True)
        sequences = []
        start, place = next(edges)
        for end, next_place in edges:
            sequences.append(
                _Sequence(end - start, stored[start * width : end * width], varints[place:next_place])
            )
            start, place = end, next_place
        return sequences


def _compose(composition: Composition, key: str, values: tuple[Any, ...]) -> ComposedText | Skip:
    try:
        return composition.compose(values)
    except TemplateError as error:
        return Skip(key, "refused by the chat template", str(error))


@dataclass(frozen=True)
class _Sequence:
    """One field of one sample: its number of tokens, and both encodings of their ids."""

    length: int
    ids: bytes
    varints: bytes


def _record_prefix(names: Sequence[bytes], varints: Sequence[bytes], payload_bytes: int) -> bytes:
    """The bytes of an Example before its payload, which is the only value of its last feature."""
    entries = [
        _message(1, name + _message(2, _message(_INT64_LIST, _message(1, values))))
        for name, values in zip(names, varints, strict=True)
    ]
    payload = _message(_BYTES_LIST, _header(1, payload_bytes), payload_bytes)
    entries.append(_message(1, _IDS_NAME + _message(2, payload, payload_bytes), payload_bytes))
    return _message(1, b"".join(entries), payload_bytes)


def _message(number: int, content: bytes, following: int = 0) -> bytes:
    """The result of :func:`delimited`, with cached headers: a record has a dozen, of few lengths."""
    return _header(number, len(content) + following) + content


@lru_cache(maxsize=1 << 16)
def _header(number: int, size: int) -> bytes:
    return delimited(number, b"", size)


_IDS_NAME = delimited(1, IDS_FEATURE.encode())


def encode_varints(ids: npt.NDArray[np.int32]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Encode integers of at least 0 as protocol buffer varints, end to end.

    Args:
        ids: (T,) int32.

    Returns:
        The bytes, and the offset of each integer and of the end, (T + 1,) int64.
    """
    widths = np.ones(len(ids), np.int64)
    for bits in (7, 14, 21, 28):
        widths += ids >= 1 << bits
    places = np.concatenate(([0], np.cumsum(widths)))
    out = np.empty(int(places[-1]), np.uint8)
    for byte in range(5):
        which = np.flatnonzero(widths > byte)
        more = (widths[which] > byte + 1).astype(np.uint8) << 7
        out[places[which] + byte] = (ids[which] >> 7 * byte & 127).astype(np.uint8) | more
    return out.tobytes(), places
