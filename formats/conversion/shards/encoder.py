"""The encoder of a conversion: the part that depends on the type of the samples, image or text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stoker.errors import StokerError

from ...sources.listing import Skip


class EncodedRecord(NamedTuple):
    """A sample as it is stored."""

    key: str  # Its name in the source
    prefix: bytes  # Bytes of the record before the payload
    payload: bytes  # The bytes that the index locates and whose checksum it has
    suffix: bytes  # Bytes of the record after the payload
    attributes: tuple[int, ...]  # One integer for each of :attr:`Encoder.attributes`
    skipped: tuple[Skip, ...] = ()  # Parts of the sample that were left out
    details: Any = None  # Data that :meth:`Encoder.columns` needs later


class IndexColumns(Protocol):
    """The index columns of samples of one type, and the further files of their datasets."""

    @property
    def sample_type(self) -> str:
        """The type of the samples, as manifests name it: image or text."""

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        """Types of the index columns that encoding a sample gives, by name."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Contents of further files of every dataset, by name."""

    @property
    def arrays(self) -> Mapping[str, str]:
        """NumPy's names of the dtypes of array columns, by name of the column."""

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[Any], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Further index columns of the records that were written, as Arrow arrays."""
        # rows (M,) int64, ends (M,) int64


class Encoder(IndexColumns, Protocol):
    """Reads samples of a source and encodes them; used by several threads at once."""

    @property
    def chunk_samples(self) -> int:
        """Largest number of samples in one task of the pool."""

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        """Encode the samples at ``rows`` of the listing; a Skip stands for a sample that is left out."""

    def strict_error(self, skip: Skip) -> StokerError:
        """The error of a strict conversion for a sample that would be left out."""
