"""Masked language modelling: tokens, or whole words, that a model is to restore.

The rule is that of BERT (Devlin et al., 2019, section 3.1): of the chosen tokens 80% become [MASK], 10% a
random token, and 10% stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import sequence, unit_interval

from ..batchify.ragged import Ragged

if TYPE_CHECKING:
    from ..batchify.context import BatchContext

_STREAM = int.from_bytes(b"tokens", "little")
_DRAWS = 3  # of each token: whether it is chosen, what replaces it, and the random token


@dataclass(frozen=True, eq=False)
class WordParts:
    """Facts about the ids of a tokenizer's vocabulary."""

    special_ids: tuple[int, ...]  # Ids of special tokens
    # (V,) bool, ids that continue the word before them; None if the tokenizer does not say
    continuations: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class MaskTokens:
    """Replaces tokens by [MASK], for masked language modelling.

    The tokens that are chosen depend on the seed, the epoch and the sample alone. They are the same in any
    batch, on any number of ranks, padded or packed, and after a resume; each epoch chooses anew.

    Attributes:
        probability: Chance of each token to be chosen; of each word with ``whole_words``.
        mask_id: Id of [MASK].
        vocabulary: Number of token ids; random tokens are less than this.
        whole_words: Whether all tokens of a word are chosen together. Their replacements are drawn for each
            token.
        special_ids: Ids of special tokens, which are never chosen. None takes those of the dataset's
            tokenizer.
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
        if self.vocabulary < 1 or self.mask_id < 0:
            raise ConfigError(
                f"vocabulary must be at least 1 and mask_id at least 0, found {self.vocabulary} and "
                f"{self.mask_id}"
            )

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
        """The mask with the facts of a tokenizer in place of None.

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
        states = np.repeat(whole.random_words(_STREAM + field), lengths)
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

    def _word_starts(self, sequences: Ragged, special: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """(T,) int64: for each token the first token of its word; a special token is a whole word."""
        assert self.continuations is not None, "the loader has taken it from the tokenizer"
        table: npt.NDArray[Any] = self.continuations
        known = sequences.values < len(table)
        continues = known & table[np.where(known, sequences.values, 0)] & ~special
        continues[1:] &= ~special[:-1]
        continues[sequences.offsets[:-1][sequences.lengths > 0]] = False
        first = np.where(continues, 0, np.arange(len(continues)))
        return np.maximum.accumulate(first)
