"""Appending shards to a dataset in a local folder: its next version.

Shards never change. The new version has an index of its own, ``index-v2.arrow`` for version 2, with the rows
of all versions, and shards named ``shard-v2-...``. One rename puts its manifest in place of the last one,
which stays as ``dataset-v1.json``. So a process that is killed at any point leaves the last version or the
new one.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...containers.registry import find_writing
from ...dataset.columns.array_columns import ArrayColumn, common_shape, shape_column
from ...dataset.index import Index
from ...dataset.manifest import MANIFEST_NAME, SKIPPED_NAME, IndexFile, Manifest, Shard, index_name
from ...files.publishing import move_durably, remove, sync_folder, write_durably
from ...files.reading import file_digest
from ..shard_file import published_names, shard_files
from .index_parts import merge_parts, ordered_part
from .published import PublishedDatasets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ...sources.listing import Skip
    from ..shard_file import ShardResult

__all__ = ["AppendedShards", "remove_remains"]


def remove_remains(folder: Path, manifest: Manifest) -> None:
    """Remove the files of a next version that was killed before its manifest was there."""
    version = manifest.dataset_version + 1
    for pattern in (f"shard-v{version}-*", index_name(version)):
        for file in folder.glob(pattern):
            remove(file)


@dataclass(frozen=True)
class AppendedShards:
    """Finished shards that become the next version of a dataset, whose lock the caller holds.

    Attributes:
        folder: The dataset's folder.
        manifest: Its last version.
        state: Folder of the shards; the positions in their indexes follow those of the dataset.
        results: What they hold.
        skipped: Samples that were left out.
        classes: Names of the classes, those of the dataset first.
    """

    folder: Path
    manifest: Manifest
    state: Path
    results: Sequence[ShardResult]
    skipped: Sequence[Skip]
    classes: tuple[str, ...]

    def publish(self) -> PublishedDatasets:
        """Make the next version; without a shard the last one stays."""
        if self.results:
            self._publish()
        return PublishedDatasets(
            folders={"": self.folder},
            written=sum(result.records for result in self.results),
            skipped=dict(sorted(Counter(skip.reason for skip in self.skipped).items())),
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
            lines = (json.dumps(skip._asdict(), ensure_ascii=False) + "\n" for skip in self.skipped)
            path = folder / SKIPPED_NAME
            known = path.read_bytes() if path.exists() else b""
            self._replace(SKIPPED_NAME, known + "".join(lines).encode())
        move_durably(index, folder / index_name(self._version))
        self._replace(f"dataset-v{self._version - 1}.json", self.manifest.to_json().encode())
        self._replace(MANIFEST_NAME, grown.to_json().encode())

    def _replace(self, name: str, content: bytes) -> None:
        """Put a file in the dataset's folder at once; until then it lies among the unfinished ones."""
        staged = self.state / name
        write_durably(staged, content)
        move_durably(staged, self.folder / name)
        sync_folder(self.folder)

    def _move_shards(self) -> tuple[Shard, ...]:
        container, number = self.manifest.container, len(self.results)
        shards = []
        for position, result in enumerate(self.results):
            suffix = find_writing(container).suffix
            name = f"shard-v{self._version}-{position:05d}-of-{number:05d}{suffix}"
            files = shard_files(self.state, position, container)
            for file, published in published_names(name, container).items():
                move_durably(files[file], self.folder / published)
            shards.append(Shard(name, result.bytes, result.records, result.digest))
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
        digest = file_digest(path)
        return replace(
            self.manifest,
            shards=(*self.manifest.shards, *shards),
            index=IndexFile(len(index), path.stat().st_size, digest, index_name(self._version)),
            classes=self.classes,
            skipped=dict(sorted(counts.items())),
            arrays={
                name: ArrayColumn(column.dtype, common_shape(index.lists(shape_column(name))))
                for name, column in self.manifest.arrays.items()
            },
        )
