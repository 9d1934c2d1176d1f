"""Lengths of sequences after truncation, from which batches are planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .batching_config import BatchingConfig

Int64 = npt.NDArray[np.int64]


def limited_lengths(
    lengths: npt.NDArray[Any], batching: BatchingConfig, special_tokens: int, *, are_planned: bool
) -> npt.NDArray[Any]:
    """Return the lengths, (N, D), after truncation; packing itself splits long sequences."""
    # lengths (N, D)
    if batching.max_length is not None:
        longest = np.full(lengths.shape[1], batching.max_length)
        if are_planned and (capacity := row_capacity(batching, lengths.shape[1])):
            longest = np.minimum(longest, capacity)
    elif not are_planned:
        if batching.too_long == "truncate":
            raise ConfigError('too_long="truncate" needs a largest length here', hint="Give max_length.")
        return lengths
    elif capacity := row_capacity(batching, lengths.shape[1]):
        longest = np.array(capacity)
    elif batching.boundaries is None:
        return lengths
    else:
        longest = length_table(batching.boundaries)[-1]
    if batching.too_long == "error" and (lengths > longest).any():
        row = int((lengths > longest).any(axis=1).argmax())
        raise ConfigError(
            f"sample {row} has {lengths[row].tolist()} tokens, and the most are {longest.tolist()}",
            hint='Truncate with too_long="truncate", or leave out samples with dataset.select().',
        )
    if batching.too_long != "truncate":
        return lengths
    if special_tokens and longest.min() <= special_tokens:
        raise ConfigError(
            f"truncation to {int(longest.min())} tokens leaves no room beside the {special_tokens} special "
            "tokens of the tokenizer",
            hint="Truncate to more tokens.",
        )
    limited: npt.NDArray[Any] = np.minimum(lengths, longest)
    return limited


def length_table(edges: Int64) -> Int64:
    """Boundaries as (K, D), also for one field."""
    return edges.reshape(len(edges), -1)


def row_capacity(batching: BatchingConfig, fields: int) -> tuple[int, ...] | None:
    """Tokens of a packed row in each planned field; None without packing."""
    if batching.pack is None:
        return None
    if fields > 1 and batching.too_long == "split":
        raise ConfigError('too_long="split" takes one field', hint="Choose one: fields=('answer',)")
    capacity = (batching.pack,) * fields if isinstance(batching.pack, int) else batching.pack
    if len(capacity) != fields:
        raise ConfigError(
            f"pack has {len(capacity)} lengths, and rows have {fields}",
            hint="Give one length for all fields, or one for each.",
        )
    return capacity
