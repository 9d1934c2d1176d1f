"""DeepLab on shapes (mean IoU 0.52, 38 CPU s): python examples/detection/deeplab.py [SHARDS] [EPOCHS]."""

import sys

import numpy as np
import torch
from shapes import convert_shapes
from torch import nn
from torch.nn import functional as f

import stoker
from stoker.augment import Letterbox, Normalize, RandomResizedCrop, masks_to_source

SIZE = 129


class DeepLab(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for n, m in ((3, 16), (16, 32), (32, 48)):
            layers += [nn.Conv2d(n, m, 3, 2, 1), nn.BatchNorm2d(m), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.around = nn.ModuleList(nn.Conv2d(48, 24, 3, padding=r, dilation=r) for r in (1, 2, 4, 8))
        self.classify = nn.Conv2d(96, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.features(images)
        scores = self.classify(torch.cat([around(features) for around in self.around], dim=1).relu())
        return f.interpolate(scores, size=images.shape[2:], mode="bilinear")


def main(shards: str = "shards/shapes", epochs: str = "20") -> None:
    dataset, held_out, _ = convert_shapes(shards)
    model = DeepLab(1 + dataset.num_classes)  # 0 is the background
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    train, val = ([RandomResizedCrop(SIZE, scale=(0.4, 1)), Normalize()], [Letterbox(SIZE), Normalize()])
    options = {"batch_size": 8, "output": "torch", "columns": ("image", "segmentation")}
    loader = stoker.ImageLoader(dataset, shuffle=True, transforms=train, **options)
    for _ in range(int(epochs)):
        for images, masks in loader:
            loss = f.cross_entropy(model(images), masks.long(), ignore_index=255)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}  {loader.stats().verdict}")
    counts, classes = 0, 1 + dataset.num_classes
    options |= {"columns": ("image", "segmentation", "to_source", "source_size")}
    for images, masks, *batch in stoker.ImageLoader(held_out, transforms=val, **options):
        predicted = model.eval()(images).argmax(1)
        for mask, label, matrix, size in zip(predicted, masks, *batch, strict=True):
            found, truth = (masks_to_source(each, matrix, size, fill=255) for each in (mask, label))
            pairs = (truth.astype(int) * classes + found)[truth != 255]
            counts = counts + np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    iou = counts.diagonal() / (counts.sum(0) + counts.sum(1) - counts.diagonal())
    print(f"mean IoU {iou.mean():.3f} in pixels of the images")


main(*sys.argv[1:])
