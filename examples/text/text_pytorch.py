"""Train a small language model with PyTorch on batches of nearly equal length.

python examples/text/text_pytorch.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

import stoker

TEXT = Path(__file__).with_name("gsm8k-1000.jsonl.gz")


def main(shards: str = "shards/text", epochs: str = "2") -> None:
    if not Path(shards, "dataset.json").exists():
        stoker.convert_text(TEXT, shards, tokenizer="bytes", fields=("answer",), seed=0)
    loader = stoker.TextLoader(
        shards,
        shuffle=True,
        seed=0,
        output="torch",
        columns=("input_ids", "labels"),
        batch_size=stoker.MaxTokens(8192),
        buckets=stoker.Buckets(8, pad_to_multiple_of=8),
    )
    print(f"batches have one of the shapes {loader.shapes()}")
    vocabulary = int(loader.dataset.manifest.options["vocab_size"])
    embedding = nn.Embedding(vocabulary, 32)
    convolution = nn.Conv1d(32, 64, 4)
    output = nn.Linear(64, vocabulary)
    weights = [weight for part in (embedding, convolution, output) for weight in part.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-2)
    for epoch in range(int(epochs)):
        for ids, labels in loader:
            # A token sees the three tokens before it, and no later ones.
            seen = nn.functional.pad(embedding(ids).transpose(1, 2), (3, 0))
            logits = output(convolution(seen).relu().transpose(1, 2))
            # The labels of padding and of each first token are -100, which cross_entropy ignores.
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
