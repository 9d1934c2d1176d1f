"""Recognition of datasets that an earlier conversion with the same plan has made.

A dataset keeps its options and columns of each sample, but no digest of its source. These must be equal:
options, classes, the names, order, labels and columns of the samples (none more, none less), the files that
were left out and, where bytes are stored as they are, their number. No file of the source may be newer than
the dataset. Up to 4,096 samples of text are tokenized again, and must have the checksums in the index. Both
targets, folders and URLs, call :func:`find_converted`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker._native import crc32c
from stoker.errors import StorageError

from ..containers.container import find_container
from ..dataset.columns import ORIGIN_COLUMNS
from ..dataset.index import KNOWN_COLUMNS, Index
from ..dataset.manifest import SKIPPED_NAME, Manifest
from ..sources.listing import Skip
from .options import ConvertOptions
from .plan import ConversionPlan
from .publishing import Summary

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
    if max(int(listed.modified.max()) for listed in files) > dataset.modified:
        return False
    data_file = find_container(manifest.container).data_file
    sizes = {data_file(Path(shard.path or shard.name)).as_posix(): shard.bytes for shard in manifest.shards}
    sizes[manifest.index.file] = manifest.index.bytes
    if not all(dataset.size(name) == size for name, size in sizes.items()):
        return False
    lines = dataset.local(SKIPPED_NAME).read_text(encoding="utf-8").splitlines()
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
