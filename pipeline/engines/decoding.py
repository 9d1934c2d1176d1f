"""Decoding of payloads on the host, for engines that do not decode their codecs themselves."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from stoker._native import Shards
from stoker.errors import ImageTooLargeError
from stoker.formats.codecs.codec import CODECS, Codec, is_native
from stoker.formats.dataset.index import Samples
from stoker.types import Color

from .base import Status, matches_checksum


class PayloadError(ValueError):
    """A payload that cannot be decoded; ``status`` is the status of its sample."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode(
    data: Any, samples: Samples, i: int, *, max_pixels: int, color: Color = "rgb", reference: bool = False
) -> npt.NDArray[Any]:
    """Decode the payload of a sample, its EXIF orientation applied."""
    # -> (H, W, 3) uint8
    from stoker.formats.codecs.decode import (  # it loads Pillow, which the native engine seldom needs
        PixelCountError,
        decode_channels,
        decode_for_reference,
        decode_grey,
        decode_rgb,
    )

    height, width = int(samples.height[i]), int(samples.width[i])
    try:
        codec = samples.codec[i]
        if color == "gray":
            return decode_grey(data, codec, height, width, max_pixels)
        if color != "rgb":
            return decode_channels(data, codec, height, width, max_pixels, alpha=color == "rgba")
        decoder = decode_for_reference if reference else decode_rgb
        return decoder(data, codec, height, width, max_pixels)
    except ImageTooLargeError as error:
        raise PayloadError(Status.TOO_LARGE, error.message) from error
    except PixelCountError as error:
        raise PayloadError(Status.SIZE_MISMATCH, str(error)) from error
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise PayloadError(Status.NOT_DECODABLE, str(error) or type(error).__name__) from error


def checked_payload(shards: Shards, samples: Samples, i: int, *, verify: bool) -> Any:
    """The payload of a sample, compared with its checksum if ``verify``."""
    try:
        data = shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
    except (ValueError, OSError, MemoryError) as error:
        raise PayloadError(Status.READ_ERROR, str(error) or "no memory to read it") from error
    if verify and not matches_checksum(shards, data, samples, i):
        raise PayloadError(Status.CHECKSUM_MISMATCH, "CRC32C differs from the index")
    return data


def describe_failure(
    failure: tuple[Status, str], shards: Shards, samples: Samples, i: int, max_pixels: int
) -> tuple[Status, str]:
    """Return the status and message of a sample that C++ could not decode; Pillow's if Pillow fails, too."""
    damaged = failure[0] in (Status.NOT_DECODABLE, Status.TRUNCATED)
    if not damaged or not is_native(int(samples.codec[i])) or CODECS[Codec(samples.codec[i])].strict:
        return failure
    data = shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
    try:
        decode(data, samples, i, max_pixels=max_pixels, reference=True)
    except PayloadError as error:
        return error.status, str(error)
    return failure
