"""The description of a Stoker dataset from which the other loaders read it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import stoker
from stoker.benchmarks.peers.base import PeerSource
from stoker.errors import ConfigError
from stoker.formats.codecs.codec import Codec


def open_source(dataset_path: str | os.PathLike[str], scratch: Path, *, boxes: bool = False) -> PeerSource:
    """Return the description of a dataset for the peers."""
    dataset = stoker.open(dataset_path)
    if dataset.manifest.sample_type != "image" or ("boxes" if boxes else "label") not in dataset.tasks:
        needed = "boxes for a recipe" if boxes else "one label each, or boxes"
        raise ConfigError(f"a comparison needs images with {needed}", path=dataset.path)
    samples = dataset.samples(np.arange(len(dataset)))
    codecs = {Codec(int(value)) for value in np.unique(samples.codec)}
    if codecs not in ({Codec.JPEG}, {Codec.RAW}):
        raise ConfigError(
            f"a comparison needs samples that are all JPEG or all raw pixels, found "
            f"{', '.join(sorted(codec.name for codec in codecs)) or 'none'}",
            path=dataset.path,
            hint="Convert with --encoding jpeg or --encoding raw.",
        )
    table = scratch / "payloads.npz"
    np.savez(
        table,
        paths=np.array([str(path) for path in dataset.data_files]),
        shard=samples.shard,
        offset=samples.offset,
        length=samples.length,
        label=np.zeros(len(dataset), np.int64) if boxes else dataset.labels,
        height=samples.height,
        width=samples.width,
    )
    folder = dataset.path.resolve()
    return PeerSource(
        dataset=folder,
        container=dataset.manifest.container,
        shards=tuple(folder / (shard.path or shard.name) for shard in dataset.manifest.shards),
        table=table,
        records=len(dataset),
        raw=codecs == {Codec.RAW},
        scratch=scratch,
    )
