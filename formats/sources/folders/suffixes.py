"""What the name of a file says of it: a hint only; what it is its content says when it is converted."""

from __future__ import annotations

from ...codecs.registry import CODECS

__all__ = ["has_image_suffix", "why_no_image"]

_IMAGES = tuple(suffix for codec in CODECS.values() for suffix in codec.suffixes)
_OTHER_IMAGES = (".heic", ".heif", ".jxl", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw")


def has_image_suffix(key: str) -> bool:
    """Whether a file is, by its name, an image of a format that is read."""
    return key.lower().endswith(_IMAGES)


def why_no_image(key: str) -> str:
    """Why a file without such a name, and that does not look like an image, is left out.

    Somebody's photographs are told apart from what is no image at all.
    """
    known = key.lower().endswith(_OTHER_IMAGES)
    return "image of a format that is not read" if known else "not an image"
