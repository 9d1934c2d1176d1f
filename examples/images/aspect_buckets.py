"""Train a small network to predict the noise in photographs of many aspect ratios, as SDXL does.

python examples/images/aspect_buckets.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


class Denoiser(nn.Module):
    """Predicts the noise in images from the images, the level of the noise, their height and width."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.condition = nn.Linear(3, width)  # the level, the height and the width
        self.middle = nn.Sequential(nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU())

    def forward(self, noisy: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        sides = torch.tensor(noisy.shape[2:]).expand(len(noisy), 2) / 64
        condition = self.condition(torch.cat((level[:, None], sides), dim=1))
        return self.last(self.middle(self.first(noisy) + condition[:, :, None, None]))


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    stoker.convert(PHOTOS, shards, seed=0)  # leaves a finished dataset as it is
    loader = stoker.ImageLoader(
        shards, batch_size=12, shuffle=True, seed=0, output="torch", columns=("image",),
        transforms=[RandomHorizontalFlip(), Normalize(mean=(0.5,) * 3, std=(0.5,) * 3)],
        sizes=stoker.AspectBuckets(area=64 * 64, multiple=8),
    )  # fmt: skip
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(int(epochs)):
        shapes = set()
        for (images,) in loader:
            shapes.add(tuple(images.shape[2:]))
            level, noise = torch.rand(len(images)), torch.randn_like(images)
            share = level[:, None, None, None]
            loss = (model((1 - share) * images + share * noise, level) - noise).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {len(shapes)} shapes  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
