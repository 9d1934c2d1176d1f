"""Mixtures: several datasets as one source of samples, with a share of the draws for each."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, SampleError
from stoker.formats.dataset.annotations import MASK_COLUMNS, AnnotationInfo, Annotations
from stoker.formats.dataset.columns import ArrayColumn, ListColumn, Origins, batchable_columns, merged_column
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.formats.dataset.manifest import Manifest, end_tokens
from stoker.formats.open import open as open_dataset
from stoker.formats.token_columns import IDS_COLUMN, length_column, trained_column
from stoker.processes import cached_property

from .moving_weights import MovingWeights, scheduled_parts
from .orders import BlockShuffle, grouped, make_order
from .quotas import MixedOrder, QuotaSchedule, apportion_draws

Int64 = npt.NDArray[np.int64]

# The options of a manifest that decide which text a sequence of ids is, by their names in errors.
_ENCODING: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "list of fields": lambda options: options.get("fields"),
    # One tokenizer can have two names, so the digest of its file identifies it.
    "tokenizer": lambda options: options.get("tokenizer_digest") or options.get("tokenizer"),
}


def _has_one_sequence(options: Mapping[str, Any]) -> bool:
    """Whether samples are one sequence for a training, such as messages of chats or a text beside them."""
    return bool(options.get("train_on")) and "," not in str(options.get("fields"))


# The task of the annotations that a field of AnnotationInfo explains.
_TASKS = {
    "keypoints": "keypoints",
    "swap": "keypoints",
    "skeleton": "keypoints",
    "ignore": "segmentation",
    "mask_classes": "segmentation",
}
_LABELLED = {"label", "labels", "boxes"}  # tasks with classes


@dataclass(frozen=True, eq=False)
class Mixture:
    """Several datasets as one :class:`~.sampling.SampleSource`; made by :func:`stoker.mix`.

    Positions, rows and shards are counted through the datasets one after the other. The column ``dataset``
    has the number of a sample's dataset, from 0.

    Attributes:
        datasets: The D datasets.
        quotas: (D,) int64, draws of each dataset in an epoch; with ``moving``, in a round of the last part.
        classes: Names of the classes, by label.
        tables: For each dataset (C,) int64, the label of each of its C classes; None if all have these.
        moving: Parts of the training with other weights; None if weights never change.
    """

    datasets: tuple[Dataset, ...]
    quotas: Int64
    classes: tuple[str, ...]
    tables: tuple[Int64, ...] | None = None
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
        first, tasks, plain = self.datasets[0].manifest, self.tasks, AnnotationInfo()
        lost = {name: getattr(plain, name) for name, task in _TASKS.items() if task not in tasks}
        return replace(first, annotations=replace(first.annotations, **lost)) if self.datasets[1:] else first

    @property
    def num_classes(self) -> int:
        """Number of classes, as of a dataset; 0 where the datasets have none."""
        return len(self.classes) or max(dataset.num_classes for dataset in self.datasets)

    @property
    def types(self) -> dict[str, str]:
        """Arrow's type of each index column that all datasets have, and of ``dataset``, by name."""
        types = [
            {
                **one.types,
                **{new: one.types[old] for new, old in self._renamed(d).items() if old in one.types},
            }
            for d, one in enumerate(self.datasets)
        ]
        common = set.intersection(*(set(each.items()) for each in types))
        return {"dataset": "int64", **dict(sorted(common))}

    def _renamed(self, d: int) -> dict[str, str]:
        """The columns of the only field of a dataset, by their names in the first dataset."""
        first, own = (str(self.datasets[n].manifest.options.get("fields", "")) for n in (0, d))
        if own == first:
            return {}
        return {name(first): name(own) for name in (length_column, trained_column)}

    @property
    def tasks(self) -> frozenset[str]:
        """Tasks that the samples of all datasets have annotations for."""
        return frozenset.intersection(*(dataset.tasks for dataset in self.datasets))

    @property
    def left_out(self) -> dict[str, tuple[Path, ...]]:
        """Tasks and columns that only some datasets have, with the folders of the datasets that lack them."""
        have = [
            {*one.tasks, *batchable_columns(one.types), *one.arrays} - MASK_COLUMNS.keys()
            for one in self.datasets
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
        parts = enumerate(self.datasets)
        return np.concatenate([self._relabelled(d, "label", one.labels) for d, one in parts])

    def column(self, name: str) -> npt.NDArray[Any]:
        """(N,) values of a numeric index column, copied from all datasets at each call."""
        return self.values(name, np.arange(len(self)))

    def values(self, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """(M,) values of a numeric index column; shards are counted through all datasets."""
        parts, back = self._parts(positions)
        if name == "dataset":
            return np.concatenate([np.full(len(local), d) for d, _, local in parts])[back]
        values = [
            self._relabelled(d, name, self.datasets[d].values(self._renamed(d).get(name, name), local))
            for d, _, local in parts
        ]
        if name == "shard":
            firsts = self._first_shards
            values = [one + firsts[d].astype(one.dtype) for (d, _, _), one in zip(parts, values, strict=True)]
        return np.concatenate(values)[back]

    def lists(self, name: str, positions: npt.ArrayLike) -> ListColumn:
        """M lists of an index column that holds lists of numbers."""
        parts, back = self._parts(positions)
        lists = [self.datasets[d].lists(self._renamed(d).get(name, name), local) for d, _, local in parts]
        values = [self._relabelled(d, name, one.values) for (d, _, _), one in zip(parts, lists, strict=True)]
        counts = np.concatenate([one.counts for one in lists])
        return ListColumn.of_counts(counts, np.concatenate(values)).take(back)

    def samples(self, positions: npt.ArrayLike) -> Samples:
        """Where M payloads lie; shards and rows are counted through all datasets."""
        parts, back = self._parts(positions)
        found = []
        for d, _, local in parts:
            one = self.datasets[d].samples(local)
            row, shard = one.row + self._first_rows[d], one.shard + self._first_shards[d]
            found.append(replace(one, row=row, shard=shard.astype(np.int32)))
        columns = {item.name: [getattr(one, item.name) for one in found] for item in fields(Samples)}
        columns["bands"] = _widened(columns["bands"], list(map(len, found)))
        return Samples(**{name: _concatenated(values) for name, values in columns.items()}).take(back)

    def keys(self, positions: npt.ArrayLike) -> list[str]:
        """M names that the samples have in the data they were converted from."""
        return self.strings("key", positions)

    def strings(self, name: str, positions: npt.ArrayLike) -> list[str]:
        """M values of an index column of strings."""
        parts, back = self._parts(positions)
        values = [text for d, _, local in parts for text in self.datasets[d].strings(name, local)]
        return [values[i] for i in back.tolist()]

    def annotations(self, positions: npt.ArrayLike, parts: Collection[str] | None = None) -> Annotations:
        """Objects of M samples, with the parts that all datasets have; see :meth:`Dataset.annotations`."""
        objects = []
        for d, at, local in self._parts(positions)[0]:
            one = self.datasets[d].annotations(local, parts)
            labels = self._relabelled(d, "object_labels", one.labels)
            objects.append(replace(one, owner=at[one.owner], labels=labels))
        return _joined_objects(objects)

    def origins(self, positions: npt.ArrayLike) -> Origins:
        """The way from M stored images back to those of their sources, see :meth:`Dataset.origins`."""
        parts, back = self._parts(positions)
        origins = [self.datasets[d].origins(local) for d, _, local in parts]
        return Origins(*(np.concatenate(values)[back] for values in zip(*origins, strict=True)))

    def mask(self, position: int) -> bytes:
        """PNG with the mask of one sample, see :meth:`Dataset.mask`."""
        ((d, _, local),), _ = self._parts([position])
        return self.datasets[d].mask(int(local[0]))

    def error(
        self,
        position: int,
        message: str,
        error_type: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        """An exception of type ``error_type`` that names the shard, record and key of one sample."""
        ((d, _, local),), _ = self._parts([position])
        return self.datasets[d].error(int(local[0]), message, error_type, hint)

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
        if self.tables is None or name not in ("label", "object_labels"):
            return values
        table = self.tables[dataset]
        if values.size and not 0 <= values.min() <= values.max() < len(table):
            raise DatasetError(
                f"labels go from {values.min()} to {values.max()}, but the dataset has {len(table)} classes",
                path=self.datasets[dataset].path,
                hint="Convert or index the dataset again with the names of all its classes.",
            )
        labels: Int64 = table[values]
        return labels

    def _parts(self, positions: npt.ArrayLike) -> tuple[list[tuple[int, Int64, Int64]], Int64]:
        """For each dataset its number, the indices of its ``positions``, and these positions in the dataset.

        The second array puts what is found part after part into the order of ``positions``, (M,) int64.
        """
        numbers = np.asarray(positions, np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(
                f"positions go from 0 to {len(self) - 1}, found {numbers.min()} to {numbers.max()}"
            )
        which = np.searchsorted(self._starts, numbers, side="right") - 1
        parts = [(d, at, numbers[at] - self._starts[d]) for d, at in grouped(which)]
        parts = parts or [(0, which, numbers)]  # dataset 0 knows the dtypes
        return parts, np.argsort(which, kind="stable").argsort()


def _widened(tables: Sequence[npt.NDArray[np.uint32] | None], lengths: Sequence[int]) -> list[Any]:
    """Tables of one width, see :attr:`Samples.bands`; all are None if none has a column."""
    width = max(0 if table is None else table.shape[1] for table in tables)
    if not width:
        return [None] * len(tables)
    widened = [np.zeros((length, width), np.uint32) for length in lengths]
    for wide, table in zip(widened, tables, strict=True):
        if table is not None:
            wide[:, : table.shape[1]] = table
    return widened


def _joined_objects(parts: Sequence[Annotations]) -> Annotations:
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
    """Concatenate the values of several datasets; None where only some have them."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], list):
        return list(chain.from_iterable(values))
    if isinstance(values[0], Mapping):
        common = set.intersection(*map(set, values))
        return {name: np.concatenate([value[name] for value in values]) for name in sorted(common)}
    return np.concatenate(values)


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
    _check_mixable(opened)
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
    return Mixture(tuple(opened), quotas, *_merge_classes(opened), moving)


def _open(pair: tuple[Dataset | str | os.PathLike[str], float]) -> Dataset:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ConfigError(f"a mixture needs pairs of a dataset and its weight, found {pair!r}")
    dataset = pair[0]
    return dataset if isinstance(dataset, Dataset) else open_dataset(dataset)


def _check_mixable(opened: Sequence[Dataset]) -> None:
    """Check that there are datasets, and that their samples, annotations and token ids have one meaning."""
    if not opened:
        raise ConfigError("a mixture needs at least one dataset")
    first = opened[0].manifest
    _check_ends(opened)
    for dataset in opened:
        manifest = dataset.manifest
        if manifest.sample_type != first.sample_type:
            raise ConfigError(
                f"the datasets of a mixture hold {first.sample_type} and {manifest.sample_type}",
                path=dataset.path,
                hint="Mix datasets of images, or datasets of text.",
            )
        common, infos = opened[0].tasks & dataset.tasks, (first.annotations, manifest.annotations)
        names = [name for name, task in _TASKS.items() if task in common]
        if differing := [name for name in names if getattr(infos[0], name) != getattr(infos[1], name)]:
            raise ConfigError(
                f"the annotations of the datasets have different meanings: {' and '.join(differing)} differ",
                path=dataset.path,
                hint=f"Convert both in the same way; the first is {opened[0].path}.",
            )
        differing = [name for name, of in _ENCODING.items() if of(manifest.options) != of(first.options)]
        if _has_one_sequence(manifest.options) and _has_one_sequence(first.options):
            differing = [name for name in differing if name != "list of fields"]
        has_ids = manifest.sample_type == "text"
        has_ids |= IDS_COLUMN in manifest.columns and IDS_COLUMN in first.columns
        if has_ids and differing:
            raise ConfigError(
                f"the datasets of a mixture differ in {' and '.join(differing)}, so a token id would have "
                "two meanings",
                path=dataset.path,
                hint="Convert both with the same fields and the same tokenizer, which each dataset has as "
                "tokenizer.json.",
            )
        if _states_trained_tokens(manifest) != _states_trained_tokens(first):
            raise ConfigError(
                "one dataset of the mixture states which tokens a model is trained on, and another does not",
                path=dataset.path,
                hint="Convert both with train_on, plain text with train_on='all', or both without it.",
            )


def _check_ends(opened: Sequence[Dataset]) -> None:
    """Check that the texts of datasets that end with a token end with the same one, and so begin."""
    seen: dict[str, tuple[str, Path]] = {}
    for dataset in opened:
        for name, token in end_tokens(dataset.manifest.options).items():
            first, path = seen.setdefault(name, (token, dataset.path))
            if token != first:
                raise ConfigError(
                    f"the texts of a mixture must have one token for {name}, found {first} and {token}",
                    path=dataset.path,
                    hint=f"Convert the texts with vocabulary={str(path)!r}, which has the first token.",
                )


def _states_trained_tokens(manifest: Manifest) -> bool:
    """Whether the index says which tokens of a text a model is trained on."""
    fields_of_text = str(manifest.options.get("fields", "")).split(",")
    return any(trained_column(field) in manifest.columns for field in fields_of_text)


def _merge_classes(datasets: Sequence[Dataset]) -> tuple[tuple[str, ...], tuple[Int64, ...] | None]:
    """The classes of datasets merged by name, and the merged label of each class of each dataset.

    The labels of the first dataset do not change. There is no table if all datasets have the same classes.
    """
    lists = [dataset.classes for dataset in datasets]
    if all(names == lists[0] for names in lists):
        return lists[0], None
    tasks = frozenset.intersection(*(dataset.tasks for dataset in datasets))
    if not tasks & _LABELLED and any(dataset.tasks for dataset in datasets):
        return (), None  # no column has classes
    for dataset, names in zip(datasets, lists, strict=True):
        repeated = [name for name, times in Counter(names).items() if times > 1]
        if not names or repeated:
            what = f"has the name {repeated[0]!r} for two classes" if repeated else "has no names of classes"
            raise ConfigError(
                f"the datasets of a mixture have different classes, which are merged by name, and one {what}",
                path=dataset.path,
                hint="Convert or index the dataset again with a different name for each class.",
            )
    number: dict[str, int] = {}
    tables = [np.array([number.setdefault(name, len(number)) for name in names], np.int64) for names in lists]
    return tuple(number), tuple(tables)
