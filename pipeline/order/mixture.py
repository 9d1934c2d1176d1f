"""Mixtures: several datasets as one source of samples, with a share of the draws for each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError, CorruptRecordError, SampleError
from stoker.formats.dataset.annotations import MASK_COLUMNS, Annotations
from stoker.formats.dataset.columns import ArrayColumn, ListColumn, Origins, merged_column
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.formats.dataset.manifest import Manifest
from stoker.formats.open import open as open_dataset

from .class_merging import MergedClasses, check_mixable, common_info, merge_classes
from .moving_weights import MovingWeights, scheduled_parts
from .orders import BlockShuffle, make_order
from .quotas import MixedOrder, QuotaSchedule, apportion_draws
from .sampling import batchable_columns

Int64 = npt.NDArray[np.int64]


def dataset_parts(which: Int64) -> Iterator[tuple[int, Int64]]:
    """Yield the number of each dataset in ``which``, and the indices of its samples; at least dataset 0."""
    for d in np.unique(which).tolist() or [0]:
        yield d, np.flatnonzero(which == d)


def gathered(which: Int64, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Merge the values of each dataset's samples into the order of all samples."""
    values = np.empty((len(which), *parts[0].shape[1:]), np.result_type(*parts))
    for (_, indices), part in zip(dataset_parts(which), parts, strict=True):
        values[indices] = part
    return values


def gathered_bands(
    which: Int64, parts: Sequence[npt.NDArray[np.uint32] | None]
) -> npt.NDArray[np.uint32] | None:
    """Merge tables of different widths, see :attr:`Samples.bands`; None is a table without columns."""
    widths = [0 if part is None else part.shape[1] for part in parts]
    if not any(widths):
        return None
    values = np.zeros((len(which), max(widths)), np.uint32)
    for (_, indices), part, width in zip(dataset_parts(which), parts, widths, strict=True):
        if part is not None:
            values[indices, :width] = part
    return values


def joined_objects(parts: Sequence[Annotations]) -> Annotations:
    """Return the objects of several datasets, sorted by ``owner``."""
    # Keypoints and further columns that only some datasets have are left out. One dataset may have masks as
    # polygons and another as run lengths; an object has nothing in the other form.
    values = {item.name: [getattr(part, item.name) for part in parts] for item in fields(Annotations)}
    if all(part.polygons is not None or part.runs is not None for part in parts):
        nothing: dict[str, Any] = {"polygons": [], "runs": np.zeros(0, np.uint32)}
        for name, empty in nothing.items():
            pairs = zip(values[name], parts, strict=True)
            values[name] = [[empty] * len(part) if value is None else value for value, part in pairs]
    joined = Annotations(**{name: _concatenated(of_parts) for name, of_parts in values.items()})
    return joined.take(np.argsort(joined.owner, kind="stable"))


