"""Recognising datasets that an earlier conversion with the same plan has made.

A dataset keeps its options and facts about each sample, but no digest of its source. These must be equal:
options, classes, the names, order, labels and columns of the samples, the files that were left out and, where
bytes are stored as they are, their number. No file of the source may be newer than the dataset. Of text, up
to 4,096 samples are tokenized again, and must have the checksums in the index.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from stoker._native import crc32c

from ...dataset.index import Index
from ...dataset.manifest import INDEX_NAME, MANIFEST_NAME, SKIPPED_NAME, STATE_NAME, Manifest
from ...sources.listing import Skip
from ..options import ConvertOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from ..plan import ConversionPlan

__all__ = ["find_converted"]

_COMPARED_TEXTS = 4096


def find_converted(target: Path, plan: ConversionPlan, datasets: Mapping[str, Path]) -> list[Manifest] | None:
    """Manifests of the datasets if a conversion with this plan has made them, else None.

    It is None, too, where this cannot be known: for objects, of which a dataset keeps only the resized form,
    and for text from a URL, whose copy is newer than any dataset.

    Args:
        target: Folder of the conversion.
        plan: The plan.
        datasets: Folder of each dataset by split.
    """
    if plan.listing.objects is not None:
        return None
    if (target / STATE_NAME).exists():
        return None
    try:
        manifests = [Manifest.load(folder) for folder in datasets.values()]
        found = zip(datasets.items(), manifests, strict=True)
        same = all(_is_same(plan, split, folder, manifest) for (split, folder), manifest in found)
    # A damaged dataset, or one of another version, is not the same.
    except (OSError, ValueError, TypeError):
        return None
    return manifests if same else None


def _is_same(plan: ConversionPlan, split: str, folder: Path, manifest: Manifest) -> bool:
    listing = plan.listing
    stated = (plan.encoder.sample_type, plan.options.to_manifest(), listing.classes, listing.info)
    if stated != (manifest.sample_type, manifest.options, manifest.classes, manifest.annotations):
        return False
    files = [listing] if listing.masks is None else [listing, listing.masks]
    if max(int(one.modified.max()) for one in files) > (folder / MANIFEST_NAME).stat().st_mtime_ns:
        return False
    lines = (folder / SKIPPED_NAME).read_text(encoding="utf-8").splitlines()
    skipped = {Skip(**json.loads(line)) for line in lines}
    if split == plan.options.splits[0] and not set(listing.skipped) <= skipped:
        return False
    rows = np.concatenate([shard.rows for shard in plan.shards if shard.split == split])
    index = Index.open(folder / INDEX_NAME)
    return _is_whole(manifest, folder) and _has_samples(plan, rows, index, {skip.key for skip in skipped})


def _is_whole(manifest: Manifest, folder: Path) -> bool:
    """Whether all shards are there and have their sizes."""
    sizes = [file.stat().st_size for file in manifest.data_files(folder)]
    return sizes == [shard.bytes for shard in manifest.shards]


def _has_samples(plan: ConversionPlan, rows: npt.NDArray[np.int64], index: Index, skipped: set[str]) -> bool:
    """Whether the index has the samples at ``rows``, without those that were skipped, in this order."""
    options, listing = plan.options, plan.listing
    planned = listing.keys.take(rows)
    kept = pc.is_in(planned, value_set=index.arrow("key"))
    if not set(planned.filter(pc.invert(kept)).to_pylist()) <= skipped:
        return False
    rows = rows[kept.to_numpy(zero_copy_only=False)]
    has_labels = listing.labels is not None and plan.encoder.sample_type == "image"
    labels = {"label": listing.labels} if has_labels else {}
    columns = {"key": listing.keys, **labels, **listing.columns}
    if not all(index.arrow(name).equals(column.take(rows)) for name, column in columns.items()):
        return False
    if not isinstance(options, ConvertOptions):
        return _has_texts(plan, rows, index)
    return not options.keeps_bytes or np.array_equal(index.column("length"), listing.sizes[rows])


def _has_texts(plan: ConversionPlan, rows: npt.NDArray[np.int64], index: Index) -> bool:
    """Whether samples at equal distances have the token ids that the index states."""
    places = np.unique(np.linspace(0, len(rows) - 1, _COMPARED_TEXTS).astype(np.int64))
    crcs = [
        None if isinstance(record, Skip) else crc32c(record.payload)
        for record in plan.encoder.encode(rows[places])
    ]
    return bool(crcs == index.column("crc")[places].tolist())
