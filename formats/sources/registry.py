"""The formats of sources: a table with one row for each.

To add a format, write a module that detects and lists it, add a row here and its name to
:mod:`.format_names`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .annotated.coco import is_coco, list_coco
from .annotated.mask_pairs import has_masks, list_pairs
from .annotated.voc import is_voc, list_voc
from .annotated.yolo import is_yolo, list_yolo
from .class_folder import is_class_folder, list_class_folder
from .lists.file_list import is_list, list_listed_images

if TYPE_CHECKING:
    from collections.abc import Callable

    from .format_names import SourceFormatName
    from .listing import Listing
    from .source import Source

__all__ = ["SOURCE_FORMATS", "SourceFormat"]


@dataclass(frozen=True)
class SourceFormat:
    """A format of sources.

    Attributes:
        name: Its name, which ``source_format`` and ``--source-format`` take.
        detects: Whether a source has this format, from the names of its files or the start of one.
        list_samples: Lists the samples of a source in this format.
        options: Fields of :class:`Source` that only formats which name them accept.
    """

    name: SourceFormatName
    detects: Callable[[Source], bool]
    list_samples: Callable[[Source], Listing]
    options: tuple[str, ...] = ()


SOURCE_FORMATS = (
    SourceFormat("voc", is_voc, list_voc),
    SourceFormat("coco", is_coco, list_coco, options=("images",)),
    SourceFormat("list", is_list, list_listed_images),
    SourceFormat("yolo", is_yolo, list_yolo),
    SourceFormat("pairs", has_masks, list_pairs),
    SourceFormat("folder", is_class_folder, list_class_folder, options=("class_depth",)),
)
"""In the order in which detection tries them: a source has the first format that detects it."""
