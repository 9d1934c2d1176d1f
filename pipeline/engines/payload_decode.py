"""Decoding of payloads on the host, for engines that do not decode their codecs themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import ImageTooLargeError
from stoker.formats.codecs.channels import decode_channels, decode_grey
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb
from stoker.formats.codecs.pixels import PixelCountError

from .base import Status

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.formats.dataset.samples import Samples
    from stoker.types import Color

__all__ = ["PayloadError", "decode"]


class PayloadError(ValueError):
    """A payload that cannot be decoded; ``status`` is that of its sample."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode(
    data: Any, samples: Samples, i: int, *, max_pixels: int, color: Color = "rgb", reference: bool = False
) -> npt.NDArray[np.uint8]:
    """Decode the payload of a sample, its EXIF orientation applied.

    Args:
        data: Any C-contiguous buffer.
        samples: The index rows of the batch.
        i: Position of the sample in the batch.
        max_pixels: An image with more pixels is refused before it is decoded.
        color: What to decode to.
        reference: Whether to decode as the reference engine does.

    Returns:
        (H, W, 3) uint8 RGB, or three equal channels of grey, or (H, W, C) of other colours.

    Raises:
        PayloadError: The payload is no image, is damaged, or has more than ``max_pixels``.
    """
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
