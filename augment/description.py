"""Base of all transforms, of images and of batches: arguments as data, and how they are checked."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError
from stoker.porting import TRANSFORM_ARGUMENTS, check_arguments

from .resampling import NAMED, Interpolation

D = TypeVar("D", bound="Description")
T = TypeVar("T")


@dataclass(frozen=True)
class Description:
    """Arguments as data: compares by value, prints as it was written, and has a form that JSON can hold.

    :mod:`stoker.augment.recipe` saves and loads it.
    """

    def __new__(cls: type[D], *_: object, **arguments: object) -> D:
        """Refuse an argument that only torchvision's transform has, and name its replacement."""
        check_arguments(cls, arguments, TRANSFORM_ARGUMENTS)
        return super().__new__(cls)

    def to_dict(self) -> dict[str, Any]:
        """The name and all arguments, in types that JSON has; see :func:`added`."""
        values = [(one, getattr(self, one.name)) for one in fields(self)]
        kept = [(f.name, value) for f, value in values if not (f.metadata.get(_ADDED) and value == f.default)]
        return {"name": type(self).__name__, **{name: _plain(value) for name, value in kept}}

    def check(self, name: str, good: bool, rule: str) -> None:
        """Raise ConfigError with the argument's name, its rule and the value found, unless ``good``."""
        if not good:
            value = getattr(self, name)
            raise ConfigError(f"{type(self).__name__}: {name} must be {rule}, found {value!r}")

    def set(self, name: str, value: Any) -> None:
        """Set an attribute during ``__post_init__``, such as the normal form of an argument."""
        object.__setattr__(self, name, value)

    def set_size(self, name: str = "size") -> None:
        """Normalise a size argument, n or (height, width), to a pair."""
        pair = as_tuple(getattr(self, name), 2)
        good = len(pair) == 2 and all(map(is_count, pair))
        self.check(name, good, "a positive integer or a pair (height, width) of them, pixels")
        self.set(name, tuple(map(int, pair)))

    def set_whole(
        self, name: str, least: int | None = 1, most: int = 2**31 - 1, *, optional: bool = False
    ) -> None:
        """Normalise an integer within ``least`` to ``most``; None stays if ``optional``."""
        value = getattr(self, name)
        if value is not None or not optional:
            self.set(name, whole_number(f"{type(self).__name__}: {name}", value, least, most))

    def set_range(self, name: str, low: float, high: float, rule: str) -> None:
        """Normalise an argument that is a pair of numbers, ascending, within ``low`` to ``high``."""
        value = as_tuple(getattr(self, name), 1)
        good = len(value) == 2 and all(map(is_finite, value))
        self.check(name, good and low <= value[0] <= value[1] <= high, rule)
        self.set(name, (float(value[0]), float(value[1])))

    def set_fill(self, name: str = "fill", *, optional: bool = False) -> None:
        """Normalise a colour, a level 0..255 or three of them (RGB), to three; None stays if ``optional``."""
        if optional and getattr(self, name) is None:
            return
        levels = as_tuple(getattr(self, name), 3)
        good = len(levels) == 3 and all(map(is_finite, levels))
        good = good and all(0 <= level <= 255 and level == int(level) for level in levels)
        self.check(name, good, "a level 0..255, a whole number, or three of them (RGB)")
        self.set(name, tuple(map(int, levels)))

    def set_interpolation(self, *known: Interpolation, name: str = "interpolation") -> None:
        """Normalise the name of an :class:`Interpolation`, or torchvision's InterpolationMode.

        ``known`` are the interpolations of the transform; by default it has all.
        """
        names = [one.name.lower() for one in known or NAMED]
        with contextlib.suppress(KeyError):
            self.set(name, Interpolation.of(getattr(self, name)).name.lower())
        self.check(name, getattr(self, name) in names, f"one of {', '.join(names)}")

    def check_antialias(self) -> None:
        """Raise ConfigError unless ``antialias`` of a resize is True or False, and its filter has both."""
        antialias, interpolation = (vars(self)[name] for name in ("antialias", "interpolation"))
        self.check("antialias", isinstance(antialias, bool), "True or False")
        if interpolation == "lanczos" and not antialias:
            raise ConfigError(
                f"{type(self).__name__}: antialias must be True where the interpolation is lanczos",
                hint="Choose bilinear or bicubic, as torchvision has it for tensors.",
            )

    def check_positive(self, name: str) -> None:
        """Raise ConfigError unless an argument is a positive number."""
        value = getattr(self, name)
        self.check(name, is_finite(value) and value > 0, "a positive number")

    def check_probability(self, name: str = "p") -> None:
        """Raise ConfigError unless an argument is a probability."""
        value = getattr(self, name)
        self.check(name, is_finite(value) and 0 <= value <= 1, "a probability, 0 to 1")


def added(default: T) -> T:
    """The default of an argument that a later release has added to a transform.

    States of loaders leave the argument out where it has its default, so that states of earlier releases
    stay valid.
    """
    value: T = field(default=default, metadata={_ADDED: True})
    return value


_ADDED = "added"


def _plain(value: Any) -> Any:
    """An argument in types that JSON has; ConfigError where it has none."""
    if isinstance(value, Description):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if not (value is None or isinstance(value, (str, bool, int, float))):
        raise ConfigError(
            f"arguments of transforms must be values that JSON can hold, found {type(value).__name__}",
            hint="Use numbers, strings or tuples of them: checkpoints and recipes hold them.",
        )
    return value


def as_tuple(value: object, times: int) -> tuple[Any, ...]:
    """The items of a sequence or an array; a single item, alone or in a sequence, ``times`` times."""
    items = np.asarray(value).tolist() if isinstance(value, np.ndarray) else value
    items = tuple(items) if isinstance(items, Sequence) and not isinstance(items, str) else (items,)
    return items * times if len(items) == 1 else items


def as_pair(value: object) -> tuple[Any, Any]:
    """Both items of an argument that is a pair, or its single item twice."""
    first, second = as_tuple(value, 2)
    return first, second


def between(bounds: object, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Numbers of a range, (low, high), for ``u`` of any shape, uniform in [0, 1)."""
    low, high = as_pair(bounds)
    return np.asarray(low + (high - low) * u)


def is_count(value: object) -> TypeGuard[int]:
    """Whether ``value`` is a positive integer (bools are refused), below 2**31 as sizes of engines are."""
    return is_whole(value) and value != 0


def is_whole(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer from 0 (bools are refused), below 2**31."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) < 2**31


def is_finite(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a finite real number (bools are refused)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return math.isfinite(value)