def _concatenated(values: Sequence[Any]) -> Any:
    """Concatenate an attribute of objects; one that only some datasets have is left out."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], list):
        return list(chain.from_iterable(values))
    if isinstance(values[0], Mapping):
        common = set.intersection(*map(set, values))
        return {name: np.concatenate([value[name] for value in values]) for name in sorted(common)}
    return np.concatenate(values)


_LABELS = ("label", "object_labels")  # columns whose values are classes


@dataclass(frozen=True, eq=False)
class Mixture:
    """Several datasets as one :class:`~.sample_source.SampleSource`; made by :func:`stoker.mix`.

    Positions, rows and shards are counted through the datasets one after the other. The column ``dataset``
    has the number of a sample's dataset, from 0.

    Attributes:
        datasets: The D datasets.
        quotas: (D,) int64, draws of each dataset in an epoch; with ``moving``, in a round of the last part.
        merged_classes: Their merged classes.
        moving: Parts of the training with other weights; None if weights never change.
    """

    datasets: tuple[Dataset, ...]
    quotas: Int64
    merged_classes: MergedClasses
    moving: MovingWeights | None = None

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{quota:,} of {dataset!r}"
            for quota, dataset in zip(self.quotas.tolist(), self.datasets, strict=True)
        )
        without = f"; without {', '.join(sorted(self.left_out))}" if self.left_out else ""
        return f"<Mixture: an epoch draws {parts}{without}>"

    @property
    def path(self) -> Path:
        """Folder of the first dataset."""
        return self.datasets[0].path

    @property
    def manifest(self) -> Manifest:
        """Manifest of the first dataset, which stands for all, with the annotations that all have."""
        first = self.datasets[0].manifest
        return replace(first, annotations=common_info(self.datasets))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label."""
        return self.merged_classes.names

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where the datasets have none."""
        return len(self.classes)

    @property
    def types(self) -> dict[str, str]:
        """Arrow's type of each index column that all datasets have, and of ``dataset``, by name."""
        common = set.intersection(*(set(dataset.types.items()) for dataset in self.datasets))
        return {"dataset": "int64", **dict(sorted(common))}

    @property
    def tasks(self) -> frozenset[str]:
        """Tasks that the samples of all datasets have annotations for."""
        return frozenset.intersection(*(dataset.tasks for dataset in self.datasets))

    @property
    def left_out(self) -> dict[str, tuple[Path, ...]]:
        """Tasks and columns that only some datasets have, with the folders of the datasets that lack them."""
        have = [
            {*one.tasks, *batchable_columns(one), *one.arrays} - MASK_COLUMNS.keys() for one in self.datasets
        ]
        some = have[0].union(*have) - have[0].intersection(*have)
        paths = [(dataset.path, names) for dataset, names in zip(self.datasets, have, strict=True)]
        return {name: tuple(path for path, names in paths if name not in names) for name in sorted(some)}

    @property
    def arrays(self) -> Mapping[str, ArrayColumn]:
        """The array columns that all datasets have with one dtype and as many sides, by name."""
        common = set.intersection(*(set(dataset.arrays) for dataset in self.datasets))
        found = {name: [dataset.arrays[name] for dataset in self.datasets] for name in sorted(common)}
        kinds = {name: {(one.dtype, len(one.shape)) for one in columns} for name, columns in found.items()}
        return {name: merged_column(columns) for name, columns in found.items() if len(kinds[name]) == 1}

    @property
    def data_files(self) -> list[Path]:
        """Absolute path of each shard's data file."""
        return list(chain.from_iterable(dataset.data_files for dataset in self.datasets))

    @property
    def data_sizes(self) -> list[int]:
        """Size of each data file in bytes."""
        return list(chain.from_iterable(dataset.data_sizes for dataset in self.datasets))

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify these samples in this order; checkpoints record them."""
        return hashlib.sha256(
            " ".join(dataset.fingerprint for dataset in self.datasets).encode()
        ).hexdigest()[:32]

    @property
    def rows(self) -> Int64:
        """(N,) int64: the index row of every sample, counted through all datasets."""
        pairs = zip(self._first_rows.tolist(), self.datasets, strict=False)
        return np.concatenate([first + dataset.rows for first, dataset in pairs])

    @property
    def is_distinct(self) -> bool:
        """Whether no sample was selected twice."""
        return all(dataset.is_distinct for dataset in self.datasets)

    @property
    def labels(self) -> Int64:
        """(N,) int64: the class of every sample, copied from all datasets at each call."""
        return self.column("label")

    def column(self, name: str) -> npt.NDArray[Any]:
        """(N,) values of a numeric index column, copied from all datasets at each call."""
        return self.values(name, np.arange(len(self)))

    def values(self, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """(M,) values of a numeric index column; shards are counted through all datasets."""
        which, local = self._locate(positions)
        if name == "dataset":
            return which
        parts = [(d, self.datasets[d].values(name, local[indices])) for d, indices in dataset_parts(which)]
        values = gathered(which, [self._relabelled(d, name, of_part) for d, of_part in parts])
        return values + self._first_shards[which].astype(values.dtype) if name == "shard" else values

    def lists(self, name: str, positions: npt.ArrayLike) -> ListColumn:
        """M lists of an index column that holds lists of numbers."""
        which, local = self._locate(positions)
        parts = list(dataset_parts(which))
        lists = [self.datasets[d].lists(name, local[indices]) for d, indices in parts]
        values = [self._relabelled(d, name, part.values) for (d, _), part in zip(parts, lists, strict=True)]
        joined = ListColumn.of_counts(np.concatenate([part.counts for part in lists]), np.concatenate(values))
        return joined.take(np.argsort(np.concatenate([indices for _, indices in parts]), kind="stable"))

    def samples(self, positions: npt.ArrayLike) -> Samples:
        """Where M payloads lie; shards and rows are counted through all datasets."""
        which, local = self._locate(positions)
        parts = []
        for d, indices in dataset_parts(which):
            part = self.datasets[d].samples(local[indices])
            row, shard = part.row + self._first_rows[d], part.shard + self._first_shards[d]
            parts.append(replace(part, row=row, shard=shard.astype(np.int32)))
        columns = [column.name for column in fields(Samples) if column.name != "bands"]
        return Samples(
            **{name: gathered(which, [getattr(part, name) for part in parts]) for name in columns},
            bands=gathered_bands(which, [part.bands for part in parts]),
        )

    def keys(self, positions: npt.ArrayLike) -> list[str]:
        """M names that the samples have in the data they were converted from."""
        return self.strings("key", positions)

    def strings(self, name: str, positions: npt.ArrayLike) -> list[str]:
        """M values of an index column of strings."""
        which, local = self._locate(positions)
        pairs = zip(which.tolist(), local.tolist(), strict=True)
        return [self.datasets[d].strings(name, [position])[0] for d, position in pairs]

    def annotations(self, positions: npt.ArrayLike, parts: Collection[str] | None = None) -> Annotations:
        """Objects of M samples, with the parts that all datasets have; see :meth:`Dataset.annotations`."""
        which, local = self._locate(positions)
        objects = []
        for d, indices in dataset_parts(which):
            part = self.datasets[d].annotations(local[indices], parts)
            labels = self._relabelled(d, "object_labels", part.labels)
            objects.append(replace(part, owner=indices[part.owner], labels=labels))
        return joined_objects(objects)

    def origins(self, positions: npt.ArrayLike) -> Origins:
        """The way from M stored images back to those of their sources, see :meth:`Dataset.origins`."""
        which, local = self._locate(positions)
        parts = [self.datasets[d].origins(local[indices]) for d, indices in dataset_parts(which)]
        return Origins(*(gathered(which, list(values)) for values in zip(*parts, strict=True)))

    def mask(self, position: int) -> bytes:
        """PNG with the mask of one sample, see :meth:`Dataset.mask`."""
        dataset, local = self._locate_one(position)
        return dataset.mask(local)

    def error(
        self,
        position: int,
        message: str,
        error_type: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        """An exception of type ``error_type`` that names the shard, record and key of one sample."""
        dataset, local = self._locate_one(position)
        return dataset.error(local, message, error_type, hint)

    def order(self, shuffle: bool | BlockShuffle, seed: int) -> MixedOrder:
        """Return the order of draws; the loader's ``shuffle`` determines the cycles of each dataset."""
        sizes = np.array([len(dataset) for dataset in self.datasets], np.int64)
        # Different seeds: with one seed, datasets of equal size would be permuted alike.
        rounds = tuple(
            make_order(len(dataset), shuffle, seed * len(self.datasets) + d)
            for d, dataset in enumerate(self.datasets)
        )
        return MixedOrder(QuotaSchedule(self.quotas, sizes, seed), rounds, self.moving)

    @cached_property
    def _starts(self) -> Int64:
        """(D + 1,) int64, the first position of each dataset, and the number of samples."""
        return np.cumsum([0, *map(len, self.datasets)], dtype=np.int64)

    @cached_property
    def _first_rows(self) -> Int64:
        return np.cumsum([0, *(len(dataset.index) for dataset in self.datasets)], dtype=np.int64)

    @cached_property
    def _first_shards(self) -> Int64:
        return np.cumsum([0, *(len(dataset.data_files) for dataset in self.datasets)], dtype=np.int64)

    def _relabelled(self, dataset: int, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of an index column of a dataset; labels become those of the mixture."""
        if name not in _LABELS:
            return values
        return self.merged_classes.labels(dataset, values, self.datasets[dataset])

    def _locate(self, positions: npt.ArrayLike) -> tuple[Int64, Int64]:
        """The number of each position's dataset, and the position in that dataset, (M,) int64 each."""
        numbers = np.asarray(positions, np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(
                f"positions go from 0 to {len(self) - 1}, found {numbers.min()} to {numbers.max()}"
            )
        which = np.searchsorted(self._starts, numbers, side="right") - 1
        return which, numbers - self._starts[which]

    def _locate_one(self, position: int) -> tuple[Dataset, int]:
        which, local = self._locate([position])
        return self.datasets[int(which[0])], int(local[0])


def mix(
    datasets_and_weights: Sequence[tuple[Dataset | str | os.PathLike[str], float]],
    samples: int | None = None,
    *,
    schedule: Mapping[int, Sequence[float]] | None = None,
    global_batch: int | None = None,
) -> Mixture:
    """Return several datasets as one, from which an epoch draws in proportion to their weights.

    Each dataset has its exact share of the draws in an epoch, rounded, spread evenly over the epoch. Its
    draws cycle through its samples and continue in the next epoch, so that no sample is drawn again before
    all others have been. The loader's ``shuffle`` determines the order of each cycle, but draws within about
    64 of each other may be swapped.

    If the datasets have different classes, the mixture has all their names in the order in which they first
    appear. So labels of the first dataset do not change; other labels of samples and objects are translated.

    Datasets may have different tasks, such as boxes with and without keypoints. The mixture has the columns
    that all of them have; ``Mixture.left_out`` names the others.

    Args:
        datasets_and_weights: Datasets of images, or of text, or their paths, each with a weight from 0.
        samples: Draws in an epoch; by default the number of samples of all datasets together.
        schedule: Weights that apply from a step of the training on: ``{10_000: (0.5, 0.5)}``. Each part
            between two steps has exact shares. Text is planned for whole epochs: an epoch that
            spans two parts mixes the shares of both.
        global_batch: Samples of a step on all ranks, by which ``schedule`` counts. After a resume with
            another number of ranks or batch size it stays the same.

    Raises:
        ConfigError: ``schedule`` and ``global_batch`` do not go together, or have a wrong value; a weight
            is no number from 0, or all are 0; the datasets cannot be mixed, because only some have names of
            classes, annotations of one task have different meanings, or tokenizers or fields differ; or there
            are no samples to draw.
        DatasetError: A path has no dataset that can be read.
    """
    opened = [_open(pair) for pair in datasets_and_weights]
    check_mixable(opened)
    weights = [float(weight) for _, weight in datasets_and_weights]
    n = sum(map(len, opened)) if samples is None else whole_number("samples", samples)
    if n < 1:
        raise ConfigError(f"a mixture needs at least 1 sample in an epoch, found {n}")
    quotas, moving = apportion_draws(weights, n), None
    if schedule is not None and global_batch is not None:
        moving = scheduled_parts(weights, schedule, whole_number("global_batch", global_batch, 1), n)
        quotas = np.array(moving.parts[-1].quotas, np.int64)
    elif schedule is not None or global_batch is not None:
        raise ConfigError(
            "a schedule of weights counts steps of global_batch samples: give both, or neither",
            hint="global_batch is batch_size times the number of ranks.",
        )
    drawn = quotas if moving is None else np.sum([part.quotas for part in moving.parts], axis=0)
    for dataset, quota in zip(opened, drawn, strict=True):
        if quota and not len(dataset):
            raise ConfigError(
                "a dataset of the mixture has a weight and no samples",
                path=dataset.path,
                hint="Leave the dataset out, or give it weight 0.",
            )
    return Mixture(tuple(opened), quotas, merge_classes(opened), moving)


def _open(pair: tuple[Dataset | str | os.PathLike[str], float]) -> Dataset:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ConfigError(f"a mixture needs pairs of a dataset and its weight, found {pair!r}")
    dataset = pair[0]
    return dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
