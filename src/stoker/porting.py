"""Keyword arguments that Stoker does not have, and what takes their place.

Loaders, transforms, samplers and conversions look an unknown keyword argument up here: arguments of other
libraries, of earlier releases, of option objects, and misspelt ones. ``docs/guide/porting.md`` has the same
rows, which a test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

import stoker
from stoker.errors import ConfigError

_TRANSFORMS = "`transforms`: `RandomResizedCrop(224)`, or `Resize(256)` and `CenterCrop(224)`"
_THREADS = "`num_threads` for images; there are no worker processes"
_SHUFFLE = "`shuffle=True`: a full shuffle"
_RANK = "found by the loader"
_EPOCH = "not needed: each `for` loop is an epoch, and `len(loader)` is exact"
_SOURCE = "the loader's first argument: a dataset that `stoker convert` or `stoker index` makes"
_ALL_RANKS = "not needed: batches do not depend on the number of ranks"

LOADER_ARGUMENTS = {
    "transform": "`transforms`: a list of transforms of `stoker.augment` with the same names; parameters are "
    "drawn for each image",
    **dict.fromkeys(
        ("num_workers", "worker_init_fn", "persistent_workers", "multiprocessing_context"), _THREADS
    ),
    **dict.fromkeys(("preprocess_threads", "num_parallel_calls"), "`num_threads` for images"),
    "prefetch_factor": "`prefetch`, counted in batches",
    **dict.fromkeys(("prefetch_queue_depth", "prefetch_buffer", "batches_ahead"), "`prefetch`"),
    "drop_last": '`last_batch="drop"`',
    "drop_remainder": '`batch_size=n, last_batch="drop"`',
    **dict.fromkeys(
        ("last_batch_policy", "pad_last_batch", "fill_last_batch", "last_batch_padded", "last_batch_handle"),
        '`last_batch="pad"`, `"drop"`, `"partial"`',
    ),
    "round_batch": '`last_batch="pad"`',
    "collate_fn": "`columns`, and `batchify` for documents; `MixUp()` and `CutMix()` go into the list of "
    "transforms",
    "generator": "`seed`. The default is 0, so two runs see the same order unless you give them different "
    "seeds",
    "shuffle_seed": "`seed`",
    "batch_sampler": "`sampler`, which chooses the samples, and `batch_size`; for documents also "
    "`batch_sampler`",
    **dict.fromkeys(("shuffle_buffer", "buffer_size", "initial_fill"), _SHUFFLE),
    **dict.fromkeys(("random_shuffle", "shuffle_after_epoch"), _SHUFFLE),
    **dict.fromkeys(
        ("shuffle_algo", "shuffle_block_size"), f"{_SHUFFLE}; `shuffle=stoker.BlockShuffle()` reads blocks"
    ),
    "shardshuffle": "`shuffle=True`: any order of all samples; `stoker.BlockShuffle()` for long reads",
    "order": "`shuffle=True`, `shuffle=stoker.BlockShuffle()`, `shuffle=False`",
    **dict.fromkeys(
        ("cycle_length", "block_length", "deterministic"), "not needed: `seed` decides the order"
    ),
    **dict.fromkeys(("shard_id", "num_shards", "device_id", "stick_to_shard"), _RANK),
    **dict.fromkeys(("part_index", "num_parts"), _RANK),
    "distributed": "not needed: the loader knows its rank",
    "resampled": "not needed: the loader knows its rank, and each rank gets its share of all samples",
    **dict.fromkeys(("num_canonical_nodes", "batching_method"), _ALL_RANKS),
    **dict.fromkeys(("reader_name", "auto_reset", "dynamic_shape"), _EPOCH),
    **dict.fromkeys(("file_root", "index_path", "features"), _SOURCE),
    **dict.fromkeys(("path_imgrec", "path_imgidx"), _SOURCE),
    **dict.fromkeys(
        ("remote", "local"),
        "the loader's first argument, a URL, with `reading=stoker.Reading(cache=stoker.Cache(folder))`",
    ),
    **dict.fromkeys(("exec_dynamic", "dali_cpu"), '`engine="dali"`'),
    "hw_decoder_load": "`engine=stoker.DaliOptions(hw_decoder_load=...)`",
    "output_layout": '`layout="NCHW"` or `"NHWC"`',
    **dict.fromkeys(("data_shape", "rand_crop", "random_resized_crop", "resize", "size"), _TRANSFORMS),
    **dict.fromkeys(("image_size", "target_size"), _TRANSFORMS),
    "rand_mirror": "`transforms` with `RandomHorizontalFlip()`",
    **dict.fromkeys(("mean_r", "std_r"), "`transforms` with `Normalize()`: in units of 0..1"),
    "label_width": "read from the records by `stoker index`, whose label type says what several numbers are",
    "color_mode": '`color="rgb"` or `"gray"`',
    **dict.fromkeys(
        ("label_mode", "class_names"), "`classes` of `stoker.convert`; labels are class numbers from 0"
    ),
    **dict.fromkeys(("validation_split", "subset"), "`dataset.split(0.9)`, or `val` of `stoker.convert`"),
    "indices": "`dataset.select(positions)`",
    "pipelines": "`columns` and `transforms`",
    "os_cache": "not needed: the shards are in the page cache",
    "cache_dir": "`reading=stoker.Reading(cache=stoker.Cache(folder))`",
    **dict.fromkeys(
        ("cache_limit", "cache_size"), '`reading=stoker.Reading(cache=stoker.Cache(folder, "100GB"))`'
    ),
    "handler": '`errors=stoker.BadSamples("skip")`; for archives that are cut or lack labels, '
    "`stoker index --allow-loss 1%`",
    "write_mode": '`encoding="jpeg"` or `"raw"` of `stoker.convert`',
}
"""Equivalents of the arguments of other loaders, as the guide writes them."""
MOVED_ARGUMENTS = {
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
    "stream": "`pack=stoker.Streams(tokens)`",
    "workers": "`reading=stoker.Reading(workers=...)`",
    "mask": "`labels`, which takes the MaskTokens or SpanCorruption",
}
"""Where the loaders take what were arguments of release 0.1, beside the attributes of option objects."""
TRANSFORM_ARGUMENTS = {
    "antialias": "the same, of Resize, RandomResizedCrop, ScaleJitter, RandomShortestSize and RandomResize",
    "inplace": "not needed: the engine writes each image once",
    "random_area": "`scale`",
    "random_aspect_ratio": "`ratio`",
    "probability": "`p`",
    **dict.fromkeys(
        ("mode", "resize_shorter", "keep_ratio"), "`size`: 256 for the shorter side, (256, 256) for both"
    ),
    "interp_type": "`interpolation`",
    "lighting": "none: there is no noise of principal components",
}
"""Equivalents of the arguments of transforms of other libraries, as the guide writes them."""
BUCKETING_ARGUMENTS = {
    **dict.fromkeys(
        ("num_buckets", "bucket_scheme", "bucket_keys"),
        '`boundaries`: `bucket_boundaries(lengths, num_buckets, "exponential")`',
    ),
    "use_average_length": "`TokenBudgetSampler`, whose batches have `max_tokens`",
    **dict.fromkeys(("num_parts", "num_shards"), "`world_size`, and `batches(rank)`"),
    "mult": "`window`, counted in steps",
    **dict.fromkeys(("pad_val", "val"), "`value`"),
}
"""Equivalents of the arguments of GluonNLP's samplers and batchify functions, as the guide writes them."""
CONVERSION_ARGUMENTS = {
    **dict.fromkeys(("num_workers", "num_proc"), "`num_threads`"),
    "src": "`source`",
    **dict.fromkeys(("dst", "out"), "`target`"),
    "format": "`container`",
    "write_mode": '`encoding="jpeg"` or `"raw"`',
    "jpeg_quality": "`quality`",
    "max_resolution": '`resize="longer=512"`',
    "class_names": "`classes`",
}
"""Former names of arguments of conversions, and their equivalents in other libraries."""
_EQUIVALENTS = {
    "loader": LOADER_ARGUMENTS | MOVED_ARGUMENTS,
    "transform": TRANSFORM_ARGUMENTS,
    "bucketing": BUCKETING_ARGUMENTS,
    "conversion": CONVERSION_ARGUMENTS,
}


