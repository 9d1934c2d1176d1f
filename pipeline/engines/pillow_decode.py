"""Codecs that no engine decodes itself, by way of Pillow: PNG, WebP, BMP, GIF, TIFF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PIL import Image

from stoker.formats.decode import to_rgb
from stoker.formats.header import open_image
from stoker.pipeline.engines.base import Status

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["PillowDecodeError", "decode"]


class PillowDecodeError(ValueError):
    """An image that is not decoded; ``status`` says what to report."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode(data: Any, *, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Decode an image: (H, W, 3) uint8 RGB, its EXIF orientation applied; of an animation the first frame.

    Args:
        data: Any C-contiguous buffer.
        max_pixels: An image with more is refused by its header.

    Raises:
        PillowDecodeError: It is no image, damaged, or has more than ``max_pixels``.
    """
    try:
        with open_image(data) as image:
            if image.width * image.height > max_pixels:
                raise PillowDecodeError(Status.TOO_LARGE, f"{image.height}x{image.width} pixels")
            return to_rgb(image)
    except PillowDecodeError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PillowDecodeError(Status.TOO_LARGE, str(error)) from error
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise PillowDecodeError(Status.NOT_DECODABLE, str(error) or type(error).__name__) from error
