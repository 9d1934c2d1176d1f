"""Train a small causal transformer on the answers of GSM8K, in packed rows: supervised fine-tuning.

python examples/text/sft.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import stoker

TEXT = Path(__file__).with_name("gsm8k-1000.jsonl.gz")


class Transformer(nn.Module):
    """A language model whose tokens see only earlier tokens of their own sequence."""

    def __init__(self, vocabulary: int, length: int, width: int = 64) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden = (segments[:, :, None] != segments[:, None]) | (positions[:, :, None] < positions[:, None])
        x = self.tokens(ids) + self.positions(positions)
        return self.output(self.layers(x, hidden.repeat_interleave(2, dim=0)))  # a mask for each head


def main(shards: str = "shards/sft", epochs: str = "3", length: int = 256) -> None:
    training = stoker.Training(train_on="answer", layout="{question}\n{answer}")
    stoker.convert_text(
        TEXT, shards, fields=["question", "answer"], tokenizer="bytes", eos=True, training=training
    )
    loader = stoker.TextLoader(
        stoker.open(shards).select(f"text_length <= {length}"),
        batch_size=4, pack=length, shuffle=True, seed=0, output="torch",
        columns=("input_ids", "position_ids", "segment_ids", "labels"),
    )  # fmt: skip
    model = Transformer(259, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(int(epochs)):
        for ids, positions, segments, labels in loader:
            logits = model(ids, positions, segments)
            # The labels of questions and of padding are -100, which cross_entropy ignores.
            loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