def check_arguments(owner: Callable[..., Any], names: Collection[str], kind: str) -> None:
    """Refuse unknown keyword arguments of a class or function if it is known what takes their place."""
    parameters = inspect.signature(owner.__init__ if isinstance(owner, type) else owner).parameters  # type: ignore[misc]
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    unknown = [name for name in names if name not in parameters]
    answers = [_answer(name, parameters, _EQUIVALENTS.get(kind, {})) for name in unknown]
    if any(answers):
        raise ConfigError(
            f"{owner.__name__} has no argument {', '.join(unknown)}", hint="\n".join(filter(None, answers))
        )


def _answer(
    name: str, parameters: Mapping[str, inspect.Parameter], equivalents: Mapping[str, str]
) -> str | None:
    """What to write in place of an unknown argument; None for one that has no equivalent."""
    if name in equivalents:
        return f"In place of {name}: {equivalents[name]}".replace("`", "")
    options = {
        attribute.name: f"{argument}=stoker.{word}({attribute.name}=...)"
        for argument, parameter in parameters.items()
        for word in re.findall(r"\w+", str(parameter.annotation))
        if word in stoker.__all__ and is_dataclass(option := getattr(stoker, word))
        for attribute in fields(option)
    }
    if name in options:
        return f"In place of {name}: {options[name]}"
    near = get_close_matches(name, [*parameters, *options], 1, 0.75)
    return f"In place of {name}: {options.get(near[0], near[0])}" if near else None
