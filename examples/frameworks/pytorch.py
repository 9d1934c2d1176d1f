"""Train a small network on photographs with PyTorch.

python examples/frameworks/pytorch.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


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
    network = nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, loader.dataset.num_classes),
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for epoch in range(int(epochs)):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
