"""Masks that hide tokens, for a model to restore: masked language modelling, and span corruption.

``TextLoader(labels=...)`` takes them; each makes Ragged sequences of Ragged sequences before they are padded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError
from stoker.random import sequence, unit_interval

from .batchify import BatchContext
from .layout import Ragged

Int64 = npt.NDArray[np.int64]

_TOKEN_STREAM = int.from_bytes(b"tokens", "little")
_SPAN_STREAM = int.from_bytes(b"spans", "little")
_DRAWS = 3  # of each token: whether it is chosen, what replaces it, and the random token


@dataclass(frozen=True, eq=False)
class WordParts:
    """The special tokens of a tokenizer, and the tokens that continue a word."""

    special_ids: tuple[int, ...]
    # (V,), ids that continue the word before them; None if the tokenizer does not say
    continuations: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class MaskTokens:
    """Replaces tokens by [MASK], for masked language modelling (BERT; Devlin et al., 2019, section 3.1).

    The tokens that are chosen depend on the seed, the epoch and the sample alone. They are the same in any
    batch, on any number of ranks, padded or packed, and after a resume; each epoch chooses others.

    Attributes:
        probability: Chance of each token to be chosen; of each word with ``whole_words``.
        mask_id: Id of [MASK].
        vocabulary: Number of token ids; random tokens are less than this.
        whole_words: Whether all tokens of a word are chosen together. Their replacements are drawn for each
            token.
        special_ids: Ids of special tokens, which are never chosen. None takes them from the
            dataset's tokenizer.
        continuations: (V,) bool, whether a token of each id continues the word before it. None takes what the
            dataset's tokenizer says: "##" of WordPiece, and the words that begin with a space or "▁" of other
            tokenizers.
        replaced: Share of the chosen tokens that become [MASK].
        random: Share of the chosen tokens that become a random token. The others stay as they are.

    Raises:
        ConfigError: An argument is out of range.
    """

    probability: float = 0.15
    _: KW_ONLY
    mask_id: int
    vocabulary: int
    whole_words: bool = False
    special_ids: Sequence[int] | None = None
    continuations: npt.NDArray[np.bool_] | None = None
    replaced: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.probability < 1:
            raise ConfigError(f"probability must be between 0 and 1, found {self.probability}")
        if min(self.replaced, self.random) < 0 or self.replaced + self.random > 1:
            raise ConfigError(
                f"replaced and random must be shares from 0 to 1, found {self.replaced} and {self.random}",
                hint="BERT's are 0.8 and 0.1; the rest of the chosen tokens stay as they are.",
            )
        whole_number("vocabulary", self.vocabulary, 1)
        whole_number("mask_id", self.mask_id, 0)

    @property
    def fingerprint(self) -> str:
        """Text of every argument, which states of loaders record."""
        table = self.continuations
        digest = None if table is None else hashlib.blake2b(np.packbits(table).tobytes(), digest_size=8)
        return (
            f"MaskTokens({self.probability!r}, mask_id={int(self.mask_id)}, "
            f"vocabulary={int(self.vocabulary)}, whole_words={bool(self.whole_words)}, "
            f"special_ids={None if self.special_ids is None else sorted(map(int, self.special_ids))}, "
            f"continuations={digest and digest.hexdigest()}, replaced={self.replaced!r}, "
            f"random={self.random!r})"
        )

    @property
    def needs_tokenizer(self) -> bool:
        """Whether an argument is None, so that a tokenizer must supply it."""
        return self.special_ids is None or (self.whole_words and self.continuations is None)

    def with_tokenizer(self, parts: WordParts) -> MaskTokens:
        """The mask with values of a tokenizer in place of None.

        Raises:
            ConfigError: ``whole_words`` is set, and the tokenizer does not tell where words begin.
        """
        if self.whole_words and self.continuations is None and parts.continuations is None:
            raise ConfigError(
                "whole_words needs a tokenizer that marks where words begin, and this one does not",
                hint="Give continuations: for each token id whether it continues the word before it.",
            )
        return replace(
            self,
            special_ids=parts.special_ids if self.special_ids is None else self.special_ids,
            continuations=parts.continuations if self.continuations is None else self.continuations,
        )

    def __call__(self, sequences: Ragged, context: BatchContext, field: int = 0) -> Ragged:
        """Return the sequences with hidden tokens; labels are made of the chosen tokens alone."""
        lengths = sequences.lengths
        # Drawn for the whole sample, so that other pieces of it hide the same tokens.
        shift = context.begins - sequences.offsets[:-1]
        indices = np.arange(len(sequences.values)) + np.repeat(shift, lengths)
        whole = replace(context, begins=np.zeros_like(context.begins))
        states = np.repeat(whole.random_words(_TOKEN_STREAM + field), lengths)
        special = np.isin(sequences.values, np.asarray(self.special_ids or (), np.int64))
        chosen = unit_interval(sequence(states, indices * _DRAWS)) < self.probability
        if self.whole_words:
            chosen = chosen[self._word_starts(sequences, special)]
        chosen &= ~special
        if sequences.trained is not None:
            chosen &= sequences.trained
        hidden = np.flatnonzero(chosen)
        fate = unit_interval(sequence(states[hidden], indices[hidden] * _DRAWS + 1))
        values = sequences.values.copy()
        values[hidden[fate < self.replaced]] = self.mask_id
        randomised = hidden[(fate >= self.replaced) & (fate < self.replaced + self.random)]
        words = unit_interval(sequence(states[randomised], indices[randomised] * _DRAWS + 2))
        values[randomised] = (words * self.vocabulary).astype(np.int64)
        return Ragged(values, sequences.offsets, chosen, sequences.values)

    def _word_starts(self, sequences: Ragged, special: npt.NDArray[np.bool_]) -> Int64:
        """(T,): for each token the first token of its word; a special token is a whole word."""
        assert self.continuations is not None, "the loader has taken it from the tokenizer"
        table: npt.NDArray[Any] = self.continuations
        known = sequences.values < len(table)
        continues = known & table[np.where(known, sequences.values, 0)] & ~special
        continues[1:] &= ~special[:-1]
        continues[sequences.offsets[:-1][sequences.lengths > 0]] = False
        first = np.where(continues, 0, np.arange(len(continues)))
        return np.maximum.accumulate(first)


class _Counts(NamedTuple):
    """Counts of P sequences, (P,) each, without the special tokens around a sequence."""

    hidden: Int64
    spans: Int64
    kept: Int64


@dataclass(frozen=True, eq=False)
class SpanCorruption:
    """Hides spans of tokens, as T5 is trained (Raffel et al., 2020).

    The algorithm is ``random_spans_noise_mask`` of https://github.com/google-research/text-to-text-transfer-transformer
    (t5/data/preprocessors.py).

    The inputs are the sequence with one sentinel in place of each hidden span. The targets are the sentinels,
    each before the tokens of its span. Both end with the special tokens that end the sequence. A sequence of
    fewer than two tokens stays whole, and its targets are these special tokens alone.

    The spans depend on the seed, the epoch and the sample alone; their number depends on the length alone.

    Attributes:
        density: Share of the tokens that is hidden.
        mean_length: Mean number of tokens of a span.
        sentinels: Ids of the sentinels in their order, such as ``range(32099, 31999, -1)`` of T5; as many as
            a sequence has spans.
        end_id: Id that is added at the end of inputs and targets, for sequences without an end of their
            own; None adds nothing.
        special_tokens: Numbers of special tokens before and after the tokens of a sequence. None takes what
            the dataset says.

    Raises:
        ConfigError: An argument is out of range.
    """

    density: float = 0.15
    _: KW_ONLY
    mean_length: float = 3.0
    sentinels: Sequence[int]
    end_id: int | None = None
    special_tokens: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.density < 1:
            raise ConfigError(f"density must be between 0 and 1, found {self.density}")
        if not self.mean_length >= 1:
            raise ConfigError(f"mean_length must be at least 1, found {self.mean_length}")
        if not len(self.sentinels):
            raise ConfigError("sentinels must have one id for each span of a sequence, found none")

    @property
    def fingerprint(self) -> str:
        """Text of every argument, which states of loaders record."""
        around = None if self.special_tokens is None else tuple(map(int, self.special_tokens))
        return (
            f"SpanCorruption({self.density!r}, mean_length={self.mean_length!r}, "
            f"sentinels={list(map(int, self.sentinels))}, end_id={self.end_id!r}, special_tokens={around})"
        )

    def planned_lengths(self, lengths: npt.NDArray[Any], *, packs: bool = False) -> Int64:
        """(N, 2) int64, tokens of the inputs and the targets that are made of sequences.

        Args:
            lengths: (N, 1) integers, tokens of the sequences.
            packs: Whether rows are packed, which changes nothing.

        Raises:
            ConfigError: A sequence has more spans than there are sentinels.
        """
        counts = self._counts(lengths[:, 0].astype(np.int64))
        if counts.spans.max(initial=0) > len(self.sentinels):
            row = int(counts.spans.argmax())
            raise ConfigError(
                f"sample {row} has {int(lengths[row, 0])} tokens and {int(counts.spans[row])} hidden spans, "
                f"more than the {len(self.sentinels)} sentinels",
                hint="Give more sentinels, or shorten the samples with max_length.",
            )
        opening, closing = self._around
        made: Int64 = np.stack(
            (counts.kept + counts.spans + opening, counts.hidden + counts.spans), axis=1
        ) + (closing + (self.end_id is not None))
        return np.maximum(made, 1)

    def __call__(self, sequences: Ragged, context: BatchContext) -> tuple[Ragged, Ragged]:
        """Return the inputs and the targets of P sequences."""
        opening, closing = self._around
        counts = self._counts(sequences.lengths)
        words = context.random_words(_SPAN_STREAM)
        hidden = _random_segments(words, 0, counts.hidden, counts.spans)
        kept = _random_segments(words, 1, counts.kept, counts.spans)
        starts = np.repeat(sequences.offsets[:-1] + opening, counts.spans)
        before = _starts_within(hidden + kept, counts.spans)
        first = starts + before + kept  # the first hidden token of each span; one before it is kept
        is_hidden = np.zeros(len(sequences.values) + 1, np.int64)
        np.add.at(is_hidden, first, 1)
        np.add.at(is_hidden, first + hidden, -1)
        noise = np.cumsum(is_hidden[:-1]) > 0
        number = np.arange(len(first)) - np.repeat(np.cumsum(counts.spans) - counts.spans, counts.spans)
        sentinels = np.asarray(self.sentinels, np.int64)[number].astype(sequences.values.dtype)
        index = np.arange(len(noise)) - np.repeat(sequences.offsets[:-1], sequences.lengths)
        ends = index >= np.repeat(sequences.lengths - closing, sequences.lengths)
        inputs, targets = sequences.values.copy(), sequences.values.copy()
        inputs[first], targets[first - 1] = sentinels, sentinels
        is_input, is_target = ~noise, noise | ends
        is_input[first], is_target[first - 1] = True, True
        return self._taken(inputs, is_input, sequences), self._taken(targets, is_target, sequences)

    def _taken(self, values: npt.NDArray[Any], taken: npt.NDArray[np.bool_], sequences: Ragged) -> Ragged:
        """The tokens that are taken of each sequence, with the end."""
        before = np.concatenate(([0], np.cumsum(taken, dtype=np.int64)))
        offsets = before[sequences.offsets]
        chosen = values[taken]
        if self.end_id is not None:
            chosen = np.insert(chosen, offsets[1:], self.end_id)
            offsets = offsets + np.arange(len(offsets))
        return Ragged(chosen, offsets)

    @property
    def _around(self) -> tuple[int, int]:
        return (0, 0) if self.special_tokens is None else self.special_tokens

    def _counts(self, lengths: Int64) -> _Counts:
        inner = np.maximum(lengths - sum(self._around), 0)
        hidden = np.clip(np.rint(inner * self.density).astype(np.int64), 1, np.maximum(inner - 1, 1))
        hidden[inner < 2] = 0
        kept = inner - hidden
        spans = np.maximum(np.rint(hidden / self.mean_length).astype(np.int64), 1)
        return _Counts(hidden, np.minimum(spans, np.minimum(kept, hidden)), kept)


def _starts_within(sizes: Int64, counts: Int64) -> Int64:
    """The start of each size after those before it in its group; groups have ``counts`` sizes."""
    ends = np.cumsum(sizes)
    first = np.cumsum(counts) - counts
    base = np.concatenate(([0], ends))[first]
    starts: Int64 = ends - sizes - np.repeat(base, counts)
    return starts


def _random_segments(words: npt.NDArray[np.uint64], draw: int, items: Int64, segments: Int64) -> Int64:
    """Lengths of ``segments[i]`` segments, none empty, that add up to ``items[i]``: (sum of segments,) int64.

    All divisions are equally likely. ``words``, (P,), are random words; another ``draw``, 0 or 1, gives
    independent divisions. ``segments`` are at most ``items``, and 0 only where ``items`` are not divided.
    """
    # The ``segments[i] - 1`` gaps between items with the smallest random words divide.
    gaps = np.maximum(np.where(segments > 0, items, 1) - 1, 0)
    owner = np.repeat(np.arange(len(items)), gaps)
    first = np.cumsum(gaps) - gaps
    index = np.arange(len(owner)) - first[owner]
    order = np.lexsort((sequence(words[owner], index * 2 + draw), owner))
    divides = np.zeros(len(owner), np.bool_)
    divides[order[index < segments[owner] - 1]] = True  # the k-th gap of a sequence in this order has index k
    cut = np.flatnonzero(divides)
    # The ends of segments in each sequence: the cuts, and the sequence's own end.
    ends = np.concatenate((index[cut] + 1, items[segments > 0]))
    of = np.concatenate((owner[cut], np.flatnonzero(segments > 0)))
    ends = ends[np.lexsort((ends, of))]
    begins = np.concatenate(([0], ends[:-1]))
    begins[(np.cumsum(segments) - segments)[segments > 0]] = 0
    return ends - begins
