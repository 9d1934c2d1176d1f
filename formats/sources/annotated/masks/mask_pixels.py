"""The values of a mask's pixels: conversions read masks of classes here, and listings masks of objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....codecs.codec import CODECS, MAX_PIXELS
from ....codecs.header import grey_bits, open_mask
from ...listing import ListedFiles
from ...source_reader import SkippedError, check_image, read_source_file


def read_mask(files: ListedFiles, row: int) -> npt.NDArray[Any]:
    """Return the values of a mask among files, see :func:`checked_values`."""
    key, size = files.keys[row].as_py(), int(files.sizes[row])
    return checked_values(read_source_file(str(files.root), key, size, follow_links=files.follow_links))


def checked_values(data: bytes) -> npt.NDArray[Any]:
    """Return the values of the file of a mask, (H, W) uint8 or uint16, after checks of the file."""
    header = check_image(data, MAX_PIXELS)
    if CODECS[header.codec].lossy:
        raise SkippedError(f"mask in {header.codec.name}, which changes values", "PNG keeps them")
    return mask_values(data, grey_bits(data, header.codec) or 8)


def mask_values(data: bytes, bits: int) -> npt.NDArray[Any]:
    """Return the values of a mask, (H, W) uint8 or uint16; a grey one has ``bits`` for each pixel."""
    try:
        with open_mask(data) as image:
            image.load()
            mode = image.mode
            pixels = np.asarray(image)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken mask", str(error)) from error
    if mode == "1":
        return pixels.astype(np.uint8)
    if mode in ("L", "P"):
        # Pillow spreads grey of 2 and 4 bits over all of 0 to 255.
        return (pixels // (255 // ((1 << bits) - 1))).astype(np.uint8) if bits < 8 else pixels
    if mode in ("I;16", "I;16B", "I") and 0 <= pixels.min() <= pixels.max() < 1 << 16:
        return pixels.astype(np.uint16)
    if mode in ("I", "F"):
        kind = "floating-point numbers" if mode == "F" else "numbers that are not from 0 to 65535"
        raise SkippedError(f"mask of {kind}", "a mask has the number of a class in each pixel")
    hint = "; mask_map (--mask-map) takes the classes of colours" if mode.startswith("RGB") else ""
    raise SkippedError("mask of more than one channel", f"Pillow's mode {mode}{hint}")
