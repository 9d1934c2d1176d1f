"""Images in a folder at a URL, which their names tell from other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...files.paths import printable_name
from ..file_table import FileTable
from ..listing import Skip
from .suffixes import has_image_suffix, is_array_name, why_no_image

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...remote.file_system import StoredFile
    from ..listing import ListedFiles

__all__ = ["find_remote_images"]


def find_remote_images(url: str, files: Iterable[StoredFile]) -> tuple[ListedFiles, list[Skip]]:
    """Files of a folder at a URL that have the names of images, sorted; and the others, as skips.

    Opening each file would take a request; its content decides when the file is converted. Arrays are images
    where no file has the name of an image.
    """
    table = FileTable()
    skipped, arrays, images = [], [], False
    for file in files:
        if any(part.startswith(".") for part in file.name.split("/")):
            skipped.append(Skip(printable_name(file.name), "hidden"))
        elif is_array_name(file.name):
            arrays.append(file)
        elif not has_image_suffix(file.name):
            skipped.append(Skip(printable_name(file.name), why_no_image(file.name)))
        else:
            table.add(*file)
            images = True
    for file in arrays:
        if images:
            skipped.append(Skip(printable_name(file.name), why_no_image(file.name)))
        else:
            table.add(*file)
    return table.sorted(url)[0], sorted(skipped)
