"""What a loader draws from: sources of samples, and samplers, which say what an epoch draws of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError
from stoker.formats.dataset.columns import STRING_TYPE
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.urls import is_url

from ..options import Cache
from .orders import (
    BlockShuffle,
    Order,
    Repeat,
    Sequential,
    Stream,
    WeightedDraws,
    WeightedShuffle,
    make_order,
)

if TYPE_CHECKING:
    from .mixture import Mixture

SampleSource: TypeAlias = "Dataset | Mixture"
"""N samples with an index. A sample's number, from 0 to N - 1, is called its position in the source.

:class:`Dataset` explains all members; a mixture counts rows and shards through all of its datasets.
"""


def batched_values(source: SampleSource, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any] | list[str]:
    """The values of one of :func:`.batchable_columns`: (M,) numbers, or a list of M strings."""
    if source.types[name] == STRING_TYPE:
        return source.strings(name, positions)
    return source.values(name, positions)


def value_dtype(source: SampleSource, name: str) -> str:
    """NumPy's name of the dtype of one of :func:`.batchable_columns`, or "str"."""
    return "str" if source.types[name] == STRING_TYPE else source.values(name, ()).dtype.name


def version_of(source: SampleSource) -> int | list[int]:
    """The version of a dataset; a list for a mixture of datasets with versions."""
    versions = [dataset.manifest.dataset_version for dataset in source.datasets]
    return versions if len(versions) > 1 and max(versions) > 1 else versions[0]


def is_remote(source: SampleSource) -> bool:
    """Whether a source has a remote dataset, whose bytes may not be on this machine yet."""
    return any(dataset.is_remote for dataset in source.datasets)


_OBJECT_LABELS = "object_labels"


class Sampler(Protocol):
    """Determines which samples an epoch draws."""

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        """Return the order of the draws."""


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws with probabilities in proportion to weights.

    With replacement all draws are independent, as with PyTorch's ``WeightedRandomSampler``. Without
    replacement each draw is in proportion to the weights of the samples that remain (Efraimidis and
    Spirakis, "Weighted random sampling with a reservoir", 2006).

    It needs memory for one number a sample. Without replacement each epoch begins with a sort.

    Attributes:
        weights: Name of an index column, or (N,) numbers from 0, one for each sample of the dataset.
        replacement: Whether an epoch can draw a sample several times.
        samples: Draws in an epoch; None for the number of samples, or without replacement the number of
            samples with a weight above 0.
    """

    weights: str | npt.ArrayLike
    replacement: bool = True
    samples: int | None = None

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        _refuse_shuffle(self, shuffled)
        given = dataset.column(self.weights) if isinstance(self.weights, str) else self.weights
        weights = _checked(given, len(dataset))
        if self.replacement:
            return WeightedDraws(_draws(self.samples, len(dataset), None), seed, weights)
        most = int(np.count_nonzero(weights))
        return WeightedShuffle(_draws(self.samples, most, most), seed, weights)


@dataclass(frozen=True, eq=False)
class ClassBalanced:
    """Draws all classes equally often, to within one draw, and all samples of a class equally often.

    ``ClassBalanced("object_labels")`` draws for the classes of objects: a class draws the images that show
    it, an image may be drawn for several classes, and one without objects is not drawn (class-aware sampling
    of Shen et al., "Relay backpropagation", ECCV 2016).

    The draws of a class cycle through its samples, in another order in each cycle, and continue in the next
    epoch. Any run of draws as long as the number of classes has nearly all of them.

    Attributes:
        column: Name of the index column with the class, or (N,) numbers, one for each sample of the dataset;
            or ``"object_labels"``.
        samples: Draws in an epoch; None for the number of samples.
    """

    column: str | npt.ArrayLike = "label"
    samples: int | None = None

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        _refuse_shuffle(self, shuffled)
        if isinstance(self.column, str) and self.column == _OBJECT_LABELS:
            return self._order_of_objects(dataset, seed)
        classes = np.asarray(self.column)
        if isinstance(self.column, str):
            classes = dataset.labels if self.column == "label" else dataset.column(self.column)
        if classes.shape != (len(dataset),) or not np.issubdtype(classes.dtype, np.number):
            raise ConfigError(
                f"classes must be one number a sample, {len(dataset)}, found {classes.dtype} {classes.shape}"
            )
        from .quotas import Balanced

        return Balanced(_draws(self.samples, len(dataset), None), seed, classes)

    def _order_of_objects(self, dataset: SampleSource, seed: int) -> Order:
        objects = dataset.annotations(np.arange(len(dataset)), ()) if "boxes" in dataset.tasks else None
        if objects is None or not len(objects):
            raise ConfigError(
                "ClassBalanced('object_labels') needs objects, and the dataset has none",
                path=dataset.path,
                hint="ClassBalanced() draws classes of images equally often.",
            )
        classes, images = np.unique(np.stack((objects.labels, objects.owner)), axis=1)
        from .quotas import BalancedObjects

        return BalancedObjects(_draws(self.samples, len(dataset), None), seed, classes, images=images)


@dataclass(frozen=True)
class Repeated:
    """Repeated augmentation: draws each sample several times in a row, with different random parameters.

    The repeats of a sample are in one global batch if its size is a multiple of ``times``, and on different
    ranks if there are several. With ``samples=len(dataset)`` an epoch has its usual length and draws one in
    ``times`` samples, as with DeiT's ``RASampler`` and timm's ``RepeatAugSampler``. Otherwise each sample is
    drawn ``times`` times in an epoch, as in Hoffer et al., "Augment your batch" (CVPR 2020).

    Attributes:
        times: Number of repeats.
        of: Another sampler whose draws are repeated; None for the loader's ``shuffle``.
        samples: Draws in an epoch; None for all.
    """

    times: int
    of: Sampler | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", whole_number("times", self.times, 1))

    def order(self, dataset: SampleSource, shuffled: Order, seed: int) -> Order:
        base = shuffled if self.of is None else self.of.order(dataset, shuffled, seed)
        most = base.n * self.times
        return Repeat(base, self.times, _draws(self.samples, most, most))


def open_cached(
    path: Any, cache: Cache | None, version: int | None = None, classes: Sequence[str] | None = None
) -> Dataset:
    """Open a dataset, a remote one through a loader's cache."""
    if cache is None:
        return open_dataset(path, version=version, classes=classes)
    return open_dataset(path, version=version, classes=classes, cache=cache.folder, cache_size=cache.size)


