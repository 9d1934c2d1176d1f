"""Train a small network on views of photographs without labels, as DINO does (Caron et al., 2021).

python examples/images/dino.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import torch
from torch import nn

import stoker
from stoker.augment import ColorJitter, Normalize, RandomHorizontalFlip, RandomResizedCrop, Views

PHOTOS = Path(__file__).parents[1] / "photos" / "train"
AFTER = [RandomHorizontalFlip(), ColorJitter(0.4, 0.4, 0.2, 0.1), Normalize()]


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    stoker.convert(PHOTOS, shards, seed=0)  # leaves a finished dataset as it is
    views = {
        "large": Views(2, [RandomResizedCrop(96, scale=(0.4, 1)), *AFTER]),
        "small": Views(4, [RandomResizedCrop(48, scale=(0.05, 0.4)), *AFTER]),
    }
    loader = stoker.ImageLoader(
        shards, batch_size=36, shuffle=True, seed=0, output="torch", transforms=views, columns=tuple(views)
    )
    convolutions = nn.Conv2d(3, 32, 5, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU()
    student = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 128))
    teacher, center = copy.deepcopy(student), None
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3)
    for epoch in range(int(epochs)):
        for large, small in loader:
            with torch.no_grad():
                outputs = teacher(large.flatten(0, 1)).unflatten(0, large.shape[:2])
                mean = outputs.mean((0, 1))
                center = mean if center is None else center.lerp(mean, 0.1)
                targets = ((outputs - center) / 0.04).softmax(-1)
            logs = [(student(view) / 0.1).log_softmax(-1) for view in (*large, *small)]
            pairs = [(t, s) for t in range(2) for s in range(len(logs)) if t != s]
            loss = sum(-(targets[t] * logs[s]).sum(-1).mean() for t, s in pairs) / len(pairs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.data.lerp_(fast.data, 0.01)
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
