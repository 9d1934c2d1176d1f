"""Train a bag of words to tell from a question of GSM8K whether its answer takes many steps.

python examples/text/text_classifier.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from torch import nn
from torch.nn.functional import cross_entropy

import stoker
from stoker import ClassBalanced

TEXT = Path(__file__).with_name("gsm8k-1000.jsonl.gz")


def main(shards: str = "shards/steps", epochs: str = "10") -> None:
    with gzip.open(TEXT, "rt") as lines, Path("steps.jsonl").open("w") as file:
        rows = list(map(json.loads, lines))
        for row in rows:
            kind = "few" if row["answer"].count("\n") < 4 else "many"
            print(json.dumps({"question": row["question"], "steps": kind}), file=file)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([row["question"] for row in rows], vocab_size=2000)
    tokenizer.save("pieces.json")
    options = {"label": "steps", "tokenizer": "pieces.json", "val": "20%"}
    stoker.convert_text("steps.jsonl", shards, fields=["question"], **options)
    common = {"batch_size": 25, "output": "torch", "columns": ("input_ids", "attention_mask", "label")}
    # Half of a batch are questions with few steps, and half with many.
    train = stoker.TextLoader(f"{shards}/train", seed=0, sampler=ClassBalanced(), **common)
    val = stoker.TextLoader(f"{shards}/val", **common)
    words = nn.Embedding(int(train.dataset.manifest.options["vocab_size"]), 32)
    output = nn.Linear(32, train.dataset.num_classes)
    optimizer = torch.optim.AdamW([*words.parameters(), *output.parameters()], lr=5e-3)

    def classify(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        seen = mask[..., None].float()
        return output((words(ids) * seen).sum(1) / seen.sum(1))

    for epoch in range(int(epochs)):
        for ids, mask, label in train:
            loss = cross_entropy(classify(ids, mask), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = sum(int((classify(ids, mask).argmax(1) == label).sum()) for ids, mask, label in val)
        share = right / len(val.dataset)
        print(f"epoch {epoch}  loss {loss.item():.3f}  {share:.0%} right  {train.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
