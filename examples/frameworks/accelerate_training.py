"""Train a small network on photographs with Accelerate; run it again with more epochs to continue.

accelerate launch examples/frameworks/accelerate_training.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    accelerator = Accelerator()
    with accelerator.main_process_first():
        if not Path(shards, "dataset.json").exists():
            stoker.convert(PHOTOS, shards, seed=0)
    loader = stoker.ImageLoader(
        shards,
        batch_size=36,
        shuffle=True,
        seed=0,
        output="torch",
        device=accelerator.device,
        last_batch="drop",
        transforms=[RandomResizedCrop(96), RandomHorizontalFlip(), Normalize()],
    )
    convolutions = nn.Conv2d(3, 32, 5, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU()
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, loader.dataset.num_classes)
    network = nn.Sequential(*convolutions, *head)
    # The loader knows its rank and device, so it is not prepared; it is only saved in the checkpoint.
    network, optimizer = accelerator.prepare(network, torch.optim.AdamW(network.parameters(), lr=2e-3))
    accelerator.register_for_checkpointing(loader)
    checkpoint = Path(f"{shards}-accelerate")
    if checkpoint.exists():
        accelerator.load_state(str(checkpoint))
    for epoch in range(loader.state_dict()["epoch"], int(epochs)):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.save_state(str(checkpoint))
        accelerator.print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
