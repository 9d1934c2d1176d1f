"""Suffixes of image files, and folders by the suffixes in them.

Suffixes are a hint only: the content decides when a file is converted.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ...codecs.codec import CODECS

IMAGE_SUFFIXES = tuple(suffix for codec in CODECS.values() for suffix in codec.suffixes)
"""Suffixes of the images that Stoker reads, in lower case."""
_OTHER_IMAGES = (".jxl", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw")


def has_image_suffix(key: str) -> bool:
    """Whether the name of a file is that of an image in a format that Stoker reads."""
    return key.lower().endswith(IMAGE_SUFFIXES)


def is_array_name(key: str) -> bool:
    """Whether the name of a file is that of an array of NumPy.

    Such files count as images if no file of the folder has the name of an image. Beside images they are
    something else, such as features of these images, or their mean.
    """
    return key.lower().endswith(".npy")


def why_no_image(key: str) -> str:
    """The reason to leave out a file that is no image by name or content; photographs have another one."""
    known = key.lower().endswith(_OTHER_IMAGES)
    return "image of a format that is not read" if known else "not an image"


def holds_without_images(folder: str | os.PathLike[str], suffix: str) -> bool:
    """Return whether a folder has files with a suffix, and neither images nor folders beside them.

    Hidden entries do not count.
    """
    return _holds(folder, suffix, lambda entry: not has_image_suffix(entry.name) and not entry.is_dir())


def holds_alone(folder: str | os.PathLike[str], suffix: str, others: tuple[str, ...]) -> bool:
    """Return whether a folder has files with a suffix, and nothing without it or one of some others.

    Hidden entries do not count.
    """
    return _holds(folder, suffix, lambda entry: entry.name.endswith((suffix, *others)))


def _holds(
    folder: str | os.PathLike[str], suffix: str, may_lie_there: Callable[[os.DirEntry[str]], bool]
) -> bool:
    has_suffix = False
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if not may_lie_there(entry):
                return False
            has_suffix = has_suffix or entry.name.endswith(suffix)
    return has_suffix
