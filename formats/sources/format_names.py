"""The names of the source formats, as ``source_format`` and ``--source-format`` take them.

The module imports nothing, so that the command line can show the names without loading the readers.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["SourceFormatName"]

SourceFormatName = Literal["folder", "list", "coco", "voc", "yolo", "pairs"]
"""One name for each row of :data:`stoker.formats.sources.registry.SOURCE_FORMATS`."""
