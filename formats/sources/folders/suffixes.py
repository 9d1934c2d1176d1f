"""Suffixes of image files. They are a hint only: the content decides when a file is converted."""

from __future__ import annotations

from ...codecs.registry import CODECS

__all__ = ["IMAGE_SUFFIXES", "has_image_suffix", "is_array_name", "why_no_image"]

IMAGE_SUFFIXES = tuple(suffix for codec in CODECS.values() for suffix in codec.suffixes)
"""Suffixes of the images that Stoker reads, in lower case."""
_OTHER_IMAGES = (".jxl", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw")


def has_image_suffix(key: str) -> bool:
    """Whether the name of a file is that of an image in a format that Stoker reads."""
    return key.lower().endswith(IMAGE_SUFFIXES)


def is_array_name(key: str) -> bool:
    """Whether the name of a file is that of an array of NumPy.

    Such files are images where no file of a folder has the name of an image. Beside images they are anything
    else, such as features of these images, or their mean.
    """
    return key.lower().endswith(".npy")


def why_no_image(key: str) -> str:
    """The reason to leave out a file that has no such name and does not look like an image.

    Photographs in other formats have a reason of their own, because their owner may miss them.
    """
    known = key.lower().endswith(_OTHER_IMAGES)
    return "image of a format that is not read" if known else "not an image"
