"""The datasets that a conversion has published, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...sources.listing import count_reasons
from ..plan import DatasetPlan
from ..shards.shard_file import ShardResult

__all__ = ["PublishedDatasets", "count_published"]


@dataclass(frozen=True)
class PublishedDatasets:
    """Datasets at the target of a conversion.

    Attributes:
        folders: Folder of each dataset, or its URL, by split.
        written: Samples in the shards.
        skipped: Number of files or lines that were left out, by reason.
        bytes: Bytes of all data files.
        shards: Number of shards.
        already: Whether an earlier conversion has published them.
    """

    folders: Mapping[str, Path | str]
    written: int
    skipped: Mapping[str, int]
    bytes: int
    shards: int
    already: bool = False


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
