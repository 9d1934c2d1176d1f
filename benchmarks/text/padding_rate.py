"""Tokens a second of padded batches: TextLoader from disk, and PyTorch's pad_sequence from memory.

    python -m stoker.benchmarks.text.padding_rate --json results.json

Both draw random batches, pad each to its longest sequence, and hand out int64 ids with their mask as tensors.
``pad_sequence`` gets tensors of int64 that lie in memory; TextLoader reads shards of 16-bit ids, which are in
the page cache, and compares the checksum of every sequence. The rate counts processor time of the whole
process, all threads, and tokens without padding. Rounds alternate, and medians are printed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

import stoker

from ..measuring import make_parser, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

MEANS = (64, 256)
BATCHES = (64, 256)
TOKENS = 4_000_000


def write_text(folder: Path, mean: int) -> Path:
    """A dataset of bytes with lengths uniform from half to one and a half times ``mean``."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(mean // 2, mean * 3 // 2, TOKENS // mean)
    lines = ["".join(map(chr, generator.integers(97, 123, length).tolist())) for length in lengths.tolist()]
    (folder / f"{mean}.txt").write_text("\n".join(lines))
    stoker.convert_text(folder / f"{mean}.txt", folder / f"d{mean}", tokenizer="bytes")
    return folder / f"d{mean}"


def make_loader(shards: Path, batch_size: int) -> stoker.TextLoader:
    """Random batches, each padded to its longest sequence."""
    return stoker.TextLoader(
        shards,
        batch_size=batch_size,
        buckets=None,
        shuffle=True,
        output="torch",
        last_batch="drop",
        ranks=stoker.Ranks(0, 1),
    )


def pass_of_loader(loader: stoker.TextLoader) -> int:
    """Run an epoch, and return its tokens."""
    tokens = 0
    for _, mask in loader:
        tokens += int(mask.sum())
    return tokens


def pass_of_pad_sequence(sequences: list[torch.Tensor], batch_size: int) -> int:
    """Run an epoch of random batches of sequences in memory, and return its tokens."""
    import torch

    from stoker.benchmarks.peers.text.torch_text import pad_tensors

    tokens = 0
    order = torch.randperm(len(sequences)).tolist()
    for start in range(0, len(order) - batch_size + 1, batch_size):
        chosen = [sequences[row] for row in order[start : start + batch_size]]
        _, mask = pad_tensors(chosen)
        tokens += int(mask.sum())
    return tokens


def rate(run: Callable[[], int]) -> float:
    """Million tokens per second of processor time."""
    start = process_time()
    tokens = run()
    return tokens / (process_time() - start) / 1e6


def compare(shards: Path, batch_size: int, rounds: int) -> tuple[float, float]:
    """Median rates of TextLoader and of pad_sequence; a first round of each does not count."""
    whole = stoker.TextLoader(shards, batch_size=1, buckets=None, output="torch", columns=["input_ids"])
    sequences = [ids[0].clone() for (ids,) in whole]
    loader = make_loader(shards, batch_size)
    rates = [
        (rate(lambda: pass_of_loader(loader)), rate(lambda: pass_of_pad_sequence(sequences, batch_size)))
        for _ in range(rounds + 1)
    ][1:]
    ours, theirs = zip(*rates, strict=True)
    return round(median(ours), 1), round(median(theirs), 1)


def main() -> None:
    """Print the rates, and write them as JSON."""
    arguments = make_parser(__doc__, "json", rounds=5).parse_args()
    import torch

    torch.set_num_threads(1)
    figures = []
    print("million tokens a second of processor time")
    print(f"{'mean length':>12} {'batch':>6} {'TextLoader':>12} {'pad_sequence':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for mean in MEANS:
            shards = write_text(Path(folder), mean)
            for batch_size in BATCHES:
                ours, theirs = compare(shards, batch_size, arguments.rounds)
                print(f"{mean:>12} {batch_size:>6} {ours:>12} {theirs:>13}", flush=True)
                row = {"mean_length": mean, "batch_size": batch_size, "stoker": ours, "pad_sequence": theirs}
                figures.append(row)
    write_json(arguments.json, {"million_tokens_per_cpu_second": figures})


if __name__ == "__main__":
    main()
