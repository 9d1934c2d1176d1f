"""What an epoch draws: samples by weight, classes in equal shares, samples several times.

A sampler says what is wanted and knows no dataset; :meth:`Sampler.order` makes the order of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stoker.errors import ConfigError
from stoker.pipeline.order import Order, Repeat

if TYPE_CHECKING:
    from stoker.formats.dataset import Dataset

__all__ = ["Repeated", "Sampler"]


class Sampler(Protocol):
    """Decides which samples an epoch draws."""

    def order(self, dataset: Dataset, shuffled: Order, seed: int) -> Order:
        """The order of the draws.

        Args:
            dataset: What is drawn from.
            shuffled: The order of all its samples, as the loader's ``shuffle`` asks for it.
            seed: Of the loader.

        Raises:
            ConfigError: The sampler does not fit the dataset or the shuffle.
        """


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
        if self.times < 1:
            raise ConfigError(f"times must be at least 1, found {self.times}")

    def order(self, dataset: Dataset, shuffled: Order, seed: int) -> Order:
        """See :meth:`Sampler.order`."""
        base = shuffled if self.of is None else self.of.order(dataset, shuffled, seed)
        most = base.n * self.times
        if self.samples is not None and not 1 <= self.samples <= most:
            raise ConfigError(f"samples must be from 1 to {most}, found {self.samples}")
        return Repeat(base, self.times, self.samples or most)
