"""Tokens a second of padded batches: TextLoader from disk, and PyTorch's pad_sequence from memory.

    python -m stoker.benchmarks.text.padding_rate --json results.json

Both draw random batches, pad each to its longest sequence, and hand out int64 ids with their mask as tensors.
``pad_sequence`` gets tensors of int64 that lie in memory; TextLoader reads shards of 16-bit ids, which are in
the page cache, and compares the checksum of every sequence. The rate counts processor time of the whole
process, all threads, and tokens without padding. Rounds alternate, and medians are printed.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import stoker

from ..measuring import costs_in_turns, make_parser, write_json

if TYPE_CHECKING:
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


def pass_of_loader(loader: stoker.TextLoader) -> int:
    """Run an epoch, and return its tokens."""
    return sum(int(mask.sum()) for _, mask in loader)


def pass_of_pad_sequence(sequences: list[torch.Tensor], batch_size: int) -> int:
    """Run an epoch of random batches of sequences in memory, and return its tokens."""
    import torch

    from ..peers.text import pad_tensors

    tokens = 0
    order = torch.randperm(len(sequences)).tolist()
    for start in range(0, len(order) - batch_size + 1, batch_size):
        chosen = [sequences[row] for row in order[start : start + batch_size]]
        tokens += int(pad_tensors(chosen)[1].sum())
    return tokens


def compare(shards: Path, batch_size: int, rounds: int) -> dict[str, float]:
    """Million tokens a second of processor time, by what makes the batches."""
    whole = stoker.TextLoader(shards, batch_size=1, buckets=None, output="torch", columns=["input_ids"])
    sequences = [ids[0].clone() for (ids,) in whole]
    options: dict[str, Any] = {"last_batch": "drop", "ranks": stoker.Ranks(0, 1), "output": "torch"}
    loader = stoker.TextLoader(shards, batch_size=batch_size, buckets=None, shuffle=True, **options)
    turns = {
        "stoker": partial(pass_of_loader, loader),
        "pad_sequence": partial(pass_of_pad_sequence, sequences, batch_size),
    }
    costs = costs_in_turns(turns, rounds)
    return {name: round(1e-6 / cost.cpu_seconds, 1) for name, cost in costs.items()}


def main() -> None:
    """Print the rates, and write them as JSON."""
    arguments = make_parser(__doc__, "json", rounds=5).parse_args()
    import torch

    torch.set_num_threads(1)
    rows = []
    print("million tokens a second of processor time")
    print("".join(f"{title:>13}" for title in ("mean length", "batch", "TextLoader", "pad_sequence")))
    with tempfile.TemporaryDirectory() as folder:
        for mean in MEANS:
            shards = write_text(Path(folder), mean)
            for batch_size in BATCHES:
                rates = compare(shards, batch_size, arguments.rounds)
                row = {"mean_length": mean, "batch_size": batch_size, **rates}
                print("".join(f"{value:>13}" for value in row.values()), flush=True)
                rows.append(row)
    write_json(arguments.json, {"million_tokens_per_cpu_second": rows})


if __name__ == "__main__":
    main()
