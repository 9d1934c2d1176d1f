"""What makes records of samples: the part of a conversion that depends on what a sample is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from stoker.errors import StokerError

    from ..sources.listing import Skip

__all__ = ["EncodedRecord", "Encoder"]


class EncodedRecord(NamedTuple):
    """A sample as it is stored.

    Attributes:
        key: Its name in the source.
        prefix: What the message has before the payload.
        payload: What the index locates and checks.
        suffix: What the message has after it.
        attributes: One integer for each of :attr:`Encoder.attributes`.
        skipped: Parts of the sample that were left out.
        details: What :meth:`Encoder.columns` wants back of it.
    """

    key: str
    prefix: bytes
    payload: bytes
    suffix: bytes
    attributes: tuple[int, ...]
    skipped: tuple[Skip, ...] = ()
    details: Any = None


class Encoder(Protocol):
    """Reads samples of a source and encodes them; used by several threads at once."""

    @property
    def sample_type(self) -> str:
        """What a sample is, as manifests say it: image or text."""

    @property
    def chunk_samples(self) -> int:
        """Samples that one task of the pool takes at most."""

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        """Index columns that are known once a sample is encoded, by name."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Further files of every dataset that is made, by name."""

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        """Encode the samples at ``rows`` of the listing, or say why one is left out."""

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[Any], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Further index columns of what was written, as Arrow arrays.

        Args:
            rows: (M,) int64, rows of the listing.
            details: M, what the records brought.
            ends: (M,) int64, where in the data file the payloads end.
        """

    def refusal(self, skip: Skip) -> StokerError:
        """The error of a strict conversion that would leave a sample out."""
