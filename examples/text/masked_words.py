"""Train a small encoder to find masked tokens, as BERT does (Devlin et al., 2019).

python examples/text/masked_words.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import stoker
from stoker.bucketing import MaskTokens

TEXT = Path(__file__).with_name("gsm8k-1000.jsonl.gz")


class Encoder(nn.Module):
    """A network that reads a text in both directions."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.layers(self.words(ids))[0] @ self.words.weight.T / 8


def main(shards: str = "shards/words", epochs: str = "5") -> None:
    questions = [json.loads(line)["question"] for line in gzip.decompress(TEXT.read_bytes()).splitlines()]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(questions, vocab_size=500, special_tokens=["[PAD]"])
    tokenizer.save("pieces.json")
    stoker.convert_text(TEXT, shards, fields=["question"], tokenizer="pieces.json")
    short = stoker.open(shards).select("question_length <= 80")
    words = int(short.manifest.options["vocab_size"])
    # The id of [MASK] follows the ids of the pieces of words. Each epoch masks others.
    loader = stoker.TextLoader(
        short, batch_size=32, shuffle=True, seed=0, output="torch", columns=("input_ids", "labels"),
        labels=MaskTokens(0.15, mask_id=words, vocabulary=words + 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW((model := Encoder(words + 1)).parameters(), lr=5e-3)
    for epoch in range(int(epochs)):
        for ids, labels in loader:
            loss = cross_entropy(model(ids).flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
