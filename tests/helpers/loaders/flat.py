"""Loader arguments from flat names, for helpers that pass options on."""

from __future__ import annotations

from typing import Any

import stoker

__all__ = ["image_arguments", "text_arguments"]

_RANKS = ("rank", "world_size", "mesh", "replicate", "context", "context_slices", "balance")
_READING = ("read_ahead", "verify", "mapped", "exact", "max_pixels")


def image_arguments(**flat: Any) -> dict[str, Any]:
    """Return arguments of ImageLoader; options that have an option object go into it."""
    given = _shared(flat)
    if (pixels := given.pop("pixels_per_batch", None)) is not None:
        given["batch_size"] = stoker.Pixels(pixels)
    padding = _taken(given, "pad_to_multiple_of", "aspect_ratio_group_factor")
    if padding:
        given["sizes"] = (stoker.Ragged if given.get("sizes") == "ragged" else stoker.Padded)(**padding)
    if "draw_seed" in given:
        order, augmentation = given.get("seed", 0), given.pop("draw_seed")
        given["seed"] = stoker.Seeds(order, order if augmentation is None else augmentation)
    forms = _taken(given, "box_format", "min_visible", "min_size", "arrays")
    if forms:
        form = {"form": given["objects"]} if "objects" in given else {}
        given["objects"] = stoker.Objects(**form, **forms)
    if (dali := given.pop("dali", None)) is not None:
        given["engine"] = dali
    if errors := _taken(given, "on_error", "max_bad"):
        given["errors"] = stoker.BadSamples(**errors)
    return given


def text_arguments(**flat: Any) -> dict[str, Any]:
    """Return arguments of TextLoader; options that have an option object go into it."""
    given = _shared(flat)
    if (tokens := given.pop("max_tokens", None)) is not None:
        given["batch_size"] = stoker.MaxTokens(tokens)
    if "pad_to_multiple_of" in given:
        multiple = given.pop("pad_to_multiple_of")
        given["buckets"] = stoker.Buckets(given.get("buckets", "auto"), multiple)
    if "max_sequences" in given:
        given["pack"] = stoker.Packing(given["pack"], given.pop("max_sequences"))
    if (stream := given.pop("stream", None)) is not None:
        given["pack"] = stoker.Streams(stream)
    if "too_long" in given:
        given["max_length"] = stoker.MaxLength(given.get("max_length"), given.pop("too_long"))
    if (samples := given.pop("samples_per_epoch", None)) is not None:
        given["steps_per_epoch"] = stoker.Samples(samples)
    if (mask := given.pop("mask", None)) is not None:
        given["labels"] = mask
    return given


def _shared(flat: dict[str, Any]) -> dict[str, Any]:
    given = dict(flat)
    if ranks := _taken(given, *_RANKS):
        given["ranks"] = stoker.Ranks(**ranks)
    reading, cache = _taken(given, *_READING), _taken(given, "cache", "cache_size")
    if cache.get("cache") is not None:
        reading["cache"] = stoker.Cache(cache["cache"], cache.get("cache_size"))
    if reading:
        given["reading"] = stoker.Reading(**reading)
    if given.pop("pin_memory", False) and given.get("device") in (None, "cpu"):
        given["device"] = "pinned"
    return given


def _taken(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given.pop(name) for name in names if name in given}
