"""Arguments of other loaders and transforms, with Stoker's equivalents.

Loaders and transforms look an unknown keyword argument up here, so that the error gives the equivalent.
``docs/guide/porting.md`` has the same rows, which a test compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from functools import cache

from stoker.errors import ConfigError

LOADER_ARGUMENTS = {
    "transform": "`transforms`: a list of transforms of `stoker.augment` with the same names; parameters are "
    "drawn for each image",
    **dict.fromkeys(
        ("num_workers", "worker_init_fn", "persistent_workers", "multiprocessing_context"),
        "`num_threads` for images; there are no worker processes",
    ),
    "prefetch_factor": "`prefetch`, counted in batches",
    "drop_last": '`last_batch="drop"`',
    "collate_fn": "`columns`, and `batchify` for documents; `MixUp()` and `CutMix()` go into the list of "
    "transforms",
    "generator": "`seed`. The default is 0, so two runs see the same order unless you give them different "
    "seeds",
    "batch_sampler": "`sampler`, which chooses the samples, and `batch_size`; for documents also "
    "`batch_sampler`",
    **dict.fromkeys(("shuffle_buffer", "buffer_size"), "`shuffle=True`: a full shuffle"),
    "drop_remainder": '`batch_size=n, last_batch="drop"`',
    "num_parallel_calls": "`num_threads` for images",
    **dict.fromkeys(("shard_id", "num_shards", "device_id"), "found by the loader"),
    "last_batch_policy": '`last_batch="pad"`, `"drop"`, `"partial"`',
    **dict.fromkeys(("prefetch_queue_depth", "batches_ahead"), "`prefetch`"),
    "order": "`shuffle=True`, `shuffle=stoker.BlockShuffle()`, `shuffle=False`",
    "pipelines": "`columns` and `transforms`",
    "distributed": "not needed: the loader knows its rank",
    "os_cache": "not needed: the shards are in the page cache",
    "shardshuffle": "`shuffle=True`: any order of all samples; `stoker.BlockShuffle()` for long reads",
    "cache_dir": "`reading=stoker.Reading(cache=stoker.Cache(folder))`",
}
"""Equivalents of the arguments of other loaders, as the guide writes them."""
MOVED_ARGUMENTS = {
    **dict.fromkeys(("rank", "world_size", "mesh", "replicate"), "`ranks=stoker.Ranks(...)`"),
    **dict.fromkeys(("context", "context_slices", "balance"), "`ranks=stoker.Ranks(...)`"),
    **dict.fromkeys(
        ("read_ahead", "verify", "mapped", "exact", "max_pixels"), "`reading=stoker.Reading(...)`"
    ),
    **dict.fromkeys(("cache", "cache_size"), "`reading=stoker.Reading(cache=stoker.Cache(folder, size))`"),
    **dict.fromkeys(("on_error", "max_bad"), "`errors=stoker.BadSamples(...)`"),
    **dict.fromkeys(("box_format", "min_visible", "min_size", "arrays"), "`objects=stoker.Objects(...)`"),
    "pixels_per_batch": "`batch_size=stoker.Pixels(...)`",
    "max_tokens": "`batch_size=stoker.MaxTokens(...)`",
    "samples_per_epoch": "`steps_per_epoch=stoker.Samples(...)`",
    "aspect_ratio_group_factor": "`sizes=stoker.Padded(...)` or `stoker.Ragged(...)`",
    **dict.fromkeys(
        ("multiple", "pad_multiple", "pad_to_multiple_of"),
        "`sizes=stoker.Padded(...)` of images, `buckets=stoker.Buckets(...)` of text",
    ),
    "draw_seed": "`seed=stoker.Seeds(order, augmentation)`",
    "dali": "`engine=stoker.DaliOptions(...)`",
    "pin_memory": '`device="pinned"`; for a GPU the loader itself copies through page-locked memory',
    "max_sequences": "`pack=stoker.Packing(tokens, max_sequences)`",
    "stream": "`pack=stoker.Streams(tokens)`",
    "too_long": "`max_length=stoker.MaxLength(tokens, too_long)`",
    "mask": "`labels`, which takes the MaskTokens or SpanCorruption",
}
"""Where the loaders take what were arguments of release 0.1."""
TRANSFORM_ARGUMENTS = {
    "antialias": "the same, of Resize, RandomResizedCrop, ScaleJitter, RandomShortestSize and RandomResize",
    "inplace": "not needed: the engine writes each image once",
}
"""Equivalents of the arguments of torchvision's transforms, as the guide writes them."""


def check_arguments(owner: type, names: Collection[str], equivalents: dict[str, str]) -> None:
    """Refuse keyword arguments that another library has, and ``owner`` has not."""
    # ``equivalents`` is :data:`LOADER_ARGUMENTS` or :data:`TRANSFORM_ARGUMENTS`.
    unknown = [name for name in names if name in equivalents and not _takes(owner, name)]
    if unknown:
        hints = [f"In place of {name}: {equivalents[name]}".replace("`", "") for name in unknown]
        raise ConfigError(f"{owner.__name__} has no argument {', '.join(unknown)}", hint="\n".join(hints))


@cache
def _takes(owner: type, name: str) -> bool:
    parameters = inspect.signature(owner).parameters
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
