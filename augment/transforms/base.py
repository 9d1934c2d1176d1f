"""Bases of transforms: arguments as data, their checks, and draws that several transforms share."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from stoker.arguments import NamedArguments, whole_number
from stoker.errors import ConfigError
from stoker.types import Size

from ..resampling import NAMED, WARPING, Interpolation
from ..state import TransformState

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

SMALLEST = sys.float_info.min
"""The lower bound of what must be more than 0."""

_LEVELS = frozenset(range(256))

T = TypeVar("T")


@dataclass(frozen=True)
class Description(NamedArguments):
    """Arguments as data: compares by value, prints as it was written, and has a form that JSON can hold.

    :mod:`stoker.augment.recipe` saves and loads it.
    """

    equivalents: ClassVar[str] = "transform"

    def to_dict(self) -> dict[str, Any]:
        """The name and all arguments, in types that JSON has; see :func:`added`."""
        values = ((one, getattr(self, one.name)) for one in fields(self))
        kept = [(f.name, v) for f, v in values if not (f.metadata.get("added") and v == f.default)]
        return {"name": type(self).__name__, **{name: _plain(value) for name, value in kept}}

    def check(self, name: str, good: object, rule: str) -> None:
        """Raise ConfigError with the argument's name, its rule and the value found, unless ``good``."""
        if not good:
            value = getattr(self, name)
            raise ConfigError(f"{type(self).__name__}: {name} must be {rule}, found {value!r}")

    def set(self, name: str, value: Any) -> None:
        """Set an attribute during ``__post_init__``, such as the normal form of an argument."""
        object.__setattr__(self, name, value)

    def set_numbers(
        self,
        name: str,
        rule: str,
        fits: Callable[[Any], object] = bool,
        *,
        count: int | None = None,
        times: int = 1,
        whole: bool = False,
    ) -> None:
        """Normalise numbers, ``count`` or one at least, to a tuple; ``rule`` says what ``fits`` checks."""
        values = as_tuple(getattr(self, name), times)
        good = len(values) == count if count else len(values) > 0
        good = good and all(map(is_whole if whole else is_finite, values))
        self.check(name, good and fits(values), rule)
        self.set(name, tuple(map(int if whole else float, values)))

    def set_size(self, name: str = "size", order: str = "(height, width)") -> None:
        """Normalise a size argument, n or (height, width), to a pair."""
        rule = f"a positive integer or a pair {order} of them, pixels"
        self.set_numbers(name, rule, min, count=2, times=2, whole=True)

    def set_whole(
        self, name: str, least: int | None = 1, most: int = 2**31 - 1, *, optional: bool = False
    ) -> None:
        """Normalise an integer within ``least`` to ``most``; None stays if ``optional``."""
        value = getattr(self, name)
        if value is not None or not optional:
            self.set(name, whole_number(f"{type(self).__name__}: {name}", value, least, most))

    def set_range(self, name: str, low: float, high: float, rule: str) -> None:
        """Normalise an argument that is a pair of numbers, ascending, within ``low`` to ``high``."""
        self.set_numbers(name, rule, lambda pair: low <= pair[0] <= pair[1] <= high, count=2)

    def set_spread(self, name: str, rule: str, neutral: float, low: float, high: float) -> None:
        """Normalise a range within ``low`` to ``high``; one number is the distance from ``neutral``."""
        value = getattr(self, name)
        if is_finite(value):
            self.check(name, 0 <= value <= high - neutral, rule)
            self.set(name, (max(low, neutral - float(value)), neutral + float(value)))
        self.set_range(name, low, high, rule)

    def set_fill(self, name: str = "fill", *, optional: bool = False) -> None:
        """Normalise a colour, a level 0..255 or three of them (RGB), to three; None stays if ``optional``."""
        if getattr(self, name) is not None or not optional:
            rule = "a level 0..255, a whole number, or three of them (RGB)"
            self.set_numbers(name, rule, _LEVELS.issuperset, count=3, times=3)
            self.set(name, tuple(map(int, getattr(self, name))))

    def set_interpolation(self, *known: Interpolation, name: str = "interpolation") -> None:
        """Normalise the name of an :class:`Interpolation`, or torchvision's InterpolationMode.

        ``known`` are the interpolations of the transform; by default it has all.
        """
        names = [one.name.lower() for one in known or NAMED]
        with contextlib.suppress(KeyError):
            self.set(name, Interpolation.of(getattr(self, name)).name.lower())
        self.check(name, getattr(self, name) in names, f"one of {', '.join(names)}")

    def set_warping(self) -> None:
        """Normalise ``interpolation`` and ``fill`` of a transform that warps."""
        self.set_interpolation(*WARPING)
        self.set_fill(optional=True)

    def check_antialias(self) -> None:
        """Raise ConfigError unless ``antialias`` of a resize is True or False, and its filter has both."""
        self.check_flag("antialias")
        arguments = vars(self)
        if arguments["interpolation"] == "lanczos" and not arguments["antialias"]:
            raise ConfigError(
                f"{type(self).__name__}: antialias must be True where the interpolation is lanczos",
                hint="Choose bilinear or bicubic, as torchvision has it for tensors.",
            )

    def check_number(self, name: str, rule: str, low: float = -math.inf, high: float = math.inf) -> None:
        """Raise ConfigError unless an argument is a finite number within ``low`` to ``high``."""
        value = getattr(self, name)
        self.check(name, is_finite(value) and low <= value <= high, rule)

    def check_positive(self, name: str) -> None:
        """Raise ConfigError unless an argument is a positive number."""
        self.check_number(name, "a positive number", SMALLEST)

    def check_probability(self, name: str = "p") -> None:
        """Raise ConfigError unless an argument is a probability."""
        self.check_number(name, "a probability, 0 to 1", 0, 1)

    def check_flag(self, name: str) -> None:
        """Raise ConfigError unless an argument is True or False."""
        self.check(name, isinstance(getattr(self, name), bool), "True or False")


