"""The datasets that finished shards become: names of shards, index and manifest, and the summary of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..containers.container import find_writing
from ..dataset.columns import ArrayColumn, common_shape, shape_column
from ..dataset.index import Index, concat_indexes, write_index
from ..dataset.manifest import INDEX_NAME, IndexFile, Manifest
from ..files import remove
from ..sources.listing import Skip, count_reasons
from .plan import DatasetPlan
from .shard import ShardResult, shard_files


@dataclass(frozen=True)
class Summary:
    """The result of a conversion."""

    written: int  # Samples in the shards
    skipped: Mapping[str, int]  # Number of files or lines that were left out, by reason
    bytes: int  # Bytes of all data files
    seconds: float  # Duration of this run, without listing the source
    images_per_second: float  # Samples that this run converted a second; of text, too
    shards: int  # Number of shards
    # Folder of each dataset, or its URL, by split; the key is empty where there are no splits
    datasets: Mapping[str, Path | str]
    already: bool = False  # Whether an earlier call had made the same datasets, so that this one did nothing

    @classmethod
    def of(
        cls, plan: DatasetPlan, results: Sequence[ShardResult], datasets: Mapping[str, Path | str]
    ) -> Summary:
        """The summary of a plan whose shards have these results, without its duration."""
        later = (skip for result in results for skip in result.skipped)
        return cls(
            written=sum(result.records for result in results),
            skipped=count_reasons((*plan.listing.skipped, *later)),
            bytes=sum(result.bytes for result in results),
            seconds=0.0,
            images_per_second=0.0,
            shards=sum(1 for result in results if result.records),
            datasets=datasets,
        )

    def timed(self, started: float, converted: int) -> Summary:
        """The summary of a run that began at this monotonic time, and converted so many samples."""
        seconds = time.monotonic() - started
        return replace(self, seconds=seconds, images_per_second=converted / seconds)


@dataclass(frozen=True)
class SplitOutput:
    """The dataset that the finished shards of one split become."""

    plan: DatasetPlan  # The plan of the conversion
    folder: Path  # Folder of the state, which holds the finished shards and receives the index
    split: str  # Name of the split; empty if there are no splits
    results: Sequence[ShardResult]  # Result of each shard of the plan, of all splits

    @cached_property
    def _numbers(self) -> list[int]:
        """Numbers in the plan of the shards of the split."""
        return [number for number, shard in enumerate(self.plan.shards) if shard.split == self.split]

    @cached_property
    def shards(self) -> dict[int, str]:
        """The final names of the shards by their numbers in the plan; a shard without records is left out."""
        numbers = [number for number in self._numbers if self.results[number].records]
        suffix = find_writing(self.plan.options.container).suffix
        return {
            number: f"shard-{position:05d}-of-{len(numbers):05d}{suffix}"
            for position, number in enumerate(numbers)
        }

    @cached_property
    def skipped(self) -> list[Skip]:
        """The skips of the split; skips of the listing belong to the first split."""
        listed = self.plan.listing.skipped if self.split == self.plan.splits[0] else ()
        return sorted([*listed, *(skip for number in self._numbers for skip in self.results[number].skipped)])

    def merge_index(self) -> Path:
        """Write the index of the split into :attr:`folder`, and return its path."""
        merged = self.folder / f"{self.split}.{INDEX_NAME}"
        parts = []
        for position, number in enumerate(list(self.shards) or self._numbers[:1]):
            part = shard_files(self.folder, number, self.plan.options.container)["index"]
            moved = position != self.plan.shards[number].number_in_split
            parts.append(_renumbered(part, position) if moved else part)
        concat_indexes(parts, merged)
        return merged

    def manifest(self, index: Path) -> Manifest:
        """Return the manifest of the split; ``index`` is the path of its merged index."""
        opened = Index.open(index)
        return Manifest(
            container=self.plan.options.container,
            sample_type=self.plan.encoder.sample_type,
            columns=opened.types,
            shards=tuple(self.results[number].named(name) for number, name in self.shards.items()),
            index=IndexFile.of(index, len(opened)),
            classes=self.plan.listing.classes,
            options=self.plan.options.to_manifest(),
            skipped=count_reasons(self.skipped),
            annotations=self.plan.listing.info,
            category_ids=self.plan.listing.category_ids,
            arrays={
                name: ArrayColumn(dtype, common_shape(opened.lists(shape_column(name))))
                for name, dtype in self.plan.encoder.arrays.items()
            },
        )


def _renumbered(part: Path, number: int) -> Path:
    """Write a part of an index with another number of its shard, because a shard before it is empty."""
    index = Index.open(part)
    columns = {name: index.arrow(name) for name in index.schema.names}
    rewritten = part.with_suffix(".rewritten")
    remove(rewritten)
    write_index(rewritten, {**columns, "shard": np.full(len(index), number)})
    return rewritten
