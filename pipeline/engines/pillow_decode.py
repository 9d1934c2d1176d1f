"""Codecs that no engine decodes itself: planes by NumPy; PNG, WebP, BMP, GIF and TIFF by way of Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PIL import Image

from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import from_planes, to_rgb
from stoker.formats.codecs.header import open_image

from .base import Status

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.formats.dataset.samples import Samples

__all__ = ["PillowDecodeError", "check_pixels", "decode"]


class PillowDecodeError(ValueError):
    """An image that is not decoded; ``status`` says what to report."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode(data: Any, samples: Samples, i: int, *, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Decode an image: (H, W, 3) uint8 RGB, its EXIF orientation applied; of an animation the first frame.

    Args:
        data: Any C-contiguous buffer.
        samples: What the index says of the batch's samples.
        i: Which of them this is.
        max_pixels: An image with more is refused before it is decoded.

    Raises:
        PillowDecodeError: It is no image, damaged, or has more than ``max_pixels``.
    """
    try:
        if samples.codec[i] == Codec.PLANES:
            height, width = int(samples.height[i]), int(samples.width[i])
            check_pixels(height, width, max_pixels)
            return from_planes(data, height, width)
        with open_image(data) as image:
            check_pixels(image.height, image.width, max_pixels)
            return to_rgb(image)
    except PillowDecodeError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PillowDecodeError(Status.TOO_LARGE, str(error)) from error
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise PillowDecodeError(Status.NOT_DECODABLE, str(error) or type(error).__name__) from error


def check_pixels(height: int, width: int, most: int) -> None:
    """See that an image has no more than ``most`` pixels; PillowDecodeError where it has."""
    if height * width > most:
        raise PillowDecodeError(Status.TOO_LARGE, f"{height}x{width} pixels")
