"""What every transform is: a frozen description that can decide its parameters for a batch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stoker.errors import ConfigError

from ..geometry.interpolation import Interpolation

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..state.transform_state import TransformState

__all__ = ["Description", "Size", "Transform", "as_tuple", "is_count", "is_finite", "is_whole"]

Size = tuple[int, int]
"""Height and width, pixels."""


@dataclass(frozen=True)
class Description:
    """Arguments as data: compares by value, prints as it was written, and has a form that JSON can hold.

    Saved and loaded by :mod:`stoker.augment.recipe`.
    """

    def to_dict(self) -> dict[str, Any]:
        """The name and all arguments, in types that JSON has."""
        return {"name": type(self).__name__, **{f.name: _plain(getattr(self, f.name)) for f in fields(self)}}

    def check(self, name: str, good: bool, rule: str) -> None:
        """Raise ConfigError with the argument's name, its rule and the value found, unless ``good``."""
        if not good:
            found = getattr(self, name)
            raise ConfigError(f"{type(self).__name__}: {name} must be {rule}; found {found!r}")

    def set(self, name: str, value: Any) -> None:
        """Replace an argument by its normal form, during ``__post_init__``."""
        object.__setattr__(self, name, value)

    def set_size(self, name: str = "size") -> None:
        """Normalise a size argument, n or (height, width), to a pair."""
        pair = as_tuple(getattr(self, name), 2)
        good = len(pair) == 2 and all(map(is_count, pair))
        self.check(name, good, "a positive integer or a pair (height, width) of them, pixels")
        self.set(name, tuple(map(int, pair)))

    def set_range(self, name: str, low: float, high: float, rule: str) -> None:
        """Normalise an argument that is a pair of numbers, ascending, within ``low`` to ``high``."""
        value = as_tuple(getattr(self, name), 1)
        good = len(value) == 2 and all(map(is_finite, value))
        self.check(name, good and low <= value[0] <= value[1] <= high, rule)
        self.set(name, (float(value[0]), float(value[1])))

    def set_interpolation(self, *known: Interpolation, name: str = "interpolation") -> None:
        """Normalise the name of an :class:`Interpolation`, or torchvision's InterpolationMode.

        ``known`` are those that the transform has, all if there are none.
        """
        names = [one.name.lower() for one in known or Interpolation]
        with contextlib.suppress(KeyError):
            self.set(name, Interpolation.of(getattr(self, name)).name.lower())
        self.check(name, getattr(self, name) in names, f"one of {', '.join(names)}")

    def check_probability(self, name: str = "p") -> None:
        """An argument that is a probability."""
        value = getattr(self, name)
        self.check(name, is_finite(value) and 0 <= value <= 1, "a probability, 0 to 1")


@dataclass(frozen=True)
class Transform(Description):
    """Base of all transforms.

    What it does to a batch is decided by :meth:`params`, from random numbers that are handed to it,
    and executed by an engine.

    Attributes:
        draws: Random numbers it wants for each sample.
        late: Whether it follows all geometry and colour; what is not late cannot stand after it.
        warps: Whether its geometry is other than along the axes, for which all images must have one
            size where it stands.
    """

    draws: ClassVar[int] = 0
    late: ClassVar[bool] = False
    warps: ClassVar[bool] = False

    @property
    def uses_boxes(self) -> bool:
        """Whether it decides by where the objects lie."""
        return False

    def params(self, frame: TransformState, u: npt.NDArray[np.float64]) -> None:
        """Compose this transform onto ``frame``; ``u`` is (N, draws) float64, uniform in [0, 1)."""
        raise NotImplementedError

    def output_size(self, size: Size | None) -> Size | None:
        """Size of the image after this transform where it is the same for all samples, else None."""
        return size


def _plain(value: Any) -> Any:
    if isinstance(value, Description):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if not (value is None or isinstance(value, (str, bool, int, float))):
        raise ConfigError(
            f"an argument of a transform must be what JSON can hold, found {type(value).__name__}",
            hint="Checkpoints and recipes hold it: take numbers, texts or tuples of them.",
        )
    return value


def as_tuple(value: object, times: int) -> tuple[Any, ...]:
    """The items of a sequence or an array; of a single one, alone or in a sequence, ``times`` of it.

    A sequence of one stands for its item in all of torchvision's arguments that may be either.
    """
    items = np.asarray(value).tolist() if isinstance(value, np.ndarray) else value
    items = tuple(items) if isinstance(items, Sequence) and not isinstance(items, str) else (items,)
    return items * times if len(items) == 1 else items


def is_count(value: object) -> bool:
    """Whether ``value`` is a positive integer (True is none), below 2**31 as all sizes of engines are."""
    return is_whole(value) and value != 0


def is_whole(value: object) -> bool:
    """Whether ``value`` is an integer from 0, likewise."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) < 2**31


def is_finite(value: object) -> bool:
    """Whether ``value`` is a finite real number (True is none)."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]  # a number
