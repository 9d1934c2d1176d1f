"""Images as samples of a conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import DecodeError
from stoker.formats.encode import SourceFile, encode_file
from stoker.formats.encoder import EncodedRecord
from stoker.formats.intake import SkippedError
from stoker.formats.listing import Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from stoker.formats.listing import Listing
    from stoker.formats.options import ConvertOptions

__all__ = ["ImageEncoder"]

# Large enough that handing a task over costs nothing beside it, small enough that several in flight are
# little memory.
_CHUNK_SAMPLES = 32
_CHUNK_SAMPLES_TOUCHED = 8


@dataclass(frozen=True)
class ImageEncoder:
    """Encodes the image files of a listing, see :class:`stoker.formats.encoder.Encoder`."""

    listing: Listing
    options: ConvertOptions

    @property
    def kind(self) -> str:
        """See :class:`Encoder`."""
        return "image"

    @property
    def chunk_samples(self) -> int:
        """See :class:`Encoder`."""
        return _CHUNK_SAMPLES if self.options.keeps_bytes else _CHUNK_SAMPLES_TOUCHED

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        """See :class:`Encoder`; what they mean is said in :class:`stoker.formats.samples.Samples`."""
        return {"codec": np.uint8, "height": np.int32, "width": np.int32, "orientation": np.uint8}

    @property
    def files(self) -> Mapping[str, bytes]:
        """See :class:`Encoder`; there are none."""
        return {}

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        """See :class:`Encoder`."""
        root = str(self.listing.root)
        for file in self._source_files(rows):
            try:
                image, prefix, suffix = encode_file(root, file, self.listing.classes, self.options)
            except SkippedError as skip:
                yield Skip(file.key, *skip.args)
                continue
            attributes = (image.codec, image.height, image.width, image.orientation)
            yield EncodedRecord(file.key, prefix, image.payload, suffix, attributes)

    def columns(self, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Labels and the user's columns."""
        listing = self.listing
        return {
            name: array.take(rows) for name, array in {"label": listing.labels, **listing.columns}.items()
        }

    def refusal(self, skip: Skip) -> DecodeError:
        """See :class:`Encoder`."""
        return DecodeError(
            f"{skip.reason}: {skip.detail}" if skip.detail else skip.reason,
            path=self.listing.root / skip.key,
            key=skip.key,
            hint="repair or remove the file, or convert without strict to skip it",
        )

    def _source_files(self, rows: npt.NDArray[np.int64]) -> Iterator[SourceFile]:
        listing = self.listing
        for key, size, label in zip(
            listing.keys.take(rows).to_pylist(),
            listing.sizes[rows].tolist(),
            listing.labels.take(rows).to_pylist(),
            strict=True,
        ):
            yield SourceFile(key, size, (label,) if isinstance(label, int) else tuple(label))
