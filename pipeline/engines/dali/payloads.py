"""Payloads for DALI: read from the shards, and checked before DALI's decoder sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.formats.codecs.decode import engine_decodes
from stoker.formats.dataset.index import Samples

from ..base import EngineSettings, Status
from ..column_arrays import pack
from ..payload_decode import PayloadError, decode
from ..shard_files import open_shards

# Replaces a bad payload, so that DALI decodes the others of its batch.
BLACK_PIXEL = np.zeros((1, 1, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Payloads:
    """The payloads of N samples."""

    # For each sample a JPEG, (length,) uint8, or pixels, (H, W, 3) uint8; one black pixel if it is bad
    data: list[npt.NDArray[np.uint8]]
    # Status and message of bad samples, by index in the batch
    bad: dict[int, tuple[Status, str]] = field(default_factory=dict)
    # (N, 2) int32, top and left of each payload in its image; None where all are whole images
    origin: npt.NDArray[np.int32] | None = None
    # What the payloads lie in that were read from the shards
    memory: _native.PayloadMemory = field(default_factory=_native.PayloadMemory)

    def __len__(self) -> int:
        return len(self.data)

    def of(self, rows: Sequence[int]) -> Payloads:
        """The payloads of these samples alone."""
        origin = None if self.origin is None else self.origin[list(rows)]
        return Payloads([self.data[i] for i in rows], origin=origin)

    def repeated(self, times: int) -> Payloads:
        """The same payloads ``times`` times, one after the other."""
        if times == 1:
            return self
        n = len(self)
        bad = {view * n + i: found for view in range(times) for i, found in self.bad.items()}
        origin = None if self.origin is None else np.tile(self.origin, (times, 1))
        return Payloads(self.data * times, bad, origin, self.memory)

    def reject(self, i: int, status: Status, reason: str) -> None:
        """Record that sample ``i`` is bad, and replace its payload by a black pixel."""
        self.data[i] = BLACK_PIXEL
        self.bad[i] = (status, reason)

    def encoded(self) -> list[npt.NDArray[np.uint8]]:
        """The payloads as files that DALI decodes, (length,) uint8 each: pixels become binary PPMs."""
        return [data if data.ndim == 1 else _ppm(data) for data in self.data]

    def status(self) -> npt.NDArray[np.uint8]:
        """The :class:`Status` of each sample, (N,) uint8."""
        status = np.full(len(self), Status.OK, np.uint8)
        for i, (found, _) in self.bad.items():
            status[i] = found
        return status

    def reason(self) -> dict[int, str]:
        """Messages about bad samples, by index in the batch."""
        return {i: reason for i, (_, reason) in self.bad.items()}


class PayloadReader:
    """Reads payloads from the shards and checks them, a batch at a time.

    Payloads that DALI does not decode become pixels: RGB, or for grey images three equal channels.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._shards = open_shards(settings.files, settings.sizes, mapped=settings.mapped)
        self._settings = settings

    def read(self, samples: Samples, crops: npt.NDArray[np.int32] | None = None) -> Payloads:
        """The payloads of samples; those that DALI does not decode become pixels here."""
        # crops (N, 4) int32
        data, found, origin, memory = _native.payloads(
            self._shards,
            pack(_native.SAMPLE_COLUMNS, samples),
            len(samples),
            self._settings.max_pixels,
            self._settings.verify,
            crops if crops is None or samples.bands is None else np.ascontiguousarray(crops, np.int32),
        )
        payloads = Payloads(data, origin=None if samples.bands is None else origin, memory=memory)
        for i, (status, reason) in found.items():
            payloads.reject(i, Status(status), reason)
        for i in np.flatnonzero(~engine_decodes("dali", samples.codec)).tolist():
            if i not in found:
                self._to_pixels(payloads, samples, i)
        return payloads

    def will_need(self, samples: Samples) -> None:
        """Ask the kernel to read the payloads of ``samples`` ahead."""
        self._shards.will_need(samples.shard, samples.offset, samples.length)

    def close(self) -> None:
        """Close the files."""
        self._shards.close()

    def _to_pixels(self, payloads: Payloads, samples: Samples, i: int) -> None:
        size = int(samples.height[i]), int(samples.width[i])
        try:
            data, color = payloads.data[i].data, self._settings.image_format.color
            pixels = decode(data, samples, i, max_pixels=self._settings.max_pixels, color=color)
        except PayloadError as error:
            return payloads.reject(i, error.status, str(error))
        if pixels.shape[:2] != size:
            words = f"{pixels.shape[0]}x{pixels.shape[1]} pixels, the index says {size[0]}x{size[1]}"
            return payloads.reject(i, Status.SIZE_MISMATCH, words)
        payloads.data[i] = pixels
        return None


def _ppm(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(H, W, 3) RGB as a binary PPM, which DALI decodes on every device."""
    height, width, _ = pixels.shape
    header = np.frombuffer(b"P6\n%d %d\n255\n" % (width, height), dtype=np.uint8)
    return np.concatenate([header, pixels.ravel()])
