"""The options of a writer: those of a conversion that it has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from ..options import ConvertOptions


@dataclass(frozen=True)
class WriterOptions(ConvertOptions):
    """How the samples of a writer become shards; those of :class:`ConvertOptions` that it has."""

    made_by: ClassVar[str] = "writer"

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        """The options as the manifest records them."""
        of_sources = {"seed", "val", "test", "shards", "class_depth", "source_format"}
        kept = {item.name for item in fields(self)} - of_sources | {"made_by"}
        kept |= set() if self.captions is None else {*vars(self.captions)}
        return {name: value for name, value in super().to_manifest().items() if name in kept}
