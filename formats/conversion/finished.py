"""Whether datasets that are there are what a conversion would write once more.

A dataset keeps its options and what it knows of each sample, and no digest of its source. So the same are
options, classes, names, order, labels and columns of the samples, what was left out, the number
of bytes where they are stored as they are, and no file of the source is newer than the dataset.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from ..dataset.index import Index
from ..dataset.manifest import INDEX_NAME, MANIFEST_NAME, SKIPPED_NAME, STATE_NAME, Manifest
from ..sources.listing import Skip
from .options import ConvertOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from .plan import ConversionPlan

__all__ = ["find_finished"]


def find_finished(target: Path, plan: ConversionPlan, datasets: Mapping[str, Path]) -> list[Manifest] | None:
    """Manifests of the datasets if ``plan`` has made them; None where that is not so, or cannot be known.

    It cannot for text, and for objects, which are kept as they are after resizing.

    Args:
        target: Folder of the conversion.
        plan: The plan.
        datasets: Folder of each dataset by split.
    """
    if not isinstance(plan.options, ConvertOptions) or plan.listing.objects is not None:
        return None
    if (target / STATE_NAME).exists():
        return None
    try:
        manifests = [Manifest.load(folder) for folder in datasets.values()]
        found = zip(datasets.items(), manifests, strict=True)
        same = all(_is_same(plan, split, folder, manifest) for (split, folder), manifest in found)
    # Damaged, or not written by this version: not the same.
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
    """Whether all shards are there, as far as their sizes tell."""
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
    labels = {} if listing.labels is None else {"label": listing.labels}
    columns = {"key": listing.keys, **labels, **listing.columns}
    if not all(index.arrow(name).equals(column.take(rows)) for name, column in columns.items()):
        return False
    assert isinstance(options, ConvertOptions), "of text nothing is known"
    return not options.keeps_bytes or np.array_equal(index.column("length"), listing.sizes[rows])
