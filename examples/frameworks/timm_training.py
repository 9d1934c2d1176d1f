"""Train a model of timm on photographs, as train.py of timm does.

python examples/frameworks/timm_training.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2

import stoker
from stoker.augment import CenterCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize

PHOTOS = Path(__file__).parents[1] / "photos"


def create_loader(split: str, shards: str, **options: Any) -> stoker.ImageLoader:
    folder = Path(shards, split)
    if not (folder / "dataset.json").exists():
        stoker.convert(PHOTOS / split, folder, seed=0)
    return stoker.ImageLoader(folder, batch_size=36, output="torch", **options)


def train_one_epoch(model: torch.nn.Module, loader: stoker.ImageLoader, optimizer: Any) -> None:
    model.train()
    for images, target in loader:
        loss = torch.nn.functional.cross_entropy(model(images), target, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model: torch.nn.Module, loader: stoker.ImageLoader) -> float:
    model.eval()
    hits = sum(int((model(images).argmax(1) == target).sum()) for images, target in loader)
    return 100 * hits / len(loader.dataset)


def main(shards: str = "shards", epochs: str = "2") -> None:
    train_transforms = [RandomResizedCrop(96), RandomHorizontalFlip(), Normalize()]
    train = create_loader("train", shards, shuffle=True, seed=0, transforms=train_transforms)
    val = create_loader("val", shards, transforms=[Resize(110), CenterCrop(96), Normalize()])
    model = timm.create_model("resnet10t", num_classes=train.dataset.num_classes)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3)
    scheduler, _ = create_scheduler_v2(optimizer, num_epochs=int(epochs))
    for epoch in range(int(epochs)):
        train_one_epoch(model, train, optimizer)
        scheduler.step(epoch + 1)
        print(f"epoch {epoch}  top-1 {validate(model, val):.1f}%  {train.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
