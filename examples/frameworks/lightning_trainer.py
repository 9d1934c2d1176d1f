"""Train a small network on photographs with Lightning; run it again with more epochs to continue.

python examples/frameworks/lightning_trainer.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


class Classifier(lightning.LightningModule):
    def __init__(self, classes: int) -> None:
        super().__init__()
        convolutions = nn.Conv2d(3, 32, 5, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU()
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)
        self.network = nn.Sequential(*convolutions, *head)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    if not Path(shards, "dataset.json").exists():
        stoker.convert(PHOTOS, shards, seed=0)
    loader = stoker.ImageLoader(
        shards,
        batch_size=36,
        shuffle=True,
        seed=0,
        output="torch",
        transforms=[RandomResizedCrop(96), RandomHorizontalFlip(), Normalize()],
    )
    checkpoints = ModelCheckpoint(f"{shards}-lightning", save_last=True)
    trainer = lightning.Trainer(max_epochs=int(epochs), logger=False, callbacks=[checkpoints])
    # Lightning saves the state_dict of the loader with the model, at any step, and loads it again.
    last = Path(f"{shards}-lightning", "last.ckpt")
    model = Classifier(loader.dataset.num_classes)
    trainer.fit(model, loader, ckpt_path=last if last.exists() else None)
    print(loader.stats().verdict)


if __name__ == "__main__":
    main(*sys.argv[1:])
