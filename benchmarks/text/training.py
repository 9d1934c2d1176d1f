"""Training of a small transformer on text, with random batches, buckets and packed rows.

    python -m stoker.benchmarks.text.training [TEXT.jsonl] --epochs 3 --json out.json --png out.png

Each way of batching trains the same network from the same weights, with the same mean number of samples in a
step. The ways take turns, an epoch at a time. In packed rows attention stays within each sequence, so that a
sequence has the same loss packed and alone; both are computed. Rates count tokens without padding.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

import stoker
from stoker.pipeline.text.token_reader import text_lengths

from ..measuring import allowed_cores, describe, make_parser, write_json

TEXT = Path(stoker.__file__).parents[2] / "examples" / "text" / "gsm8k-1000.jsonl.gz"
WAYS = ("random", "buckets", "packed")
_VOCABULARY = 1024
_BATCH = 32
_SMOOTH = 400  # samples


class Transformer(nn.Module):
    """A decoder with norms before its layers: token ids (B, T) int64 to logits (B, T, vocabulary) float32."""

    def __init__(
        self, vocabulary: int, positions: int, width: int = 64, layers: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList([_Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, ids: Any, position_ids: Any, cu_seqlens: Any = None) -> Any:
        """Return logits; with ``cu_seqlens`` a token sees only earlier tokens of its own sequence."""
        lengths = None if cu_seqlens is None else [n for n in cu_seqlens.diff().tolist() if n]
        hidden = self.tokens(ids) + self.positions(position_ids)
        for block in self.blocks:
            hidden = block(hidden, lengths)
        return self.output(self.norm(hidden))


class _Block(nn.Module):
    """Attention and a feed-forward network, each with a norm before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Any, lengths: list[int] | None) -> Any:
        batch, length, width = hidden.shape
        parts = self.inputs(self.before[0](hidden)).view(batch, length, 3, self.heads, -1)
        if lengths is None:
            # Padding is on the right, so a causal mask hides it from all tokens.
            seen = _attention(parts)
        else:
            # As kernels of variable-length attention do, this computes no pair of tokens across sequences.
            flat = parts.flatten(0, 1)[None].split(lengths, dim=1)
            seen = torch.cat([_attention(sequence) for sequence in flat], dim=1)
        hidden = hidden + self.merge(seen.reshape(batch, length, width))
        return hidden + self.feed(self.before[1](hidden))


def _attention(parts: Any) -> Any:
    """Return causal attention: (B, T, 3, heads, C) queries, keys and values to (B, T, heads, C)."""
    query, key, value = parts.permute(2, 0, 3, 1, 4)
    seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return seen.transpose(1, 2)


def loss_of(network: nn.Module, batch: Any) -> Any:
    """Return the sum of the losses of all predicted tokens, and their number."""
    logits = network(batch.input_ids, batch.position_ids, getattr(batch, "cu_seqlens", None))
    labels = batch.labels[:, 1:]
    total = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels.flatten(), reduction="sum")
    return total, int((labels >= 0).sum())


def counts(batch: Any) -> tuple[int, int]:
    """Return the numbers of sequences and of tokens in a batch, without padding."""
    if hasattr(batch, "segment_ids"):
        return int(batch.segment_ids.max(dim=1).values.sum()), int((batch.segment_ids > 0).sum())
    return len(batch.input_ids), int(batch.lengths.sum())


def loaders(dataset: Path, way: str, **options: Any) -> stoker.TextLoader:
    """Return the loader of one way of batching; a step has :data:`_BATCH` sequences on average."""
    columns = ["input_ids", "position_ids", "labels"]
    if way == "packed":
        rows = max(1, round(_BATCH * float(text_lengths(stoker.open(dataset)).mean()) / options["pack"]))
        return stoker.TextLoader(
            dataset,
            batch_size=rows,
            output="torch",
            columns=[*columns, "segment_ids", "cu_seqlens"],
            **options,
        )
    del options["pack"]
    buckets = {"random": None, "buckets": 8}[way]
    return stoker.TextLoader(
        dataset, batch_size=_BATCH, buckets=buckets, output="torch", columns=[*columns, "lengths"], **options
    )


class TrainingRun:
    """The training of one way of batching, an epoch at a time so that the ways can take turns."""

    def __init__(self, dataset: Path, way: str, *, pack: int, seed: int) -> None:
        torch.manual_seed(seed)
        vocabulary = int(stoker.open(dataset).manifest.options["vocab_size"] or 0)
        self.network = Transformer(vocabulary, pack)
        self._optimizer = torch.optim.AdamW(self.network.parameters(), lr=3e-3)
        self._loader = loaders(dataset, way, pack=pack, shuffle=True, seed=seed)
        self._steps: list[tuple[int, int, int, int, float]] = []
        self._speeds: list[float] = []

    def train(self) -> None:
        tokens, began = 0, perf_counter()
        for batch in self._loader:
            total, predicted = loss_of(self.network, batch)
            self._optimizer.zero_grad()
            (total / predicted).backward()
            self._optimizer.step()
            sequences, real = counts(batch)
            self._steps.append((sequences, real, batch.input_ids.numel(), predicted, float(total.detach())))
            tokens += real
        self._speeds.append(tokens / (perf_counter() - began))

    def results(self) -> dict[str, Any]:
        sequences, tokens, padded, predicted, losses = map(list, zip(*self._steps, strict=True))
        return {
            "samples": np.cumsum(sequences).tolist(),
            "losses": losses,
            "predicted": predicted,
            "padding_percent": 100 * (1 - sum(tokens) / sum(padded)),
            "tokens_per_second": median(self._speeds),
            "slowest_and_fastest": [min(self._speeds), max(self._speeds)],
            "shapes": len(self._loader.shapes()),
            "waited_share": self._loader.stats().waited_share,
        }


