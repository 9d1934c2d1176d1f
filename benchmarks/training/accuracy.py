"""The accuracy of a small network with batches of Stoker and of torch's DataLoader.

The program trains the network on the same folder of photographs with both loaders and several seeds, and
prints the accuracies on held-out photographs:

    python -m stoker.benchmarks.training.accuracy --source examples/photos --seeds 3
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import stoker
from stoker.augment import CenterCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize

from ..measuring import allowed_cores, describe, make_parser, write_json
from ..peers.pixels import normalised, random_resized_crop

IMAGE_SIZE = 112
_SCALE = (0.35, 1.0)


def make_network(num_classes: int) -> nn.Module:
    """Return four strided convolutions and a linear layer: (N, 3, 112, 112) float32 to (N, num_classes)."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (24, 48, 96, 192):
        layers += [
            nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


def train(
    network: nn.Module,
    loader: Iterable[Any],
    *,
    epochs: int,
    steps_per_epoch: int,
    after_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train with AdamW and a one-cycle schedule; ``after_step`` gets the step and its loss."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=epochs * steps_per_epoch
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    network.train()
    step = 0
    for _ in range(epochs):
        for images, labels in loader:
            loss = criterion(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            after_step(step, loss.item())


@torch.inference_mode()
def evaluate(network: nn.Module, loader: Iterable[Any]) -> float:
    """Return the share of images whose class the network predicts, 0 to 1."""
    network.eval()
    hits = total = 0
    for images, labels in loader:
        hits += int((network(images).argmax(1) == labels).sum())
        total += len(labels)
    return float(hits / total)


def stoker_loaders(
    train_set: str | Path, held_out: str | Path, batch_size: int, seed: int
) -> tuple[Any, Any]:
    """Return loaders of Stoker for training and for evaluation."""
    training = stoker.ImageLoader(
        train_set,
        batch_size=batch_size,
        shuffle=True,
        seed=seed,
        output="torch",
        transforms=[RandomResizedCrop(IMAGE_SIZE, scale=_SCALE), RandomHorizontalFlip(), Normalize()],
        last_batch="drop",
    )
    evaluation = stoker.ImageLoader(
        held_out,
        batch_size=batch_size,
        output="torch",
        transforms=[Resize(IMAGE_SIZE * 8 // 7), CenterCrop(IMAGE_SIZE), Normalize()],
    )
    return training, evaluation


class PhotoFolder(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Images of a folder with one directory for each class, decoded and augmented with Pillow."""

    def __init__(self, root: str | Path, *, training: bool) -> None:
        classes = sorted(folder.name for folder in Path(root).iterdir() if folder.is_dir())
        self._files = [
            (file, label)
            for label, name in enumerate(classes)
            for file in sorted(Path(root, name).glob("*.jpg"))
        ]
        self._training = training

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file, label = self._files[index]
        image = Image.open(file).convert("RGB")
        image = _random_crop(image) if self._training else _centre_crop(image)
        return torch.from_numpy(normalised(np.asarray(image))), label


def _random_crop(image: Image.Image) -> Image.Image:
    draws = random.Random(int(torch.randint(1 << 31, ())))  # noqa: S311 - crops, not secrets
    top, left, height, width = random_resized_crop(draws, image.height, image.width, _SCALE)
    crop = image.crop((left, top, left + width, top + height))
    resized = crop.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BILINEAR)
    return resized.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draws.random() < 0.5 else resized


def _centre_crop(image: Image.Image) -> Image.Image:
    scale = IMAGE_SIZE * 8 // 7 / min(image.size)
    size = int(image.width * scale), int(image.height * scale)
    resized = image.resize(size, Image.Resampling.BILINEAR)
    left, top = (round((side - IMAGE_SIZE) / 2) for side in size)
    return resized.crop((left, top, left + IMAGE_SIZE, top + IMAGE_SIZE))


def torch_loaders(train_set: str | Path, held_out: str | Path, batch_size: int, seed: int) -> tuple[Any, Any]:
    """Return DataLoaders of torch with Pillow for training and for evaluation."""
    generator = torch.Generator().manual_seed(seed)
    training = torch.utils.data.DataLoader(
        PhotoFolder(train_set, training=True),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
        generator=generator,
    )
    evaluation = torch.utils.data.DataLoader(PhotoFolder(held_out, training=False), batch_size=batch_size)
    return training, evaluation


def _accuracy(loaders: tuple[Any, Any], num_classes: int, epochs: int, seed: int) -> float:
    torch.manual_seed(seed)
    network = make_network(num_classes)
    train(network, loaders[0], epochs=epochs, steps_per_epoch=len(loaders[0]))
    accuracy: float = evaluate(network, loaders[1])
    return accuracy


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("--source", type=Path, required=True, help="a folder with train/CLASS and val/CLASS")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=36)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shards = [Path(folder, name) for name in ("train", "val")]
        for shard in shards:
            stoker.convert(options.source / shard.name, shard, seed=0)
        num_classes = stoker.open(shards[0]).num_classes
        results: dict[str, list[float]] = {"stoker": [], "torch DataLoader": []}
        for seed in range(options.seeds):
            loaders = {
                "stoker": stoker_loaders(shards[0], shards[1], options.batch_size, seed),
                "torch DataLoader": torch_loaders(
                    options.source / "train", options.source / "val", options.batch_size, seed
                ),
            }
            for name, pair in loaders.items():
                results[name].append(_accuracy(pair, num_classes, options.epochs, seed))
                print(f"seed {seed}  {name:18} {results[name][-1]:.3f}", flush=True)
    for name, values in results.items():
        spread = statistics.stdev(values) if len(values) > 1 else float(np.nan)
        print(f"{name:18} mean {statistics.mean(values):.3f}  standard deviation {spread:.3f}")
    document = {"machine": describe(allowed_cores()), "epochs": options.epochs, "accuracy": results}
    write_json(options.json, document)


if __name__ == "__main__":
    main()
