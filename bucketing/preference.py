"""The batchify function of preference pairs: a prompt with the answer that was chosen, and with the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, optional_number
from stoker.errors import ConfigError

from .layout import Layout, Packed, Ragged, as_ragged

PairOutput = Literal[
    "input_ids", "attention_mask", "completion_mask", "labels", "position_ids", "segment_ids"
]
"""Names of the arrays of preference pairs."""

Truncation = Literal["keep_start", "keep_end"]

_PADDED: tuple[PairOutput, ...] = ("input_ids", "attention_mask", "completion_mask")
_PACKED: tuple[PairOutput, ...] = ("input_ids", "segment_ids", "position_ids", "completion_mask")


@dataclass(frozen=True, kw_only=True)
class PreferencePairs:
    """Joins each prompt with both of its answers, as trl's ``DPOTrainer`` takes them (version 1).

    The first N rows of an array are the prompts with the chosen answers, and the second N the same prompts
    with the rejected ones. In packed rows, row b and row B + b hold the same pairs in the same order.

    Attributes:
        fields: Names of the prompt, the chosen and the rejected answer.
        outputs: Names of the arrays, of :data:`PairOutput`. None makes those that trl takes, or for packed
            rows "input_ids", "segment_ids", "position_ids" and "completion_mask".
        value: Token id of padding; None takes the dataset's, or 0.
        end_id: Id that is added at the end of each answer; None adds nothing.
        max_length: Largest number of tokens of a prompt with an answer; None sets no limit.
        truncation: What is kept of a longer one: "keep_start" or "keep_end", as in trl.
        ignore_index: Label of the tokens outside answers.

    Raises:
        ConfigError: An argument is wrong.
    """

    fields: tuple[str, str, str] = ("prompt", "chosen", "rejected")
    outputs: Sequence[PairOutput] | None = None
    value: int | None = None
    end_id: int | None = None
    max_length: int | None = None
    truncation: Truncation = "keep_start"
    ignore_index: int = -100

    def __post_init__(self) -> None:
        if len(self.fields) != 3 or len(set(self.fields)) < 3:
            raise ConfigError(f"fields must be a prompt and two answers, found {self.fields}")
        for name in self.outputs or ():
            one_of("outputs", name, get_args(PairOutput))
        one_of("truncation", self.truncation, get_args(Truncation))
        optional_number("max_length", self.max_length, 1)

    def planned_lengths(self, lengths: npt.NDArray[Any], *, packs: bool) -> npt.NDArray[np.int64]:
        """Tokens by which batches are planned: of the longer of the two sequences, (N, 1) int64.

        Args:
            lengths: (N, 3) integers, tokens of prompts, chosen and rejected answers.
            packs: Whether rows are packed, which needs the tokens of both, (N, 2).
        """
        both = lengths[:, 1:].astype(np.int64) + lengths[:, :1] + (self.end_id is not None)
        if self.max_length is not None:
            both = np.minimum(both, self.max_length)
        planned: npt.NDArray[np.int64] = both if packs else both.max(axis=1, keepdims=True)
        return planned

    def __call__(self, samples: Mapping[str, Any], length: Any = None) -> dict[str, Any]:
        """Return arrays by name, (2 N, length), or of packed rows (2 B, length)."""
        parts = [samples[name] for name in self.fields]
        packs = isinstance(parts[0], Packed)
        prompt, *answers = [as_ragged(part.sequences if packs else part) for part in parts]
        groups = parts[0].groups if packs else np.arange(len(prompt) + 1)
        joined = [self._joined(prompt, answer) for answer in answers]
        if length is None:
            length = max(int(np.diff(one.offsets[groups]).max()) for one in joined)
        widths = set(np.atleast_1d(length).tolist())
        if len(widths) > 1:
            raise ConfigError(
                f"rows of both answers must have one length, found {sorted(widths)}",
                hint="Give one number as pack.",
            )
        layouts = [Layout(Packed(one, groups), max(widths)) for one in joined]
        make: dict[PairOutput, Callable[[Layout], npt.NDArray[Any]]] = {
            "input_ids": lambda layout: layout.tokens(self.value or 0),
            "attention_mask": lambda layout: layout.mask,
            "completion_mask": Layout.trained,
            "labels": lambda layout: layout.labels(self.ignore_index),
            "position_ids": lambda layout: layout.position_ids(0),
            "segment_ids": Layout.segment_ids,
        }
        outputs = self.outputs if self.outputs is not None else _PACKED if packs else _PADDED
        return {name: np.concatenate([make[name](layout) for layout in layouts]) for name in outputs}

    def _joined(self, prompt: Ragged, answer: Ragged) -> Ragged:
        """Each prompt with its answer, which alone is trained."""
        values, ends = answer.values, answer.offsets
        if self.end_id is not None:
            values = np.insert(values, ends[1:], self.end_id)
            ends = ends + np.arange(len(ends))
        lengths = np.stack((prompt.lengths, np.diff(ends)), axis=1)
        starts = np.stack((prompt.offsets[:-1], ends[:-1] + len(prompt.values)), axis=1)
        total = lengths.sum(axis=1)
        offsets = np.concatenate(([0], np.cumsum(total)))
        flat = lengths.reshape(-1)
        which = np.repeat(starts.reshape(-1) - (np.cumsum(flat) - flat), flat) + np.arange(offsets[-1])
        if self.max_length is not None and total.max(initial=0) > self.max_length:
            index = np.arange(offsets[-1]) - np.repeat(offsets[:-1], total)
            if self.truncation == "keep_end":
                index = np.repeat(total, total) - 1 - index
            which = which[index < self.max_length]
            offsets = np.concatenate(([0], np.cumsum(np.minimum(total, self.max_length))))
        tokens = np.concatenate((prompt.values, values))[which]
        return Ragged(tokens, offsets, which >= len(prompt.values))
