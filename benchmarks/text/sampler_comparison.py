"""A comparison of Stoker's samplers and packing with those of other libraries, on the same lengths.

    pip install transformers torch tensorflow-cpu     # missing libraries are left out
    python -m stoker.benchmarks.text.sampler_comparison [--batch-size 32]

Each sampler makes two epochs of batches from the lengths of GSM8K's answers, padded to the longest sequence
of the batch; buckets of Stoker are padded to their boundary. There are eight buckets, and batches of 32. Each
sampler has its best documented settings; tf.data gets the optimal boundaries of Stoker. The rules of GluonNLP
and fairseq are written here again, because GluonNLP can no longer be installed, and fairseq not beside a
current PyTorch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import numpy.typing as npt

from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    TokenBudgetSampler,
    bucket_boundaries,
    pack,
)
from stoker.bucketing.reports import effective_partners
from stoker.bucketing.samplers import BatchSampler

from ..measuring import make_parser
from .gsm8k import gsm8k_lengths

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
    capacity: int | None = None  # Tokens of a packed row, which is a batch here


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


def packed(lengths: Lengths, _: int) -> Iterator[Entry]:
    """Yield rows of several sequences, by Stoker."""

    def epoch(number: int) -> Batches:
        plan = pack(lengths, CAPACITY, seed=0, epoch=number)
        return np.split(plan.rows, plan.offsets[1:-1])

    yield Entry(f"Stoker, rows of {CAPACITY} tokens", epoch, capacity=CAPACITY)


def measured(entry: Entry, lengths: Lengths) -> str:
    """Return a line of text: steps, padding, and partners of a sample in two epochs."""
    epochs = [entry.epoch(number) for number in (0, 1)]
    assert sorted(np.concatenate(epochs[0]).tolist()) == list(range(len(lengths))), entry.name
    padded = sum(entry.capacity or len(rows) * entry.width(int(lengths[rows].max())) for rows in epochs[0])
    batch = np.zeros((2, len(lengths)), np.int64)
    for belongs, batches in zip(batch, epochs, strict=True):
        for number, rows in enumerate(batches):
            belongs[rows] = number
    padding = 100 * (1 - lengths.sum() / padded)
    return f"{entry.name:<44} {len(epochs[0]):>6} {padding:>9.2f} {effective_partners(*batch):>9.0f}"


def print_entries(peer: Callable[[Lengths, int], Iterator[Entry]], lengths: Lengths, batch_size: int) -> None:
    """Print the lines of one library, or the reason why there are none."""
    try:
        for entry in peer(lengths, batch_size):
            print(measured(entry, lengths), flush=True)
    except (ImportError, PackageNotFoundError) as error:
        print(f"{peer.__name__:<44} not measured: {error}")


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    batch_size = parser.parse_args().batch_size
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    lengths = gsm8k_lengths("answer")
    print(f"GSM8K answers, {len(lengths):,} lengths, batches of {batch_size}")
    print(f"{'':<44} {'steps':>6} {'padding %':>9} {'partners':>9}")
    for peer in (stoker, gluonnlp, hugging_face, fairseq, tf_data, packed):
        print_entries(peer, lengths, batch_size)


if __name__ == "__main__":
    main()
