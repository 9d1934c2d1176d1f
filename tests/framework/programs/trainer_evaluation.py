"""Trains and evaluates with transformers' Trainer on the ranks of torchrun; run by test_trainer_ranks.py.

torchrun trainer_evaluation.py SHARDS FOLDER

Rank r writes ``FOLDER/<r>.json``: the rows that it trained on, and the metrics.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments

import stoker
from stoker.augment import Normalize, Resize
from stoker.errors import ConfigError
from stoker.integrations import with_loaders

SHARDS, FOLDER = sys.argv[1], Path(sys.argv[2])


class Network(torch.nn.Module):
    """A linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3 * 8 * 8, 61)
        self.rows: list[int] = []

    def forward(self, image: Any, labels: Any, row: Any) -> dict[str, Any]:
        if self.training:
            self.rows += row.tolist()
        logits = self.linear(image.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits, "row": row}


def loader(last_batch: str) -> stoker.ImageLoader:
    return stoker.ImageLoader(
        SHARDS,
        batch_size=8,
        shuffle=True,
        last_batch=last_batch,
        output="torch",
        transforms=[Resize((8, 8)), Normalize()],
        columns=("image", "label", "row"),
        batch_as={"image": "image", "labels": "label", "row": "row"},
    )


def metrics(found: Any) -> dict[str, Any]:
    logits, rows = found.predictions
    right = logits.argmax(1) == found.label_ids
    return {"rows": sorted(rows.tolist()), "right": int(right.sum())}


network = Network()
arguments = TrainingArguments(
    str(FOLDER / "out"),
    num_train_epochs=1,
    per_device_eval_batch_size=3,  # not the loader's
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
    remove_unused_columns=False,
    save_strategy="no",
    dataloader_pin_memory=False,
)
trainer = with_loaders(Trainer)(
    network, arguments, train_dataset=loader("drop"), eval_dataset=loader("pad"), compute_metrics=metrics
)
trainer.train()
refused = ""
try:
    trainer.evaluate(loader("partial"))
except ConfigError as error:
    refused = str(error)
found = trainer.evaluate()
network.eval()
with torch.no_grad():
    whole = next(
        iter(
            stoker.ImageLoader(
                SHARDS,
                batch_size=61,
                ranks=stoker.Ranks(0, 1),
                output="torch",
                transforms=[Resize((8, 8)), Normalize()],
            )
        )
    )
    loss = torch.nn.functional.cross_entropy(network.linear(whole.image.flatten(1)), whole.label).item()
result = {"trained": network.rows, "found": found, "loss": loss, "refused": refused}
(FOLDER / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