def open_source(
    dataset: SampleSource | str | os.PathLike[str],
    kind: Literal["image", "text"],
    cache: Cache | None,
    classes: Sequence[str] | None = None,
) -> SampleSource:
    """Open the ``dataset`` argument of a loader, a remote one through its cache."""
    if isinstance(dataset, (str, os.PathLike)):
        if cache is None and is_url(dataset):
            raise ConfigError(
                "a loader reads local files",
                path=dataset,
                hint="Name a local folder: reading=Reading(cache=Cache(folder)). Or bring the dataset here "
                "first: stoker stage.",
            )
        opened: SampleSource = open_cached(dataset, cache, classes=classes)
    elif not hasattr(dataset, "fingerprint"):
        raise ConfigError(
            f"dataset must be a path, or what stoker.open or stoker.mix returns, found {dataset!r}",
            hint="Mix several datasets with stoker.mix; choose samples with stoker.open(path).select(...).",
        )
    elif classes is not None and dataset.classes != tuple(classes):
        raise ConfigError(
            "classes is for a dataset that is named by its path",
            hint="Give it where the dataset is opened: stoker.open(path, classes=...).",
        )
    elif cache is not None:
        raise ConfigError(
            "a cache needs a dataset that is named by its URL or path",
            hint="Name the cache where the dataset is opened: stoker.open(url, cache=..., cache_size=...).",
        )
    else:
        opened = dataset
    if not len(opened):
        raise ConfigError("the dataset has no samples", path=opened.path)
    sample_type = opened.manifest.sample_type
    if sample_type != kind:
        raise ConfigError(
            f"{kind.title()}Loader reads {kind}, but this dataset holds {sample_type}",
            path=opened.path,
            hint=f"Use {sample_type.title()}Loader for it.",
        )
    return opened


def make_loader_order(
    dataset: SampleSource,
    shuffle: bool | BlockShuffle,
    sampler: Sampler | None,
    samples_per_epoch: int | None,
    seed: int,
) -> Order:
    """Return the order of draws that a loader's arguments ask for."""
    of_mixture = getattr(dataset, "order", None)
    order: Order = of_mixture(shuffle, seed) if of_mixture else make_order(len(dataset), shuffle, seed)
    if sampler is not None:
        if not callable(getattr(sampler, "order", None)):
            raise ConfigError(
                f"sampler must have a method order(), found {type(sampler).__name__}",
                hint="Use stoker.Weighted, stoker.ClassBalanced or stoker.Repeated, not PyTorch's samplers.",
            )
        order = sampler.order(dataset, order, seed)
    return order if samples_per_epoch is None else Stream(order, samples_per_epoch)


def _draws(samples: int | None, default: int, most: int | None) -> int:
    return default if samples is None else whole_number("samples", samples, 1, most)


def _refuse_shuffle(sampler: Sampler, shuffled: Order) -> None:
    if not isinstance(shuffled, Sequential):
        raise ConfigError(
            f"{type(sampler).__name__} draws at random itself, so it takes no shuffle and no mixture",
            hint="Leave out shuffle. To weight the datasets of a mixture, use the weights of stoker.mix.",
        )


def _checked(weights: npt.ArrayLike, n: int) -> npt.NDArray[np.float64]:
    values = np.asarray(weights, np.float64)
    if values.shape != (n,):
        raise ConfigError(f"weights must be one number a sample, {n}, found shape {values.shape}")
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ConfigError("weights must be finite numbers from 0, with at least one above 0")
    with np.errstate(over="ignore"):
        if not np.isfinite(values.sum()):
            raise ConfigError(
                f"the sum of the weights must be finite, but the largest of {n} is {values.max():g}",
                hint="Divide all of them by the largest: only their shares count.",
            )
    return values
