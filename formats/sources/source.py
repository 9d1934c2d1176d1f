"""A source as the caller names it: its path or URL, and the options about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..tokenization.captions import CAPTION
from .folders.source_folder import SourceFolder, open_folder

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """A source of images, before its files are listed.

    It keeps the folders that are opened in it, so that detection and listing read each folder once.

    Attributes:
        path: The source, or its URL.
        images: Folder of the images, or its URL, for formats that keep them elsewhere.
        masks: Folder of the images' masks, or its URL.
        instances: Folder of masks whose values number the objects of the images, or its URL.
        has_mask_map: Whether the conversion maps the values of ``masks``.
        ignore_index: Value in masks for pixels without a class; None if there is none.
        fields: For archives, image, label, key or the name of a column by the member that holds it, such as
            ``{"json:label": "label"}``; None for a member that is left out.
        class_depth: Number of leading folders that name the class; None for all of them.
        follow_links: Whether to follow links on a disk, also out of the source.
        unlabelled: Whether the images of a folder have no classes; None is False.
        path_column: Name of the column of a list with the paths.
        label_column: Name of the column of a list with the labels.
        suffix: Text to append to every path of a list.
        caption_column: Name of the column or part with the captions of an image.
        person_box: Box of a person in CrowdHuman's annotations: full, visible or head; None is full.
    """

    path: str | os.PathLike[str]
    images: str | os.PathLike[str] | None = None
    masks: str | os.PathLike[str] | None = None
    ignore_index: int | None = 255
    class_depth: int | None = None
    follow_links: bool = True
    fields: Mapping[str, str | None] | None = None
    unlabelled: bool | None = None
    path_column: str | None = None
    label_column: str | None = None
    suffix: str | None = None
    instances: str | os.PathLike[str] | None = None
    has_mask_map: bool = False
    caption_column: str | None = None
    person_box: str | None = None
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
