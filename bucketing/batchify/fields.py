"""Batchify functions that compose: one for each field of a sample, named as in GluonNLP.

A batchify function takes the samples of a batch, and the padded length where a plan has fixed it:

    Dict({"tokens": Pad(outputs=("input_ids", "attention_mask", "labels")), "topic": Stack()})(samples)

A list is a list of samples. A tuple given to ``Tuple``, or a dict given to ``Dict``, is columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .context import BatchContext, Contextual


class Batchify(Protocol):
    """A function that turns the samples of a batch into arrays.

    If it has a parameter ``context``, :class:`stoker.TextLoader` gives it the batch's
    :class:`~stoker.bucketing.BatchContext`: epoch, step and rows.
    """

    def __call__(self, samples: Any, length: Any = None) -> Any:
        """Return the arrays of one batch; sequences are padded to ``length``, where it is given."""


@dataclass(frozen=True)
class Stack:
    """Stacks samples of one shape into an array with a new first axis.

    Attributes:
        dtype: Type of the array; None keeps that of the samples.
    """

    dtype: npt.DTypeLike | None = None

    def __call__(self, samples: Sequence[npt.ArrayLike], length: int | None = None) -> npt.NDArray[Any]:
        """Return (N, ...) for N samples of shape (...); an array of that shape stays as it is."""
        return np.asarray(samples, dtype=self.dtype)


@dataclass(frozen=True)
class List:
    """Keeps samples as they are, in a list."""

    def __call__(self, samples: Sequence[Any], length: int | None = None) -> list[Any]:
        """Return a list of the same objects."""
        return list(samples)


class Tuple:
    """Applies one function to each field of samples that are tuples.

    Args:
        functions: One for each field, in their order.
    """

    def __init__(self, *functions: Batchify) -> None:
        self._functions = [Contextual(function) for function in functions]

    def __call__(
        self,
        samples: Sequence[Sequence[Any]] | tuple[Any, ...],
        length: int | Sequence[int | None] | None = None,
        context: BatchContext | None = None,
    ) -> tuple[Any, ...]:
        """Return a tuple with one result for each field."""
        columns = samples if isinstance(samples, tuple) else tuple(map(list, zip(*samples, strict=True)))
        lengths = (length,) * len(columns) if length is None or isinstance(length, int) else tuple(length)
        if not len(columns) == len(self._functions) == len(lengths):
            raise ConfigError(
                f"{len(self._functions)} functions, {len(columns)} fields and {len(lengths)} lengths",
                hint="Give one function, and one length if any, for each field of a sample.",
            )
        return tuple(
            function(column, each, context)
            for function, column, each in zip(self._functions, columns, lengths, strict=True)
        )


class Dict:
    """Applies one function to each field of samples that are dicts.

    A result that is itself a dict, such as that of Pad, is merged into the batch. ``prefix`` of Pad, Flatten
    and Pack keeps the names of two fields apart.

    Args:
        functions: A function by the name of its field; fields without a function are left out.
    """

    def __init__(self, functions: Mapping[str, Batchify]) -> None:
        self._functions = {name: Contextual(function) for name, function in functions.items()}

    def __call__(
        self,
        samples: Sequence[Mapping[str, Any]] | Mapping[str, Any],
        length: int | Mapping[str, int] | None = None,
        context: BatchContext | None = None,
    ) -> dict[str, Any]:
        """Return a dict of arrays."""
        merged: dict[str, Any] = {}
        for name, function in self._functions.items():
            column = samples[name] if isinstance(samples, Mapping) else [sample[name] for sample in samples]
            each = length.get(name) if isinstance(length, Mapping) else length
            result = function(column, each, context)
            parts = result if isinstance(result, dict) else {name: result}
            twice = merged.keys() & parts.keys()
            if twice:
                raise ConfigError(
                    f"two fields give arrays of one name: {sorted(twice)}", hint="Give one field a prefix."
                )
            merged.update(parts)
        return merged
