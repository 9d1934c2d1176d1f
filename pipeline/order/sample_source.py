"""The interface between a loader and the samples that it draws from.

A :class:`~stoker.formats.dataset.dataset.Dataset` and a :class:`~.mixtures.mixture.Mixture` satisfy it.
Loaders, samplers and the cache prefetcher use these members only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker.errors import CorruptRecordError, SampleError
from stoker.formats.dataset.annotations import Annotations
from stoker.formats.dataset.columns import ArrayColumn, ListColumn, Origins
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.formats.dataset.manifest import Manifest

_STRING = "large_string"
# Arrow's names of the dtypes that a column of a batch can have.
_NUMERIC_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NUMERIC_TYPES |= {"halffloat", "float", "double"}


class SampleSource(Protocol):
    """N samples with an index. A sample's number, from 0 to N - 1, is called its position in the source.

    Methods that take ``positions`` accept (M,) integers in any order, repeats allowed, and return M entries
    in that order. They raise IndexError for a position outside the source.
    """

    def __len__(self) -> int:
        """N, the number of samples."""

    @property
    def path(self) -> Path:
        """Folder that errors name."""

    @property
    def manifest(self) -> Manifest:
        """Manifest with the kind of the samples, the tokenizer and the meaning of annotations."""

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """Datasets that hold the samples, in the order in which positions, rows and shards count them."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label."""

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where there are none."""

    @property
    def types(self) -> dict[str, str]:
        """Arrow's type of each index column, by the column's name."""

    @property
    def tasks(self) -> frozenset[str]:
        """Tasks that every sample has annotations for, see :attr:`Dataset.tasks`."""

    @property
    def arrays(self) -> Mapping[str, ArrayColumn]:
        """Dtype and shape of the array columns that every sample has, by name."""

    @property
    def data_files(self) -> list[Path]:
        """Absolute path of each shard's data file, by shard number."""

    @property
    def data_sizes(self) -> list[int]:
        """Size of each data file in bytes, by shard number."""

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify these samples in this order; checkpoints record them."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """(N,) int64: the index row of every sample, counted through all datasets."""

    @property
    def is_distinct(self) -> bool:
        """Whether no two positions have the same row."""

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """(N,) int64: the class of every sample."""

    def column(self, name: str) -> npt.NDArray[Any]:
        """(N,) values of a numeric index column, in the column's dtype."""

    def values(self, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """(M,) values of a numeric index column, in the column's dtype."""

    def lists(self, name: str, positions: npt.ArrayLike) -> ListColumn:
        """M lists of an index column that holds lists of numbers."""

    def samples(self, positions: npt.ArrayLike) -> Samples:
        """Where M payloads lie; rows and shards are counted through all datasets."""

    def origins(self, positions: npt.ArrayLike) -> Origins:
        """The way from M stored images back to those of the source, which a conversion may have resized."""

    def keys(self, positions: npt.ArrayLike) -> list[str]:
        """M names that the samples have in the data they were converted from."""

    def strings(self, name: str, positions: npt.ArrayLike) -> list[str]:
        """M values of an index column of strings."""

    def annotations(self, positions: npt.ArrayLike, parts: Collection[str] | None = None) -> Annotations:
        """Objects of M samples; see :meth:`Dataset.annotations` for ``parts``."""

    def mask(self, position: int) -> bytes:
        """PNG with the segmentation mask of one sample; its checksum has been verified."""

    def error(
        self,
        position: int,
        message: str,
        error_type: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        """An exception of type ``error_type`` that names the shard, record and key of one sample."""


def batchable_columns(source: SampleSource) -> set[str]:
    """Names of the index columns with a number or a string for each sample, which batches can have."""
    batchable = {*_NUMERIC_TYPES, _STRING}
    return {name for name, arrow_type in source.types.items() if arrow_type in batchable}


def batched_values(source: SampleSource, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any] | list[str]:
    """The values of one of :func:`batchable_columns`: (M,) numbers, or a list of M strings."""
    if source.types[name] == _STRING:
        return source.strings(name, positions)
    return source.values(name, positions)


def value_dtype(source: SampleSource, name: str) -> str:
    """NumPy's name of the dtype of one of :func:`batchable_columns`, or "str"."""
    return "str" if source.types[name] == _STRING else source.values(name, ()).dtype.name


def version_of(source: SampleSource) -> int | list[int]:
    """The version of a dataset; a list for a mixture of datasets with versions."""
    versions = [dataset.manifest.dataset_version for dataset in source.datasets]
    return versions if len(versions) > 1 and max(versions) > 1 else versions[0]


def is_remote(source: SampleSource) -> bool:
    """Whether a source has a remote dataset, whose bytes may not be on this machine yet."""
    return any(dataset.is_remote for dataset in source.datasets)
