"""The datasets of a conversion: made of finished shards, or recognised as those of an earlier call."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker._native import crc32c
from stoker.errors import StorageError
from stoker.log import EventLog
from stoker.processes import cached_property

from ..codecs.header import HEIC_MISSING, reads_heic
from ..containers.container import find_container, find_writing
from ..dataset.columns import ORIGIN_COLUMNS, ArrayColumn, common_shape, shape_column
from ..dataset.index import KNOWN_COLUMNS, Index, concat_indexes, write_index
from ..dataset.manifest import INDEX_NAME, SKIPPED_NAME, IndexFile, Manifest
from ..files import read_regular, remove
from ..sources.listing import Skip, count_reasons
from .options import ConvertOptions
from .plan import ConversionPlan, DatasetPlan
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


_COMPARED_TEXTS = 4096


@dataclass(frozen=True)
class FoundDataset:
    """A dataset at the target of a conversion."""

    location: Path | str  # Its folder, or its URL
    manifest: Manifest  # Its manifest
    # Time of the last change of the manifest, nanoseconds since 1970; 0 where a storage does not state it
    modified: int
    # Returns the bytes of a file of the dataset, named by its path in ``location``; None for no file
    size: Callable[[str], int | None]
    # Returns the path on this machine of a file in ``location``; one at a URL is copied first
    local: Callable[[str], Path]


_LOG = EventLog("dataset")


def find_converted(plan: ConversionPlan, find: Callable[[str], FoundDataset]) -> Summary | None:
    """Return the datasets at the target if an earlier conversion has made all of this plan, else None."""
    # ``find`` returns the dataset of a split, or raises OSError or ValueError if there is none.
    #
    # The result is also None if this cannot be known: for objects, because a dataset keeps only their resized
    # form, and for a storage that does not state when the dataset was written.
    if plan.listing.objects is not None:
        return None
    try:
        datasets = {split: find(split) for split in plan.splits}
        if reads_heic() and any(HEIC_MISSING in dataset.manifest.skipped for dataset in datasets.values()):
            return None
        if not all(_is_same(plan, split, dataset) for split, dataset in datasets.items()):
            return None
    except StorageError:
        raise
    # A damaged dataset, or one of another version, is not the same.
    except (OSError, ValueError, TypeError):
        return None
    manifests = [dataset.manifest for dataset in datasets.values()]
    shards = [shard for manifest in manifests for shard in manifest.shards]
    return Summary(
        written=sum(manifest.index.rows for manifest in manifests),
        skipped=dict(sorted(sum((Counter(manifest.skipped) for manifest in manifests), Counter()).items())),
        bytes=sum(shard.bytes for shard in shards),
        seconds=0.0,
        images_per_second=0.0,
        shards=len(shards),
        datasets={split: dataset.location for split, dataset in datasets.items()},
        already=True,
    )


def _is_same(plan: ConversionPlan, split: str, dataset: FoundDataset) -> bool:
    """Whether a dataset is what the plan makes; its index is read last, which may take a long download."""
    listing, manifest = plan.listing, dataset.manifest
    stated = (plan.encoder.sample_type, plan.options.to_manifest(), listing.classes, listing.info)
    if stated != (manifest.sample_type, manifest.options, manifest.classes, manifest.annotations):
        return False
    files = [listing] if listing.masks is None else [listing, listing.masks]
    newest = max(files, key=lambda listed: int(listed.modified.max()))
    if int(newest.modified.max()) > dataset.modified:
        key = newest.keys[int(newest.modified.argmax())].as_py()
        words = "so the dataset may be the conversion of another file (or a clock is wrong)"
        _LOG.warning(str(dataset.location), f"{key} is newer than the dataset in {dataset.location}, {words}")
        return False
    data_file = find_container(manifest.container).data_file
    sizes = {data_file(Path(shard.path or shard.name)).as_posix(): shard.bytes for shard in manifest.shards}
    sizes[manifest.index.file] = manifest.index.bytes
    if not all(dataset.size(name) == size for name, size in sizes.items()):
        return False
    lines = read_regular(dataset.local(SKIPPED_NAME)).decode().splitlines()
    skipped = {Skip(**json.loads(line)) for line in lines}
    if split == plan.splits[0] and not set(listing.skipped) <= skipped:
        return False
    rows = np.concatenate([shard.rows for shard in plan.shards if shard.split == split])
    index = Index.open(dataset.local(manifest.index.file))
    return _has_samples(plan, rows, index, {skip.key for skip in skipped})


def _has_samples(plan: ConversionPlan, rows: npt.NDArray[np.int64], index: Index, skipped: set[str]) -> bool:
    """Whether the index has the samples at ``rows``, without those that were skipped, in this order."""
    options, listing = plan.options, plan.listing
    planned = listing.keys.take(rows)
    kept = pc.is_in(planned, value_set=index.arrow("key"))
    if not set(planned.filter(pc.invert(kept)).to_pylist()) <= skipped:
        return False
    rows = rows[kept.to_numpy(zero_copy_only=False)]
    nothing = np.zeros(0, np.int64)
    own = plan.encoder.columns(nothing, [], nothing)
    if set(index.types) - {*KNOWN_COLUMNS, *ORIGIN_COLUMNS, *plan.encoder.attributes, *own}:
        return False
    columns = {"key": listing.keys, **listing.labelled_columns}
    if not all(index.arrow(name).equals(column.take(rows)) for name, column in columns.items()):
        return False
    if not isinstance(options, ConvertOptions):
        return _has_texts(plan, rows, index)
    sizes_known = options.keeps_bytes and listing.blocks is None
    return not sizes_known or np.array_equal(index.column("length"), listing.sizes[rows])


def _has_texts(plan: ConversionPlan, rows: npt.NDArray[np.int64], index: Index) -> bool:
    """Whether samples at equal distances have the token ids that the index states."""
    indices = np.unique(np.linspace(0, len(rows) - 1, _COMPARED_TEXTS).astype(np.int64))
    crcs = [
        None if isinstance(record, Skip) else crc32c(record.payload)
        for record in plan.encoder.encode(rows[indices])
    ]
    return bool(crcs == index.column("crc")[indices].tolist())
