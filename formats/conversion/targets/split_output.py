"""The files of one split that an unfinished conversion publishes: :mod:`.folder_state` puts them in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...containers.registry import find_writing
from ...dataset.columns import ArrayColumn, common_shape, shape_column
from ...dataset.index import Index
from ...dataset.manifest import INDEX_NAME, IndexFile, Manifest
from ...sources.listing import Skip, count_reasons
from ..plan import DatasetPlan
from ..shards.shard_file import ShardResult, shard_files
from .index_parts import empty_index, merge_parts, renumbered_part


@dataclass(frozen=True)
class NamedShard:
    """A finished shard and its final name; ``plan_number`` counts the shards of the plan."""

    plan_number: int
    name: str
    result: ShardResult


@dataclass(frozen=True)
class SplitOutput:
    """The dataset that the finished shards of one split become."""

    plan: DatasetPlan  # The plan of the conversion
    folder: Path  # Folder of the state, which holds the finished shards and receives the index
    split: str  # Name of the split; empty if there are no splits
    results: list[ShardResult]  # Result of each shard of the plan, of all splits

    @cached_property
    def shards(self) -> list[NamedShard]:
        """The shards of the split with their final names; a shard without records is left out."""
        numbers = [
            number
            for number, (shard, result) in enumerate(zip(self.plan.shards, self.results, strict=True))
            if shard.split == self.split and result.records
        ]
        suffix = find_writing(self.plan.options.container).suffix
        return [
            NamedShard(
                plan_number, f"shard-{number:05d}-of-{len(numbers):05d}{suffix}", self.results[plan_number]
            )
            for number, plan_number in enumerate(numbers)
        ]

    @cached_property
    def skipped(self) -> list[Skip]:
        """The skips of the split; those of the listing belong to the first split."""
        skipped = list(self.plan.listing.skipped) if self.split == self.plan.splits[0] else []
        for shard, result in zip(self.plan.shards, self.results, strict=True):
            if shard.split == self.split:
                skipped += result.skipped
        return sorted(skipped)

    def merge_index(self) -> Path:
        """Write the index of the split into :attr:`folder`, and return its path."""
        merged = self.folder / f"{self.split}.{INDEX_NAME}"
        parts = []
        for number, shard in enumerate(self.shards):
            part = self._index_part(shard.plan_number)
            moved = number != self.plan.shards[shard.plan_number].number_in_split
            parts.append(renumbered_part(part, number) if moved else part)
        if parts:
            merge_parts(parts, merged)
        else:
            first = next(number for number, shard in enumerate(self.plan.shards) if shard.split == self.split)
            empty_index(self._index_part(first), merged)
        return merged

    def _index_part(self, number: int) -> Path:
        return shard_files(self.folder, number, self.plan.options.container)["index"]

    def manifest(self, index: Path) -> Manifest:
        """Return the manifest of the split; ``index`` is the path of its merged index."""
        opened = Index.open(index)
        return Manifest(
            container=self.plan.options.container,
            sample_type=self.plan.encoder.sample_type,
            columns=opened.types,
            shards=tuple(shard.result.named(shard.name) for shard in self.shards),
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
