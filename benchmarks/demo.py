"""The demo that ``make demo`` runs: conversion of photographs, training, and a comparison of loaders.

The demo writes into ``out/demo`` (or ``--out``). A second run uses the shards of the first.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import stoker
from stoker.benchmarks.comparison.photographs import photographs_in, replicate

from .measuring import make_parser

PHOTOS = Path(__file__).resolve().parent.parent / "examples" / "photos"

_BATCH_SIZE = 36
_TRAINING_SECONDS = 50
_FEWEST_EPOCHS, _MOST_EPOCHS = 20, 60
_COPIES = 8  # of each photograph, so that a round of the comparison takes some seconds


def main() -> None:
    """Run the three parts and print their results."""
    parser = make_parser(__doc__)
    parser.add_argument("--photos", type=Path, default=PHOTOS, help="a folder with train/CLASS and val/CLASS")
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the comparison")
    parser.add_argument("--seed", type=int, default=0, help="seed of the network and of its batches")
    options = parser.parse_args()
    console = Console(highlight=False)

    console.rule("[bold]1. Conversion of photographs into shards", align="left")
    shards = {split: options.out / split for split in ("train", "val")}
    for split, folder in shards.items():
        _convert(options.photos / split, folder, console)

    console.rule("[bold]2. Training of a network with a loader", align="left")
    _train(shards["train"], shards["val"], options.seed, console)

    console.rule("[bold]3. Images per second of Stoker and of other loaders", align="left")
    _compare(options.photos / "train", options.out, options.rounds, console)


def _convert(source: Path, target: Path, console: Console) -> None:
    if (target / "dataset.json").exists():
        dataset = stoker.open(target)
        console.print(f"{target}: {len(dataset)} photographs, converted before")
        return
    summary = stoker.convert(source, target, seed=0)
    console.print(
        f"{target}: {summary.written} photographs, {summary.bytes / 1e6:.1f} MB in {summary.shards} shard, "
        f"{summary.seconds:.2f} s"
    )


def _train(train_set: Path, held_out: Path, seed: int, console: Console) -> None:
    import torch

    from stoker.benchmarks.training.accuracy import evaluate, make_network, stoker_loaders, train

    torch.manual_seed(seed)
    training, evaluation = stoker_loaders(train_set, held_out, _BATCH_SIZE, seed=seed)
    classes = training.dataset.num_classes
    console.print(f"{training!r}")
    epochs = _epochs_that_fit(
        lambda: train(make_network(classes), training, epochs=1, steps_per_epoch=len(training))
    )
    network = make_network(classes)
    training.set_epoch(0)
    with Progress(
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
        console=console,
        disable=not sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task("training", total=epochs * len(training), epoch=0, loss=float("nan"))
        train(
            network,
            training,
            epochs=epochs,
            steps_per_epoch=len(training),
            after_step=lambda step, loss: bar.update(
                task, completed=step, loss=loss, epoch=(step - 1) // len(training) + 1
            ),
        )
    console.print(
        f"{epochs} epochs. Accuracy on {len(evaluation.dataset)} held-out photographs of {classes} classes: "
        f"[bold]{evaluate(network, evaluation):.1%}[/] (chance is {1 / classes:.1%})"
    )
    console.print(training.stats().verdict)


def _epochs_that_fit(epoch: Callable[[], Any]) -> int:
    """Return the number of epochs that take about the training time of the demo on this machine."""
    epoch()
    began = time.perf_counter()
    epoch()
    seconds = time.perf_counter() - began
    return max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, round(_TRAINING_SECONDS / seconds)))


def _compare(photos: Path, out: Path, rounds: int, console: Console) -> None:
    from stoker.benchmarks.comparison.bench import run_bench

    from .comparison.results import show

    dataset = out / "bench"
    if not (dataset / "dataset.json").exists():
        with tempfile.TemporaryDirectory(prefix="stoker-demo-") as scratch:
            replicate(photos, Path(scratch), _COPIES * len(photographs_in(photos)))
            stoker.convert(scratch, dataset, seed=0)
    with console.status("measuring the loaders in turns") as status:
        comparison = run_bench(
            dataset,
            ("torch", "tfdata", "dali"),
            out / "bench.json",
            rounds=rounds,
            workload=f"photographs as they are, {_COPIES} copies of each",
            report=status.update,
        )
    show(comparison, console)


if __name__ == "__main__":
    main()