@dataclass(frozen=True)
class Transform(Description):
    """Base of all transforms of images: a frozen dataclass whose fields are the arguments.

    :meth:`params` decides what the transform does to a batch of N images, and an engine executes it. The
    method reads no pixels, and its random numbers are given. :class:`Description` has the checks of
    arguments. The state has a verb for each thing that can happen to images, where arrays over axes are
    (2, N), the vertical axis first:

    - ``size`` is the height and width so far. ``crop(origin, size)``, ``resize(size, interpolation)``,
      ``pad(mode, before, after)``, ``mirror(where, axis)`` and ``distort(matrix)`` change the geometry;
      boxes, keypoints and masks follow by themselves. ``use_fill(color)`` chooses the colour of padding.
    - ``color.affine(matrix)``, (3, 4), ``color.linear(matrix, grey_share)``, (3, 3), and
      ``color.offset(constant)``, (3,), change colours by a map of RGB in 0..255. Each takes one map for all
      images, or one for each with a leading axis N. The maps of all transforms are composed, and clipped
      once at the end. ``grey_share[i]`` times image i's mean grey is added to each channel.
    - ``add_steps(step)`` adds a pixel operation of :mod:`stoker.augment.steps`, for what no map expresses.
    - ``erase(origin, size)`` overwrites a box at the end; ``fix_size(name)`` keeps the size from here on, as
      boxes of steps refer to the output.
    - ``take(rows)`` and ``put(rows, taken)`` apply other transforms to some of the images.

    Attributes:
        draws: Number of random numbers that it needs for each sample. If that depends on the arguments,
            ``__post_init__`` sets it: ``self.set("draws", ...)``.
        late: Whether it belongs to the end of the list (RandomErasing, Normalize, ToDtype).
        warps: Whether it calls ``distort``. All images must then have one size before it, or it has a
            ``canvas``.
        sized: Whether it leaves all images in the size of its field ``size``, a pair after ``set_size``.
        varies: Whether it leaves images in different sizes.
        uses_boxes: Whether it decides by where the objects lie.
    """

    draws: ClassVar[int] = 0
    late: ClassVar[bool] = False
    warps: ClassVar[bool] = False
    sized: ClassVar[bool] = False
    varies: ClassVar[bool] = False
    uses_boxes: ClassVar[bool] = False

    @property
    def canvas(self) -> Size | None:
        """Height and width to which it resizes all images before it warps them; None if it does not."""
        return None

    def params(self, state: TransformState, u: Float) -> None:
        """Compose this transform onto ``state``; ``u`` is (N, draws) float64, uniform in [0, 1)."""
        raise NotImplementedError

    def output_size(self, size: Size | None) -> Size | None:
        """Return the size after this transform if it is the same for all samples, else None."""
        if self.varies:
            return None
        return as_pair(vars(self)["size"]) if self.sized else size

    def identity(self) -> dict[str, Any]:
        """What states of loaders hold of it: what decides its results, and no more."""
        return self.to_dict()

    def with_size(self, size: Size) -> Transform | None:
        """Return the same transform that leaves images of ``size``; None if it gives images no size."""
        changed: Any = {"size": size}
        return replace(self, **changed) if self.sized else None


