"""The datasets that finished shards become: names of shards, index and manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..containers.container import find_writing
from ..dataset.columns import ArrayColumn, common_shape, shape_column
from ..dataset.index import Index, concat_indexes, write_index
from ..dataset.manifest import INDEX_NAME, IndexFile, Manifest
from ..files import remove, sync
from ..sources.listing import Skip, count_reasons
from .plan import DatasetPlan
from .shard import ShardResult, shard_files


def empty_index(part: Path, merged: Path) -> None:
    """Write the index of a dataset without samples: the columns of a part that has no rows."""
    remove(merged)
    write_index(merged, _columns(part))
    sync(merged)


def renumbered_part(part: Path, number: int) -> Path:
    """Return a part with another number of its shard, because a shard before it is empty."""
    columns = _columns(part)
    columns["shard"] = np.full(len(columns["shard"]), number)
    return _rewritten(part, columns)


def _rewritten(part: Path, columns: dict[str, Any]) -> Path:
    rewritten = part.with_suffix(".rewritten")
    remove(rewritten)
    write_index(rewritten, columns)
    return rewritten


def _columns(part: Path) -> dict[str, Any]:
    index = Index.open(part)
    return {name: index.arrow(name) for name in index.schema.names}


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
        """The skips of the split; skips of the listing belong to the first split."""
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
            concat_indexes(parts, merged)
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


@dataclass(frozen=True)
class PublishedDatasets:
    """Datasets at the target of a conversion."""

    folders: Mapping[str, Path | str]  # Folder of each dataset, or its URL, by split
    written: int  # Samples in the shards
    skipped: Mapping[str, int]  # Number of files or lines that were left out, by reason
    bytes: int  # Bytes of all data files
    shards: int  # Number of shards
    already: bool = False  # Whether an earlier conversion has published them


def count_published(
    plan: DatasetPlan, results: Sequence[ShardResult], folders: Mapping[str, Path | str]
) -> PublishedDatasets:
    """The datasets of a plan whose shards have these results."""
    later = (skip for result in results for skip in result.skipped)
    return PublishedDatasets(
        folders=folders,
        written=sum(result.records for result in results),
        skipped=count_reasons((*plan.listing.skipped, *later)),
        bytes=sum(result.bytes for result in results),
        shards=sum(1 for result in results if result.records),
    )
