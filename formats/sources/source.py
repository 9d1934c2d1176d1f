"""A source as the caller names it: its path or URL, and the options about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..tokenization.captions import CAPTION
from .folders.source_folder import SourceFolder, open_folder


@dataclass(frozen=True)
class Source:
    """A source of images, before its files are listed.

    It keeps the folders that are opened in it, so that detection and listing read each folder once.
    """

    path: str | os.PathLike[str]  # The source, or its URL
    # Folder of the images, or its URL, for formats that keep them elsewhere
    images: str | os.PathLike[str] | None = None
    masks: str | os.PathLike[str] | None = None  # Folder of the images' masks, or its URL
    ignore_index: int | None = 255  # Value in masks for pixels without a class; None if there is none
    class_depth: int | None = None  # Number of leading folders that name the class; None for all of them
    follow_links: bool = True  # Whether to follow links on a disk, also out of the source
    # For archives, image, label, key or the name of a column by the member that holds it, such as
    # ``{"json:label": "label"}``; None for a member that is left out
    fields: Mapping[str, str | None] | None = None
    unlabelled: bool | None = None  # Whether the images of a folder have no classes; None is False
    path_column: str | None = None  # Name of the column of a list with the paths
    label_column: str | None = None  # Name of the column of a list with the labels
    suffix: str | None = None  # Text to append to every path of a list
    # Folder of masks whose values number the objects of the images, or its URL
    instances: str | os.PathLike[str] | None = None
    has_mask_map: bool = False  # Whether the conversion maps the values of ``masks``
    caption_column: str | None = None  # Name of the column or part with the captions of an image
    _folders: dict[str, SourceFolder] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def parts(self) -> Mapping[str, str | None]:
        """:attr:`fields`, in which the part with the captions is named ``caption`` unless it has a name."""
        fields = self.fields or {}
        if self.caption_column is None or self.caption_column in fields.values():
            return fields
        return {self.caption_column: CAPTION, **fields}

    @property
    def folder(self) -> SourceFolder:
        """The source as a folder, which need not exist."""
        return self.open(self.path)

    def open(self, path: str | os.PathLike[str]) -> SourceFolder:
        """The folder at a path or URL, which need not exist; always the same one."""
        key = os.fspath(path)
        if key not in self._folders:
            self._folders[key] = open_folder(path, follow_links=self.follow_links)
        return self._folders[key]