@torch.inference_mode()
def mean_loss(network: nn.Module, dataset: Path, way: str, pack: int) -> float:
    """Return the mean loss of the tokens of a whole dataset."""
    total, predicted = 0.0, 0
    for batch in loaders(dataset, way, pack=pack):
        some, number = loss_of(network, batch)
        total, predicted = total + float(some), predicted + number
    return total / predicted


def agreement(network: nn.Module, dataset: Path, pack: int) -> dict[str, float]:
    """Return the mean loss of the same sequences with the same weights, padded and packed."""
    return {way: mean_loss(network, dataset, way, pack) for way in ("buckets", "packed")}


def learn_tokenizer(text: Path, field: str, path: Path) -> None:
    """Write a tokenizer file with byte pairs that are learned from the text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    data = text.read_bytes()
    lines = (gzip.decompress(data) if text.suffix == ".gz" else data).decode().splitlines()
    texts = [json.loads(line)[field] for line in lines]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY, special_tokens=["[PAD]"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))


def plot(runs: dict[str, dict[str, Any]], path: Path, title: str) -> None:
    """Write a picture of the loss against samples seen, and of the tokens of text per second."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(5, 3))
    colors = dict(zip(WAYS, ("#8c8c8c", "#4c72b0", "#dd8452"), strict=True))
    for way, run in runs.items():
        left.plot(*_smoothed(run), color=colors[way], label=way)
    left.set(xlabel="samples seen", ylabel=f"loss, nats per token (mean of {_SMOOTH} samples)")
    left.legend()
    bars = right.bar(
        list(runs), [run["tokens_per_second"] for run in runs.values()], color=[colors[way] for way in runs]
    )
    labels = [
        f"{run['tokens_per_second']:,.0f}\n{run['padding_percent']:.1f} % padding" for run in runs.values()
    ]
    right.bar_label(bars, labels)
    right.margins(y=0.18)
    right.set(ylabel="tokens of text per second, training")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def _smoothed(run: dict[str, Any]) -> tuple[Any, Any]:
    """Return the moving mean of the loss over :data:`_SMOOTH` samples, weighted by tokens."""
    samples = np.array(run["samples"])
    window = np.ones(max(1, _SMOOTH * len(samples) // int(samples[-1])))
    sums, numbers = (np.convolve(run[name], window, "valid") for name in ("losses", "predicted"))
    return samples[len(window) - 1 :], sums / numbers


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line; print a line for each way."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("text", nargs="?", type=Path, default=TEXT, help="JSON Lines, .gz or not")
    parser.add_argument("--field", default="answer", help="field of the samples")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--png", type=Path)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder, "shards")
        learn_tokenizer(args.text, args.field, Path(folder, "tokenizer.json"))
        stoker.convert_text(
            args.text,
            shards,
            tokenizer=Path(folder, "tokenizer.json"),
            fields=[args.field],
            val="10%",
            seed=0,
        )
        document = compare(shards, epochs=args.epochs, seed=args.seed)
    write_json(args.json, document)
    if args.png:
        plot(document["runs"], args.png, f"{args.text.name}, {document['machine']['cpu']}")


def compare(shards: Path, *, epochs: int, seed: int) -> dict[str, Any]:
    """Train all ways and return all results."""
    longest = max(int(text_lengths(stoker.open(shards / split)).max()) for split in ("train", "val"))
    pack = -(-max(longest, 512) // 64) * 64
    started = {way: TrainingRun(shards / "train", way, pack=pack, seed=seed) for way in WAYS}
    for _ in range(epochs):
        for run in started.values():
            run.train()
    runs = {way: run.results() for way, run in started.items()}
    agreements = {way: agreement(run.network, shards / "val", pack) for way, run in started.items()}
    for way in WAYS:
        _print_way(way, runs[way], agreements[way])
    return {
        "machine": describe(allowed_cores()),
        "torch": torch.__version__,
        "pack": pack,
        "epochs": epochs,
        "runs": runs,
        "agreement": agreements,
    }


def _print_way(way: str, run: dict[str, Any], same: dict[str, float]) -> None:
    differs = abs(same["packed"] - same["buckets"])
    print(
        f"{way:8} {run['tokens_per_second']:7,.0f} tokens/s, padding {run['padding_percent']:5.2f} %, "
        f"held-out loss {same['buckets']:.4f}, {differs:.1e} apart packed and padded"
    )


if __name__ == "__main__":
    main()
