"""Headers for raw pixels in external records."""

from __future__ import annotations

from math import prod

from stoker.errors import SourceError

from ...codecs.codec import Codec
from ...codecs.header import MAX_PIXELS, ImageHeader
from ..messages.image_record import is_pixel_shape

_CHANNELS = (3, 1)


def raw_header(length: int, shape: tuple[int, ...], *, any_channels: bool = False) -> ImageHeader:
    """Return the header of raw pixels, uint8, rows from the top.

    ``shape`` has height and width, and perhaps channels. With ``any_channels`` it has none, and the length
    decides between one and three.
    """
    fitting = [channels for channels in _CHANNELS if prod(shape) * channels == length]
    if any_channels and fitting:
        shape = (*shape, fitting[0])
    words = " x ".join(map(str, shape))
    if not is_pixel_shape(shape) or prod(shape) != length:
        kinds = "neither grey nor RGB of" if any_channels else "not"
        raise SourceError(
            f"{length} bytes of raw pixels are {kinds} {words} pixels of 8 bits",
            hint="name another shape (--shape), or the features with height and width (--height-feature, "
            "--width-feature)",
        )
    height, width, channels = (*shape, 1)[:3]
    if height * width > MAX_PIXELS:
        raise SourceError(
            f"the image has {words} pixels, more than {MAX_PIXELS}",
            hint="check the size that is stated for it",
        )
    return ImageHeader(Codec.RAW if channels == 3 else Codec.PLANES, height, width, 1)
