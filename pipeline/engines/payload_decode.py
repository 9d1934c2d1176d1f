"""Decoding of payloads on the host, for engines that do not decode their codecs themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import ImageTooLargeError
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb
from stoker.formats.codecs.pixels import PixelCountError

from .base import Status

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.formats.dataset.samples import Samples

__all__ = ["PayloadError", "decode"]


class PayloadError(ValueError):
    """A payload that cannot be decoded; ``status`` is that of its sample."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode(
    data: Any, samples: Samples, i: int, *, max_pixels: int, reference: bool = False
) -> npt.NDArray[np.uint8]:
    """Decode the payload of a sample to (H, W, 3) uint8 RGB, its EXIF orientation applied.

    Args:
        data: Any C-contiguous buffer.
        samples: The index rows of the batch.
        i: Position of the sample in the batch.
        max_pixels: An image with more pixels is refused before it is decoded.
        reference: Whether to decode as the reference engine does.

    Raises:
        PayloadError: The payload is no image, is damaged, or has more than ``max_pixels``.
    """
    height, width = int(samples.height[i]), int(samples.width[i])
    try:
        decoder = decode_for_reference if reference else decode_rgb
        return decoder(data, samples.codec[i], height, width, max_pixels)
    except ImageTooLargeError as error:
        raise PayloadError(Status.TOO_LARGE, error.message) from error
    except PixelCountError as error:
        raise PayloadError(Status.SIZE_MISMATCH, str(error)) from error
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise PayloadError(Status.NOT_DECODABLE, str(error) or type(error).__name__) from error