def added(default: T) -> T:
    """The default of an argument that a later release has added to a transform."""
    # States of loaders leave the argument out where it has its default, so that states of earlier releases
    # stay valid.
    value: T = field(default=default, metadata={"added": True})
    return value


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
    items = value.tolist() if isinstance(value, np.ndarray) else value
    items = tuple(items) if isinstance(items, Sequence) and not isinstance(items, str) else (items,)
    return items * times if len(items) == 1 else items


def as_pair(value: object) -> tuple[Any, Any]:
    """Both items of an argument that is a pair, or its single item twice."""
    first, second = as_tuple(value, 2)
    return first, second


def between(bounds: object, u: Float) -> Float:
    """Numbers of a range, (low, high), for ``u`` of any shape, uniform in [0, 1)."""
    low, high = as_pair(bounds)
    return np.asarray(low + (high - low) * u)


def random_keys(u: Float) -> npt.NDArray[np.uint64]:
    """Keys of further random numbers, for ``u`` of any shape, uniform in [0, 1)."""
    return np.asarray(u * 2.0**53, np.uint64)


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


_GAMMA_ATTEMPTS = 6
DRAWS = 3 * _GAMMA_ATTEMPTS + 1
"""Number of uniform numbers for each share."""


def dirichlet(alpha: float, u: Float) -> Float:
    """Shares, (N, K), of (N, K * DRAWS) numbers uniform in [0, 1); each row sums to 1."""
    # They are Gamma(alpha) variates over their sum, as logarithms: variates of a small alpha would underflow.
    # Each follows the method of Marsaglia and Tsang ("A simple method for generating gamma variables", ACM
    # TOMS 2000), which accepts 19 attempts in 20. The first accepted one of six attempts counts, or the first
    # attempt if none is accepted (one in 10**8).
    u = u.reshape(len(u), u.shape[1] // DRAWS, DRAWS)
    boost = alpha < 1
    d = alpha + boost - 1 / 3
    first, second, third = (1 - u[..., k : 3 * _GAMMA_ATTEMPTS : 3] for k in range(3))  # in (0, 1]
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    v = np.maximum(1 + normal / math.sqrt(9 * d), 1e-9) ** 3
    log_v = np.log(v)
    accepted = (np.log(third) < normal**2 / 2 + d * (1 - v + log_v)) & (v > 1e-20)
    chosen = accepted.argmax(axis=-1)[..., None]
    logarithm = math.log(d) + np.take_along_axis(log_v, chosen, axis=-1)[..., 0]
    if boost:
        logarithm = logarithm + np.log(1 - u[..., -1]) / alpha
    shares = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def symmetric_beta(alpha: float, u: Float) -> Float:
    """Beta(alpha, alpha) variates, (N,), from each sample's first two uniform numbers, without rejection."""
    # They are accurate to 1e-16: smaller shares are zero. Source: Devroye, "Random variate generation in one
    # line of code", Winter Simulation Conference 1996, the symmetric Beta.
    cosine = np.cos(2 * np.pi * u[:, 1])
    with np.errstate(over="ignore", divide="ignore"):  # infinite for a small alpha: the share is 0 or 1
        odds = ((1 - u[:, 0]) ** (-1 / alpha) - 1) * cosine**2
        return np.asarray(0.5 + 0.5 * np.sign(cosine) / np.sqrt(1 + 1 / odds))


ATTEMPTS = 10  # as in torchvision


def first_fit(
    image: Int, bounds: tuple[Int | int, Int | int], scale: Sequence[float], ratio: Sequence[float], u: Float
) -> tuple[Int, npt.NDArray[np.bool_]]:
    """Sizes of the first attempts that lie within bounds."""
    # image (2, N), u (N, 2 * ATTEMPTS)
    area = (image[0] * image[1])[:, None] * between(scale, u[:, :ATTEMPTS])
    aspect = np.exp(between(tuple(map(math.log, ratio)), u[:, ATTEMPTS:]))
    size = np.rint(np.sqrt((area / aspect, area * aspect)))
    smallest, largest = (np.atleast_1d(bound)[..., None] for bound in bounds)
    fits = np.all((size >= smallest) & (size <= largest), axis=0)
    rows, first = np.arange(fits.shape[0]), np.argmax(fits, axis=1)
    return size[:, rows, first].astype(np.int64), fits[rows, first]
