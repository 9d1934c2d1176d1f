"""Records of text, made from the lines of samples.

A record is a tf.train.Example. It has an int64_list for each field, which any reader of TensorFlow's format
parses, and a bytes feature ``stoker/ids`` with all ids again, as little-endian numbers of one width. This
feature is the payload: the index locates it, its checksum covers it, and NumPy decodes it without parsing
varints (docs/decisions/0005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from stoker._native import encode_token_records

from ..conversion.shards.encoder import EncodedRecord
from ..sources.listing import Skip
from ..tokenization.tokenizers import Ids, Lengths, Tokenizer
from .listing.line_format import LineFormat, SampleLines
from .training.chat_template import TemplateError
from .training.text_composer import TextComposer, trained_runs

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
