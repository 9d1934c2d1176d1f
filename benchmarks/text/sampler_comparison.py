"""A comparison of Stoker's samplers and packing with those of other libraries, on the same lengths.

    pip install transformers torch tensorflow-cpu lhotse grain     # missing libraries are left out
    python -m stoker.benchmarks.text.sampler_comparison [--batch-size 32] [--rounds 3]

Each sampler makes two epochs of batches from the lengths of GSM8K's answers, padded to the longest sequence
of the batch; buckets of Stoker are padded to their boundary. There are eight buckets, and batches of 32. Each
sampler has its best documented settings; tf.data gets the optimal boundaries of Stoker. Rates are samples per
second, the best of the rounds; only Grain moves tokens, too. The rules of GluonNLP and fairseq are written
here again, because GluonNLP can no longer be installed, and fairseq not beside a current PyTorch.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter

import numpy as np
import numpy.typing as npt

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    StreamingPacker,
    TokenBudgetSampler,
    bucket_boundaries,
    pack,
)
from stoker.bucketing.reports import effective_partners, intraclass_correlation, lag1_autocorrelation
from stoker.bucketing.samplers import BatchSampler

from ..measuring import make_parser

Lengths = npt.NDArray[np.int64]
Batches = list[npt.NDArray[np.int64]]

NUM_BUCKETS = 8
MORE_BUCKETS = (16, 24, 32)
CAPACITY = 256


@dataclass(frozen=True)
class Entry:
    """A row of the table."""

    name: str  # Library and sampler
    epoch: Callable[[int], Batches]  # Returns the batches of an epoch, as rows
    width: Callable[[int], int] = int  # Returns the padded length of a batch, from its longest length


def stoker(lengths: Lengths, batch_size: int) -> Iterator[Entry]:
    """Yield the samplers of Stoker; buckets are padded to their boundary."""
    edges = bucket_boundaries(lengths, NUM_BUCKETS)

    def to_edge(longest: int) -> int:
        return int(edges.boundaries[np.searchsorted(edges.boundaries, longest)])

    samplers: dict[str, tuple[BatchSampler, Callable[[int], int]]] = {
        "Stoker, random batches": (SortedBucketSampler(lengths, batch_size, window=1), int),
        "Stoker, sorted windows of 50": (SortedBucketSampler(lengths, batch_size, window=50), int),
        "Stoker, sorted windows of 100": (SortedBucketSampler(lengths, batch_size, window=100), int),
        "Stoker, optimal buckets": (FixedBucketSampler(lengths, edges, batch_size), to_edge),
        "Stoker, optimal buckets, to batch": (
            FixedBucketSampler(lengths, edges, batch_size, pad_to="batch"),
            int,
        ),
        "Stoker, token budget in buckets": (TokenBudgetSampler(lengths, 64 * batch_size, edges), to_edge),
    }
    for number in MORE_BUCKETS:
        finer = bucket_boundaries(lengths, number)
        own = FixedBucketSampler(lengths, finer, batch_size, pad_to="batch")
        samplers[f"Stoker, {number} buckets, to batch"] = (own, int)
    for name, (sampler, width) in samplers.items():

        def epoch(number: int, sampler: BatchSampler = sampler) -> Batches:
            plan = sampler.plan(number)
            return [plan.batch(step).rows for step in range(len(plan))]

        yield Entry(name, epoch, width)


def gluonnlp(lengths: Lengths, batch_size: int) -> Iterator[Entry]:
    """Yield the samplers of GluonNLP 0.10, with shuffling."""
    edges = bucket_boundaries(lengths, NUM_BUCKETS, "constant").boundaries
    members = [np.flatnonzero(np.searchsorted(edges, lengths) == bucket) for bucket in range(len(edges))]

    def fixed(number: int, ratio: float) -> Batches:
        rng = np.random.RandomState(number)
        batches = []
        for edge, rows in zip(edges, members, strict=True):
            size = max(int(edges[-1] / edge * ratio * batch_size), batch_size)
            shuffled = rng.permutation(rows)
            batches += [shuffled[begin : begin + size] for begin in range(0, len(rows), size)]
        return [batches[k] for k in rng.permutation(len(batches))]

    def windows(number: int) -> Batches:
        rng = np.random.RandomState(number)
        order, batches = rng.permutation(len(lengths)), []
        for begin in range(0, len(order), 100 * batch_size):
            window = order[begin : begin + 100 * batch_size]
            window = window[np.argsort(-lengths[window], kind="stable")]
            begins = rng.permutation(np.arange(0, len(window), batch_size))
            batches += [window[first : first + batch_size] for first in begins]
        return batches

    yield Entry("GluonNLP, FixedBucket, ratio 0", partial(fixed, ratio=0.0))
    yield Entry("GluonNLP, FixedBucket, ratio 0.5", partial(fixed, ratio=0.5))
    yield Entry("GluonNLP, SortedBucket, mult 100", windows)


def hugging_face(lengths: Lengths, batch_size: int) -> Iterator[Entry]:
    """Yield the sampler of group_by_length in transformers."""
    import torch
    from transformers.trainer_pt_utils import get_length_grouped_indices

    listed = lengths.tolist()

    def epoch(number: int) -> Batches:
        generator = torch.Generator().manual_seed(number)
        order = np.array(get_length_grouped_indices(listed, batch_size, generator=generator))
        return [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]

    yield Entry(f"Hugging Face {version('transformers')}, group_by_length", epoch)


def fairseq(lengths: Lengths, batch_size: int) -> Iterator[Entry]:
    """Yield the batches of fairseq of as many tokens on average, by its rules."""
    # fairseq 0.12.2: ``LanguagePairDataset.ordered_indices`` sorts a permutation by length,
    # ``batch_by_size_vec`` fills batches up to ``--max-tokens``, in numbers of samples that are multiples of
    # ``--required-batch-size-multiple``, and ``EpochBatchIterator`` shuffles the batches.
    max_tokens, multiple = int(batch_size * lengths.mean()), 8

    def epoch(number: int) -> Batches:
        draw = np.random.RandomState(number)
        order = draw.permutation(len(lengths))
        order = order[np.argsort(lengths[order], kind="mergesort")]
        batches, start = [], 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end + 1 - start) * lengths[order[end]] <= max_tokens:
                end += 1
            if end < len(order):
                end = start + max((end - start) // multiple * multiple, (end - start) % multiple)
            batches.append(order[start:end])
            start = end
        return [batches[at] for at in draw.permutation(len(batches))]

    yield Entry("fairseq 0.12.2, max_tokens", epoch)


def tf_data(lengths: Lengths, batch_size: int) -> Iterator[Entry]:
    """Yield bucket_by_sequence_length after a shuffle of all samples."""
    import tensorflow as tf

    edges = bucket_boundaries(lengths, NUM_BUCKETS).boundaries

    def epoch(number: int) -> Batches:
        samples = tf.data.Dataset.from_tensor_slices((np.arange(len(lengths)), lengths))
        buckets = samples.shuffle(len(lengths), seed=number).bucket_by_sequence_length(
            lambda row, length: tf.cast(length, tf.int32),
            bucket_boundaries=(edges[:-1] + 1).tolist(),
            bucket_batch_sizes=[batch_size] * len(edges),
        )
        return [rows for rows, _ in buckets.as_numpy_iterator()]

    yield Entry(f"tf.data {version('tensorflow-cpu')}, bucket_by_...", epoch)


def lhotse(lengths: Lengths, batch_size: int) -> Iterator[Entry]:
    """Yield DynamicBucketingSampler, with a token as a second of audio."""
    from lhotse import CutSet, MonoCut
    from lhotse.dataset import DynamicBucketingSampler

    cuts = CutSet.from_cuts(
        MonoCut(id=str(row), start=0, duration=float(length), channel=0)
        for row, length in enumerate(lengths.tolist())
    ).to_eager()

    def epoch(number: int) -> Batches:
        sampler = DynamicBucketingSampler(
            cuts, max_cuts=batch_size, num_buckets=NUM_BUCKETS, shuffle=True, seed=number, drop_last=False
        )
        return [np.array([int(cut.id.split("-")[0]) for cut in batch]) for batch in sampler]

    yield Entry(f"Lhotse {version('lhotse')}, DynamicBucketing", epoch)


def stoker_packing(lengths: Lengths, _: int) -> Iterator[Entry]:
    """Yield packing of a whole epoch, and of a stream of a shuffled epoch."""

    def offline(number: int) -> Batches:
        plan = pack(lengths, CAPACITY, seed=0, epoch=number)
        return np.split(plan.rows, plan.offsets[1:-1])

    def stream(number: int) -> Batches:
        order = np.random.default_rng(number).permutation(len(lengths))
        pairs = zip(order.tolist(), lengths[order].tolist(), strict=True)
        return [packed.rows for packed in StreamingPacker(CAPACITY).stream(pairs)]

    yield Entry("Stoker, best fit decreasing", offline)
    yield Entry("Stoker, stream, buffer 256", stream)


def grain_packing(lengths: Lengths, _: int) -> Iterator[Entry]:
    """Yield the packings of Grain on a shuffled epoch, with 30 and 256 open rows; tokens are row numbers."""
    import grain
    from grain.experimental import BestFitPackIterDataset, FirstFitPackIterDataset

    def epoch(number: int, packing: type, bins: int) -> Batches:
        samples = (
            grain.MapDataset.source(range(len(lengths)))
            .seed(number)
            .shuffle()
            .map(lambda row: {"row": np.full(int(lengths[row]), row, np.int32)})
            .to_iter_dataset()
        )
        packed = packing(samples, length_struct={"row": CAPACITY}, num_packing_bins=bins)
        return [np.unique(one["row"][one["row_segment_ids"] > 0]).astype(np.int64) for one in packed]

    for name, packing in (("first fit", FirstFitPackIterDataset), ("best fit", BestFitPackIterDataset)):
        for bins in (30, 256):
            yield Entry(
                f"Grain {version('grain')}, {name}, {bins} rows", partial(epoch, packing=packing, bins=bins)
            )


def measured(entry: Entry, lengths: Lengths, rounds: int, *, capacity: int | None) -> str:
    """Return a line of text: steps, padding, shapes, randomness, rate."""
    batches, following = entry.epoch(0), entry.epoch(1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths))), entry.name
    sizes = np.array([len(rows) for rows in batches])
    rows = np.concatenate(batches)
    widths = [entry.width(int(lengths[one].max())) for one in batches]
    padded = sum(capacity or size * width for size, width in zip(sizes.tolist(), widths, strict=True))
    shapes = 1 if capacity else len(set(zip(sizes.tolist(), widths, strict=True)))
    belongs = np.zeros((2, len(lengths)), np.int64)
    for epoch, made in zip(belongs, (batches, following), strict=True):
        for number, members in enumerate(made):
            epoch[members] = number
    correlation = intraclass_correlation(lengths[rows], np.repeat(np.arange(len(sizes)), sizes))
    lag = lag1_autocorrelation(np.array([lengths[one].mean() for one in batches]))
    seconds = math.inf
    for number in range(rounds):
        begun = perf_counter()
        entry.epoch(2 + number)
        seconds = min(seconds, perf_counter() - begun)
    return (
        f"{entry.name:<44} {len(batches):>6} {100 * (1 - lengths.sum() / padded):>9.2f} {shapes:>7}"
        f" {correlation:>7.3f} {lag:>7.3f} {effective_partners(*belongs):>9.0f}"
        f" {len(lengths) / seconds:>12,.0f}"
    )


def print_entries(
    peer: Callable[[Lengths, int], Iterator[Entry]],
    lengths: Lengths,
    arguments: argparse.Namespace,
    *,
    capacity: int | None,
) -> None:
    """Print the lines of one library, or the reason why there are none."""
    try:
        for entry in peer(lengths, arguments.batch_size):
            print(measured(entry, lengths, arguments.rounds, capacity=capacity), flush=True)
    except (ImportError, PackageNotFoundError) as error:
        print(f"{peer.__name__:<44} not measured: {error}")


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--batch-size", type=int, default=32)
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    lengths = gsm8k_lengths("answer")
    header = (
        f"{'':<44} {'steps':>6} {'padding %':>9} {'shapes':>7} {'icc':>7} {'lag 1':>7} {'partners':>9}"
        f" {'samples/s':>12}"
    )
    tables = {
        f"batches of {arguments.batch_size}": (
            None,
            (stoker, gluonnlp, hugging_face, fairseq, tf_data, lhotse),
        ),
        f"packed rows of {CAPACITY} tokens": (CAPACITY, (stoker_packing, grain_packing)),
    }
    for title, (capacity, peers) in tables.items():
        print(f"\nGSM8K answers, {len(lengths):,} lengths, {title}\n{header}")
        for peer in peers:
            print_entries(peer, lengths, arguments, capacity=capacity)


if __name__ == "__main__":
    main()
