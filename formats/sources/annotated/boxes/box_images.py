"""The images and boxes that a source names line by line, collected for its listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stoker.errors import SourceError

from ...listing import Listing, Skip
from ...lists.file_list import find_files
from ..object_issues import BadObjectError, checked_box
from ..object_table import ObjectTable

Box = tuple[float, float, float, float]


@dataclass
class BoxImages:
    """The images and boxes of a source."""

    file: str  # Name of the file with the boxes, for messages
    name: str  # Name of an object in messages, where ``{}`` stands for its id
    # Number of each image, by its path in the folder of images
    number_of: dict[str, int] = field(default_factory=dict)
    # Height and width of each image that the source states, by number
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    label_of: dict[str, int] = field(default_factory=dict)  # Number of each class, by name
    table: ObjectTable = field(default_factory=ObjectTable)  # The objects
    skipped: list[Skip] = field(default_factory=list)  # Images and objects that were left out

    def image(self, path: str) -> int:
        """The number of the image with this path."""
        return self.number_of.setdefault(path, len(self.number_of))

    def of(self, id: int) -> str:  # noqa: A002 - COCO's word for it
        """Name of an object in messages."""
        return self.name.replace("{}", str(id), 1)

    def skip(self, path: str, reason: str, detail: str) -> None:
        """Note an object or a line that is left out."""
        self.skipped.append(Skip(path, reason, detail))

    def add(
        self,
        path: str,
        box: Box,
        label: str,
        id: int,  # noqa: A002 - COCO's word for it
        *,
        crowd: bool = False,
        extra: Mapping[str, int] | None = None,
        runs: npt.NDArray[np.uint32] | None = None,
        area: float | None = None,
    ) -> None:
        """Add an object; one whose box cannot be used is a skip."""
        image = self.image(path)
        try:
            corners = checked_box(*box)
        except BadObjectError as error:
            reason, detail = error.args
            self.skip(path, reason, f"{self.of(id)}: {detail}")
            return
        number = self.label_of.setdefault(label, len(self.label_of))
        self.table.add(image, corners, number, id, area=area, crowd=crowd, runs=runs, extra=extra)

    def listing(
        self, root: str, *, follow_links: bool, classes: Sequence[str] | None = None, relative: bool = False
    ) -> Listing:
        """The listing of the images that exist in the folder or URL ``root``, which is resolved.

        ``classes`` gives the order of the classes, by default sorted. ``relative`` boxes are shares of an
        image's width and height.
        """
        paths = list(self.number_of)
        named, missing = find_files(root, paths, follow_links=follow_links)
        if not len(named.files):
            shown = f", such as {', '.join(paths[:3])}" if paths else ""
            raise SourceError(
                f"not one of the {len(paths):,} images that {self.file} names is there{shown}",
                path=root,
                hint="name the folder of the images: --images DIR (images=)",
            )
        names = tuple(sorted(self.label_of) if classes is None else classes)
        self.table.relabel(np.array([names.index(name) for name in self.label_of], np.int64))
        rows = np.full(len(paths), -1, np.int64)
        rows[named.entries] = np.arange(len(named.files))
        sizes = np.array([self.sizes.get(number, (0, 0)) for number in named.entries.tolist()], np.int32)
        rows = rows[np.array(self.table.image, np.int64)]
        return Listing(
            **vars(named.files),
            labels=None,
            classes=names,
            skipped=tuple(sorted([*self.skipped, *missing])),
            objects=self.table.listed(rows, sizes, self.name, relative=relative),
        )
