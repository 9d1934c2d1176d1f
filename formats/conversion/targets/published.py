"""The datasets that a conversion has published, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...sources.listing import count_reasons
from ..plan import DatasetPlan
from ..shards.shard_file import ShardResult


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
