"""Appending the shards of a writer to a dataset in a local folder: its next version.

Shards never change. Version 2, for example, has an index ``index-v2.arrow`` with the rows of all versions,
and shards named ``shard-v2-...``.
:func:`stoker.formats.dataset.versions.publish_version` publishes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..containers.registry import find_writing
from ..dataset.columns import ArrayColumn, common_shape, shape_column
from ..dataset.index import Index
from ..dataset.manifest import SKIPPED_NAME, IndexFile, Manifest, Shard, index_name
from ..dataset.versions import NextVersion, publish_version
from ..files import move_durably, sync_folder, write_durably
from ..sources.listing import Skip, count_reasons, skipped_lines
from .publishing import PublishedDatasets, merge_parts, ordered_part
from .shard import ShardResult, published_names, shard_files


@dataclass(frozen=True)
class AppendedShards:
    """Finished shards that become the next version of a dataset, whose lock the caller holds."""

    folder: Path  # The dataset's folder
    manifest: Manifest  # Its last version
    state: Path  # Folder of the shards; the numbers of shards in their indexes follow those of the dataset
    results: Sequence[ShardResult]  # Their contents
    skipped: Sequence[Skip]  # Samples that were left out
    classes: tuple[str, ...]  # Names of the classes, those of the dataset first

    def publish(self) -> PublishedDatasets:
        """Make the next version; without a shard the last one stays."""
        if self.results:
            self._publish()
        return PublishedDatasets(
            folders={"": self.folder},
            written=sum(result.records for result in self.results),
            skipped=count_reasons(self.skipped),
            bytes=sum(result.bytes for result in self.results),
            shards=len(self.results),
        )

    @property
    def _version(self) -> int:
        return self.manifest.dataset_version + 1

    def _publish(self) -> None:
        folder = self.folder
        shards = self._move_shards()
        index = self._merge_index()
        grown = self._grown(index, shards)
        if self.skipped:
            path = folder / SKIPPED_NAME
            earlier = path.read_bytes() if path.exists() else b""
            staged = self.state / SKIPPED_NAME
            write_durably(staged, earlier + skipped_lines(self.skipped))
            move_durably(staged, path)
        added = grown.index.rows - self.manifest.index.rows
        following = NextVersion(grown, index, "append by a writer", added)
        publish_version(folder, self.manifest, following, self.state)

    def _move_shards(self) -> tuple[Shard, ...]:
        container, count = self.manifest.container, len(self.results)
        shards = []
        for number, result in enumerate(self.results):
            suffix = find_writing(container).suffix
            name = f"shard-v{self._version}-{number:05d}-of-{count:05d}{suffix}"
            files = shard_files(self.state, number, container)
            for file, published in published_names(name, container).items():
                move_durably(files[file], self.folder / published)
            shards.append(result.named(name))
        sync_folder(self.folder)
        return tuple(shards)

    def _merge_index(self) -> Path:
        """The index of all versions, in the folder of the finished shards."""
        merged = self.state / "merged.arrow"
        names = list(self.manifest.columns)
        numbers = range(len(self.results))
        parts = [shard_files(self.state, number, self.manifest.container)["index"] for number in numbers]
        ordered = [ordered_part(part, names) for part in parts]  # the dataset may have another order
        merge_parts([self.folder / self.manifest.index.file, *ordered], merged)
        return merged

    def _grown(self, path: Path, shards: tuple[Shard, ...]) -> Manifest:
        index = Index.open(path)
        counts = Counter(self.manifest.skipped)
        counts.update(skip.reason for skip in self.skipped)
        ids = self.manifest.category_ids
        return replace(
            self.manifest,
            shards=(*self.manifest.shards, *shards),
            index=IndexFile.of(path, len(index), index_name(self._version)),
            classes=self.classes,
            category_ids=(*ids, *[-1] * (len(self.classes) - len(ids))) if ids else (),
            skipped=dict(sorted(counts.items())),
            arrays={
                name: ArrayColumn(column.dtype, common_shape(index.lists(shape_column(name))))
                for name, column in self.manifest.arrays.items()
            },
        )
