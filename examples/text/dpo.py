"""Train a small language model to prefer short answers to long ones: direct preference optimisation.

The loss is from Rafailov et al., 2023. python examples/text/dpo.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import copy
import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

import stoker
from stoker.bucketing import PreferencePairs

SUMS = ((a, b) for a in range(10) for b in range(10))
PAIRS = [{"prompt": f"{a} + {b} = ", "chosen": f"{a + b}", "rejected": f"It is {a + b}."} for a, b in SUMS]


class Model(nn.Module):
    """A recurrent language model of bytes, and the logarithm of the probability of each completion."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.tokens, self.output = nn.Embedding(259, width), nn.Linear(width, 259)
        self.layers = nn.GRU(width, width, batch_first=True)

    def forward(self, ids: Tensor, completion: Tensor) -> Tensor:
        scores = self.output(self.layers(self.tokens(ids[:, :-1]))[0]).log_softmax(-1)
        chosen = scores.gather(2, ids[:, 1:, None])[..., 0]
        return (chosen * completion[:, 1:]).sum(1)


def main(shards: str = "shards/sums", epochs: str = "10", beta: float = 0.5) -> None:
    fields = ["prompt", "chosen", "rejected"]
    stoker.convert_text(iter(PAIRS), shards, fields=fields, tokenizer="bytes", overwrite=True)
    pairs = PreferencePairs(end_id=stoker.open(shards).token_id("[EOS]"), max_length=24)
    loader = stoker.TextLoader(shards, batch_size=20, batchify=pairs, shuffle=True, seed=0, output="torch")
    model = Model()
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(int(epochs)):
        for ids, _mask, completion in loader:  # the chosen answers, then the rejected ones
            chosen, rejected = (model(ids, completion) - reference(ids, completion)).chunk(2)
            loss = -logsigmoid(beta * (chosen - rejected)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
