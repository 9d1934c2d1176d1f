"""What an epoch draws: samples by weight, classes in equal shares, samples several times.

A sampler says what is wanted and knows no dataset; :meth:`Sampler.order` makes the order of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset

from ..execution.arguments import whole_number
from .draws import Balanced, WeightedDraws, WeightedShuffle
from .epoch_order import BlockShuffle, Order, Repeat, Sequential, Stream, make_order
from .mixture import Mixture

if TYPE_CHECKING:
    import numpy.typing as npt

    from .sample_source import SampleSource

__all__ = ["ClassBalanced", "Repeated", "Sampler", "Weighted", "make_draws", "open_source"]


class Sampler(Protocol):
    """Decides which samples an epoch draws."""

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        """The order of the draws.

        Args:
            dataset: What is drawn from.
            shuffled: The order of all its samples, as the loader's ``shuffle`` asks for it.
            seed: Of the loader.

        Raises:
            ConfigError: The sampler does not fit the dataset or the shuffle.
        """


@dataclass(frozen=True, eq=False)
class Weighted:
    """Samples drawn with probabilities in proportion to their weights.

    With replacement every draw is independent of the others, as with torch's ``WeightedRandomSampler``.
    Without, draws are one after the other from those that are left, each in proportion to the weights of
    these (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).

    Needs memory for a number a sample; without replacement also a sort at the start of each epoch.

    Attributes:
        weights: Name of a column of the index, or (N,) numbers from 0, one for each sample of the dataset.
        replacement: Whether an epoch may draw a sample again.
        samples: Draws in an epoch; None for as many as there are samples, without replacement samples of
            a weight above 0.
    """

    weights: str | npt.ArrayLike
    replacement: bool = True
    samples: int | None = None

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        """See :meth:`Sampler.order`."""
        _refuse_shuffle(self, shuffled)
        given = dataset.column(self.weights) if isinstance(self.weights, str) else self.weights
        weights = _checked(given, len(dataset))
        if self.replacement:
            return WeightedDraws(_draws(self.samples, len(dataset), None), seed, weights)
        most = int(np.count_nonzero(weights))
        return WeightedShuffle(_draws(self.samples, most, most), seed, weights)


@dataclass(frozen=True, eq=False)
class ClassBalanced:
    """Every class drawn equally often, to within one; of each class all samples equally often.

    The draws of a class go round its samples, each time in another order, and on from epoch to epoch. Each
    stretch of an epoch as long as there are classes holds nearly all of them.

    Attributes:
        column: Column of the index that says the class, or (N,) numbers, one for each sample of the dataset.
        samples: Draws in an epoch; None for as many as there are samples.
    """

    column: str | npt.ArrayLike = "label"
    samples: int | None = None

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        """See :meth:`Sampler.order`."""
        _refuse_shuffle(self, shuffled)
        given = dataset.column(self.column) if isinstance(self.column, str) else np.asarray(self.column)
        if given.shape != (len(dataset),) or not np.issubdtype(given.dtype, np.number):
            raise ConfigError(
                f"classes must be one number a sample, {len(dataset)}, not {given.dtype} {given.shape}"
            )
        return Balanced(_draws(self.samples, len(dataset), None), seed, given)


@dataclass(frozen=True)
class Repeated:
    """Repeated augmentation: each sample several times, with random parameters of its own each time.

    The draws of a sample follow each other, so they are in one global batch where its size is a multiple
    of ``times``, and on different ranks where there are several. With ``samples=len(dataset)`` an epoch is
    as long as without and meets one in ``times`` samples, as with DeiT's ``RASampler`` and timm's
    ``RepeatAugSampler``; without it each sample is drawn ``times`` times an epoch, as in Hoffer et al.,
    "Augment your batch" (CVPR 2020).

    Attributes:
        times: Draws of each sample.
        of: Another sampler whose draws are repeated; None for the loader's ``shuffle``.
        samples: Draws in an epoch; None for all.
    """

    times: int
    of: Sampler | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", whole_number("times", self.times, 1))

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        """See :meth:`Sampler.order`."""
        base = shuffled if self.of is None else self.of.order(dataset, shuffled, seed)
        most = base.n * self.times
        return Repeat(base, self.times, _draws(self.samples, most, most))


def open_source(
    dataset: SampleSource | str | os.PathLike[str], kind: Literal["image", "text"]
) -> SampleSource:
    """Open what a loader is given to draw from.

    Raises:
        ConfigError: It is no dataset or path, has no samples, or samples of another kind.
        DatasetError: The path is no dataset that can be read.
    """
    if not isinstance(dataset, (Dataset, Mixture, str, os.PathLike)):
        raise ConfigError(
            f"dataset must be a path, or what stoker.open or stoker.mix returns, found {dataset!r}",
            hint="Several are mixed by stoker.mix; some samples of one are stoker.open(path).select(...).",
        )
    opened = dataset if isinstance(dataset, (Dataset, Mixture)) else open_dataset(dataset)
    if not len(opened):
        raise ConfigError("the dataset has no samples", path=opened.path)
    found = opened.manifest.sample_type
    if found != kind:
        raise ConfigError(
            f"{kind.title()}Loader reads {kind}, and this dataset holds {found}", path=opened.path
        )
    return opened


def make_draws(
    dataset: SampleSource,
    shuffle: bool | BlockShuffle,
    sampler: Sampler | None,
    samples_per_epoch: int | None,
    seed: int,
) -> Order:
    """The order of draws that a loader's arguments ask for.

    Raises:
        ConfigError: They do not go together.
    """
    if isinstance(dataset, Mixture):
        order: Order = dataset.order(shuffle, seed)
    else:
        order = make_order(len(dataset), shuffle, seed)
    if sampler is not None:
        if not callable(getattr(sampler, "order", None)):
            raise ConfigError(
                f"sampler must have a method order, found {type(sampler).__name__}",
                hint="stoker.Weighted, stoker.ClassBalanced and stoker.Repeated stand for those of torch.",
            )
        order = sampler.order(dataset, order, seed)
    return order if samples_per_epoch is None else Stream(order, samples_per_epoch)


def _draws(samples: int | None, default: int, most: int | None) -> int:
    if samples is None:
        return default
    number = whole_number("samples", samples)
    if number < 1 or (most is not None and number > most):
        rule = "at least 1" if most is None else f"from 1 to {most}"
        raise ConfigError(f"samples must be {rule}, found {number}")
    return number


def _refuse_shuffle(sampler: Sampler, shuffled: Order) -> None:
    if not isinstance(shuffled, Sequential):
        raise ConfigError(
            f"{type(sampler).__name__} draws at random itself, from one dataset",
            hint="Leave out shuffle; a mixture takes weights of its own.",
        )


def _checked(weights: npt.ArrayLike, n: int) -> npt.NDArray[np.float64]:
    values = np.asarray(weights, np.float64)
    if values.shape != (n,):
        raise ConfigError(f"weights must be one number a sample, {n}, not shape {values.shape}")
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ConfigError("weights must be finite numbers from 0, one of them above")
    with np.errstate(over="ignore"):
        if not np.isfinite(values.sum()):
            raise ConfigError(
                f"the sum of the weights must be finite, and the largest of {n} is {values.max():g}",
                hint="Divide all of them by the largest: only their shares count.",
            )
    return values
