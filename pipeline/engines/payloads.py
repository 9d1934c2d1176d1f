"""Payloads checked before a decoder sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker._native import Shards, crc32c, probe
from stoker.formats.samples import Codec, Samples
from stoker.pipeline.engines.base import Status
from stoker.pipeline.engines.pillow_decode import PillowDecodeError, decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["BLACK_PIXEL", "Payload", "PayloadReader"]

# Stands in for a bad payload, so that its neighbours are decoded.
BLACK_PIXEL = np.frombuffer(b"P6\n1 1\n255\n\0\0\0", dtype=np.uint8)
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = b"\xff\xd9"


@dataclass(frozen=True)
class Payload:
    """One sample's bytes for the decoder: a JPEG, or decoded pixels as PPM (P6).

    Attributes:
        data: (length,) uint8; of a sample that is not OK, one black pixel.
        status: What was found.
        reason: In words, where it is not OK.
    """

    data: npt.NDArray[np.uint8]
    status: Status = Status.OK
    reason: str = ""


class PayloadReader:
    """Reads payloads from the shards and checks them.

    Args:
        files: Data files.
        sizes: Bytes of each.
        max_pixels: More than these in a header is TOO_LARGE.
        verify: Compare checksums.
        mapped: Map the files; otherwise read each payload.
    """

    def __init__(
        self,
        files: Sequence[str],
        sizes: Sequence[int],
        *,
        max_pixels: int,
        verify: bool,
        mapped: bool = True,
    ) -> None:
        self._shards = Shards(files, sizes, mapped)
        self._max_pixels = max_pixels
        self._verify = verify

    def read(self, samples: Samples, i: int) -> Payload:
        """The payload of the i-th of ``samples``."""
        try:
            view = self._shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
        except (ValueError, OSError) as error:
            return _bad(Status.READ_ERROR, str(error))
        if self._verify and crc32c(view) != int(samples.crc[i]):
            return _bad(Status.CHECKSUM_MISMATCH, "the payload does not match its CRC32C")
        height, width = int(samples.height[i]), int(samples.width[i])
        match samples.codec[i]:
            case Codec.JPEG:
                return self._jpeg(view, height, width)
            case Codec.RAW:
                return self._raw(view, height, width)
            case _:
                return self._other(view, height, width)

    def will_need(self, samples: Samples) -> None:
        """Ask the kernel to read these payloads."""
        self._shards.will_need(samples.shard, samples.offset, samples.length)

    def close(self) -> None:
        """Close the files."""
        self._shards.close()

    def _jpeg(self, view: memoryview, height: int, width: int) -> Payload:
        try:
            codec, stored_width, stored_height, orientation, _ = probe(view)
        except ValueError as error:
            return _bad(Status.NOT_DECODABLE, str(error))
        if codec != Codec.JPEG:
            return _bad(Status.NOT_DECODABLE, "not a JPEG")
        found = (stored_width, stored_height) if orientation >= 5 else (stored_height, stored_width)
        if found[0] * found[1] > self._max_pixels:
            return _bad(Status.TOO_LARGE, f"{found[0]}x{found[1]} pixels")
        if found != (height, width):
            return _bad(
                Status.SIZE_MISMATCH, f"{found[0]}x{found[1]} pixels, the index says {height}x{width}"
            )
        # Decoders fill what is missing with grey and say nothing; a whole JPEG has its marker at the end.
        if view[-2:] != _END_OF_IMAGE and bytes(view).find(_END_OF_IMAGE, _scan_start(view)) < 0:
            return _bad(Status.TRUNCATED, "the JPEG has no end")
        return Payload(np.frombuffer(view, dtype=np.uint8))

    def _raw(self, view: memoryview, height: int, width: int) -> Payload:
        if height * width > self._max_pixels:
            return _bad(Status.TOO_LARGE, f"{height}x{width} pixels")
        if len(view) != height * width * 3:
            return _bad(Status.SIZE_MISMATCH, f"{len(view)} bytes for {height}x{width} RGB pixels")
        return Payload(_ppm(view, height, width))

    def _other(self, view: memoryview, height: int, width: int) -> Payload:
        try:
            pixels = decode(view, max_pixels=self._max_pixels)
        except PillowDecodeError as error:
            return _bad(error.status, str(error))
        if pixels.shape[:2] != (height, width):
            return _bad(
                Status.SIZE_MISMATCH, f"{pixels.shape[0]}x{pixels.shape[1]} pixels, not {height}x{width}"
            )
        return Payload(_ppm(pixels, height, width))


def _scan_start(view: memoryview) -> int:
    """Where a JPEG's data begins: a thumbnail in a header segment before it has an end of its own."""
    at = 2
    while at + 4 <= len(view):
        if view[at] != 0xFF:
            break
        if view[at + 1] == 0xFF:  # fill byte
            at += 1
            continue
        length = int.from_bytes(view[at + 2 : at + 4], "big")
        if view[at + 1] == _START_OF_SCAN:
            return at + 2 + length
        at += 2 + length
    return len(view)


def _ppm(pixels: Any, height: int, width: int) -> npt.NDArray[np.uint8]:
    """RGB bytes as a binary PPM, the plainest image that decoders of every device read."""
    header = np.frombuffer(b"P6\n%d %d\n255\n" % (width, height), dtype=np.uint8)
    return np.concatenate([header, np.frombuffer(pixels, dtype=np.uint8)])


def _bad(status: Status, reason: str) -> Payload:
    return Payload(BLACK_PIXEL, status, reason)
