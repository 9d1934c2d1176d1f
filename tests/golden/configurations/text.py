"""Text: shards of token ids, and batches of them."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from helpers.loaders import text_arguments
from helpers.options import text_options

import stoker
from stoker.bucketing import Pack, Pad, SortedBucketSampler, TokenBudgetSampler

from .conversions import content, files, prefixed
from .order import state
from .sources import Sandbox

OPTIONS: dict[str, Any] = {"shuffle": True, "seed": 7, "rank": 0, "world_size": 1, "fields": ("answer",)}


def make_loader(dataset: Any, **options: Any) -> stoker.TextLoader:
    """Returns a loader, of eight samples a batch by default."""
    sized = options.keys() & {"max_tokens", "batch_sampler"}
    arguments = {**OPTIONS, **({} if sized else {"batch_size": 8}), **options}
    return stoker.TextLoader(dataset, **text_arguments(**arguments))


def batches(dataset: Any, epochs: int = 2, **options: Any) -> list[Any]:
    """Returns the shapes, the columns and the batches of some epochs."""
    with make_loader(dataset, **options) as loader:
        return [
            loader.shapes(),
            loader.columns,
            loader.pad_id,
            [[list(batch) for batch in loader] for _ in range(epochs)],
        ]


def text_shards(sandbox: Sandbox) -> dict[str, Any]:
    """Conversions of JSON Lines and of parallel files."""
    for name, period in (("en", 30), ("de", 7)):
        lines = ["".join(chr(33 + (i * i + j) % 900) for j in range(1 + i % period)) for i in range(97)]
        sandbox.write(f"text/t.{name}", "\n".join(lines))
    parallel = [sandbox.root / "text/t.en", sandbox.root / "text/t.de"]
    results: dict[str, Any] = {}
    for name, source, options in (
        ("words", sandbox.questions, {"fields": ["question", "answer"], "seed": 3, "shards": 3}),
        ("words-lmdb", sandbox.questions, {"fields": ["answer"], "format": "lmdb"}),
        ("bytes", parallel, {"parallel": True, "tokenizer": "bytes", "seed": 1, "shard_records": 40}),
        ("bytes-named", parallel, {"parallel": True, "tokenizer": "bytes", "fields": ["a", "b"]}),
    ):
        folder = sandbox.removed(f"texts/{name}")
        if "tokenizer" not in options:
            options["tokenizer"] = sandbox.words(name, source, options["fields"])
        summary = stoker.convert_text(source, folder, **text_options(options))
        results |= {**files(sandbox, folder), **prefixed(name, content(folder))}
        results[f"{name}/summary"] = [summary.written, summary.skipped, summary.shards]
    folder = sandbox.removed("texts/splits")
    tokenizer = sandbox.words("splits", parallel[0])
    stoker.convert_text(parallel[0], folder, tokenizer=tokenizer, val="20%", test="10%", seed=4)
    return {**results, **files(sandbox, folder)}


def text_batches(sandbox: Sandbox) -> dict[str, Any]:
    """Buckets of a fixed size and of a budget of tokens, ranks and last batches."""
    columns = ("input_ids", "attention_mask", "labels", "lengths", "position_ids", "row", "key")
    results: dict[str, Any] = {
        "buckets": batches(sandbox.text, columns=columns),
        "in order": batches(sandbox.text, shuffle=False, buckets=4, dtype="int64"),
        "budget": batches(sandbox.text, max_tokens=1500, buckets=5, pad_to_multiple_of=8),
        "boundaries": batches(sandbox.text, buckets=(40, 90, 300), max_length=300, too_long="truncate"),
        "no buckets": batches(sandbox.text, buckets=None, batch_size=16),
        "two fields": batches(sandbox.text, fields=("question", "answer"), buckets=6),
        "batchify": batches(
            sandbox.text, batchify=Pad(outputs=("input_ids", "loss_weights"), side="left", value=3)
        ),
    }
    for balance in ("tokens", "attention"):
        shares = [batches(sandbox.text, balance=balance, world_size=2, rank=rank) for rank in range(2)]
        results[f"balance/{balance}"] = shares
    for last_batch in ("drop", "pad", "partial"):
        columns = ("input_ids", "row", "mask")
        options = {"last_batch": last_batch, "columns": columns, "world_size": 3, "buckets": 3}
        shares = [batches(sandbox.text, rank=rank, **options) for rank in range(3)]
        results[f"last/{last_batch}"] = shares
    return results


def text_packing(sandbox: Sandbox) -> dict[str, Any]:
    """Packed rows."""
    columns = (
        "input_ids",
        "segment_ids",
        "position_ids",
        "labels",
        "cu_seqlens",
        "max_seqlen",
        "loss_weights",
    )
    options = {"pack": 256, "batch_size": 2}
    return {
        "packed": batches(sandbox.text, **options, too_long="truncate"),
        "split": batches(sandbox.text, pack=100, batch_size=3, too_long="split"),
        "columns": batches(sandbox.text, **options, too_long="split", max_sequences=4, columns=columns),
        "batchify": batches(
            sandbox.text, **options, too_long="split", batchify=Pack(outputs=("input_ids", "lengths"))
        ),
        "ranks": [
            batches(sandbox.text, **options, too_long="split", balance="attention", world_size=2, rank=rank)
            for rank in range(2)
        ],
        "in order": batches(sandbox.text, **options, too_long="split", shuffle=False),
    }


def text_sources(sandbox: Sandbox) -> dict[str, Any]:
    """Samplers, streams, mixtures, selections and samplers of batches."""
    dataset = stoker.open(sandbox.text)
    short = dataset.select("answer_length <= 80")
    weights = np.arange(len(dataset)) % 7
    mixture = stoker.mix([(dataset, 0.3), (short, 0.7)], samples=150)
    columns = ("input_ids", "row")
    windows = partial(SortedBucketSampler, batch_size=10, window=4, pad_to_multiple_of=8)
    budget = partial(TokenBudgetSampler, max_tokens=2000, window=60)
    return {
        "weighted": batches(dataset, sampler=stoker.Weighted(weights), shuffle=False, columns=columns),
        "balanced": batches(
            dataset, sampler=stoker.ClassBalanced(weights, samples=90), shuffle=False, columns=columns
        ),
        "stream": batches(dataset, samples_per_epoch=100, columns=columns, last_batch="drop"),
        "mixture": batches(mixture, columns=("input_ids", "dataset", "row"), buckets=3),
        "mixture/stream": batches(mixture, samples_per_epoch=64, columns=columns, world_size=2, rank=1),
        "selection": batches(short, columns=columns),
        "windows": batches(dataset, batch_sampler=windows, columns=columns),
        "budget": batches(dataset, batch_sampler=budget, columns=columns),
    }


def text_states(sandbox: Sandbox) -> dict[str, Any]:
    """States at several steps, and the batches of loaders that resume from them."""
    results: dict[str, Any] = {}
    for name, options in (
        ("buckets", {"buckets": 4, "columns": ("row",)}),
        ("budget", {"max_tokens": 1500, "last_batch": "pad", "columns": ("row", "mask")}),
        ("packed", {"pack": 256, "batch_size": 2, "too_long": "split"}),
        ("stream", {"samples_per_epoch": 70, "columns": ("row",)}),
    ):
        for world_size, steps in ((1, 0), (1, 4), (2, 3)):
            prefix = f"{name}/{world_size}-{steps}"
            with make_loader(sandbox.text, **options, world_size=world_size) as loader:
                list(islice(loader, steps))
                saved = loader.state_dict()
                results[f"{prefix}/identity"], results[prefix] = state(loader)
            for other in (1, 3):
                with make_loader(sandbox.text, **options, world_size=other, rank=other - 1) as restored:
                    restored.load_state_dict(saved)
                    rest = [[list(batch) for batch in restored] for _ in range(2)]
                    results[f"{prefix}/on {other}"] = rest
                    results[f"{prefix}/on {other}/after"] = state(restored)[1]
    return results


CONFIGURATIONS = (text_shards, text_batches, text_packing, text_sources, text_states)
