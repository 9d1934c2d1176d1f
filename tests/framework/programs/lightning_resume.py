"""Trains and resumes with Lightning on several processes; run by test_lightning_resume.py.

python lightning_resume.py SHARDS FOLDER DEVICES JOBS

``JOBS`` is a JSON list of fits, one after the other: each has a ``name``, a ``batch_size``, and the file
``resume`` of a checkpoint or null. Each process writes ``FOLDER/<name>-<rank>.json``: the rows of each epoch,
or the error.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import stoker
from stoker.augment import Normalize, Resize
from stoker.errors import CheckpointError
from stoker.pipeline.adapters.torch import check_resume

SHARDS, FOLDER, DEVICES = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


class Module(lightning.LightningModule):
    """A linear classifier that writes down the rows of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3 * 8 * 8, 61)
        self.rows: dict[int, list[int]] = {}

    def on_train_start(self) -> None:
        check_resume(self.trainer.train_dataloader, self.trainer.global_step)

    def training_step(self, batch: Any) -> Any:
        self.rows.setdefault(self.trainer.current_epoch, []).extend(batch.row.tolist())
        return torch.nn.functional.cross_entropy(self.linear(batch.image.flatten(1)), batch.label)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Data(lightning.LightningDataModule):
    """Makes the loader in the process that trains."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self) -> Any:
        return stoker.ImageLoader(
            SHARDS,
            batch_size=self.batch_size,
            shuffle=True,
            last_batch="pad",
            output="torch",
            columns=("image", "label", "row"),
            transforms=[Resize((8, 8)), Normalize()],
            num_threads=1,
        )


def fit(name: str, batch_size: int, resume: str | None) -> None:
    module = Module()
    save = ModelCheckpoint(FOLDER / name, every_n_train_steps=1, save_top_k=-1, filename="{step}")
    trainer = lightning.Trainer(
        max_epochs=2,
        callbacks=[save],
        accelerator="cpu",
        devices=DEVICES,
        strategy="ddp" if DEVICES > 1 else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    found: dict[str, Any] = {}
    try:
        trainer.fit(module, datamodule=Data(batch_size), ckpt_path=resume, weights_only=False)
        found["rows"] = module.rows
    except CheckpointError as error:
        found["error"] = error.message
    (FOLDER / f"{name}-{trainer.global_rank}.json").write_text(json.dumps(found))


warnings.simplefilter("ignore")
for job in json.loads(sys.argv[4]):
    fit(**job)
