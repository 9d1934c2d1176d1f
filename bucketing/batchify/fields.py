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

__all__ = ["Batchify", "Dict", "List", "Stack", "Tuple"]


class Batchify(Protocol):
    """What turns samples into a batch."""

    def __call__(self, samples: Any, length: Any = None) -> Any:
        """Samples of one batch into arrays; ``length`` is what sequences are padded to, if fixed."""


@dataclass(frozen=True)
class Stack:
    """Equal samples into one array with a new first axis.

    Attributes:
        dtype: Of the array; None keeps the samples'.
    """

    dtype: npt.DTypeLike | None = None

    def __call__(self, samples: Sequence[npt.ArrayLike], length: int | None = None) -> npt.NDArray[Any]:
        """(N, ...) from N samples of shape (...); an array passes through."""
        return np.asarray(samples, dtype=self.dtype)


@dataclass(frozen=True)
class List:
    """Samples as they are, in a list."""

    def __call__(self, samples: Sequence[Any], length: int | None = None) -> list[Any]:
        """The same objects."""
        return list(samples)


class Tuple:
    """One function a field, for samples that are tuples.

    Args:
        functions: In the order of the fields.
    """

    def __init__(self, *functions: Batchify) -> None:
        self._functions = functions

    def __call__(
        self,
        samples: Sequence[Sequence[Any]] | tuple[Any, ...],
        length: int | Sequence[int | None] | None = None,
    ) -> tuple[Any, ...]:
        """A tuple with one result a field.

        Args:
            samples: A list of tuples, or a tuple of columns.
            length: One for all fields, or one a field.

        Raises:
            ConfigError: The number of fields is another.
        """
        columns = samples if isinstance(samples, tuple) else tuple(map(list, zip(*samples, strict=True)))
        lengths = (length,) * len(columns) if length is None or isinstance(length, int) else tuple(length)
        if not len(columns) == len(self._functions) == len(lengths):
            raise ConfigError(
                f"{len(self._functions)} functions, {len(columns)} fields and {len(lengths)} lengths"
            )
        return tuple(
            function(column, each)
            for function, column, each in zip(self._functions, columns, lengths, strict=True)
        )


class Dict:
    """One function a field, for samples that are dicts.

    Results that are dicts themselves, as Pad's, are merged: use their ``prefix`` to tell two apart.

    Args:
        functions: By field; fields without a function are left out.
    """

    def __init__(self, functions: Mapping[str, Batchify]) -> None:
        self._functions = dict(functions)

    def __call__(
        self,
        samples: Sequence[Mapping[str, Any]] | Mapping[str, Any],
        length: int | Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """A dict of arrays.

        Args:
            samples: A list of dicts, or a dict of columns.
            length: One for all fields, or by field.

        Raises:
            ConfigError: Two results have one name.
        """
        merged: dict[str, Any] = {}
        for name, function in self._functions.items():
            column = samples[name] if isinstance(samples, Mapping) else [sample[name] for sample in samples]
            each = length.get(name) if isinstance(length, Mapping) else length
            result = function(column, each)
            parts = result if isinstance(result, dict) else {name: result}
            twice = merged.keys() & parts.keys()
            if twice:
                raise ConfigError(f"two fields give {sorted(twice)}", hint="Give one of them a prefix.")
            merged.update(parts)
        return merged
