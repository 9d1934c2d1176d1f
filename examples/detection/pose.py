"""A top-down pose model (AP 0.83, 9 CPU s): python examples/detection/pose.py [SHARDS] [EPOCHS]."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import nn

import stoker
from stoker import augment
from stoker.augment import Normalize, ObjectCrop, RandomHorizontalFlip, from_heatmaps, heatmaps

HERE, SIZE = Path(__file__).parents[1], (128, 96)


def main(shards: str = "shards/coco", epochs: str = "150") -> None:
    torch.manual_seed(0)
    images = stoker.SourceOptions(images=HERE / "photos/train")
    stoker.convert(HERE / "objects.json", shards, overwrite=True, source_options=images)
    dataset = stoker.open(shards).select(objects="num_keypoints > 0", each="object")
    layers: list[nn.Module] = []
    for before, after, stride in ((3, 16, 2), (16, 32, 2), (32, 48, 2), (48, 48, 1)):
        layers += [nn.Conv2d(before, after, 5, stride, 2), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Upsample(scale_factor=2), nn.Conv2d(48, 3, 3, padding=1))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    options: Any = {"batch_size": 4, "output": "torch", "objects": "padded"}
    train = [ObjectCrop(SIZE, scale=0.2, degrees=20), RandomHorizontalFlip(), Normalize()]
    columns = ("image", "keypoints")
    loader = stoker.ImageLoader(dataset, shuffle=True, transforms=train, columns=columns, **options)
    for _ in range(int(epochs)):
        for images, points, _ in loader:
            maps, weights = map(torch.from_numpy, heatmaps(points[:, 0], SIZE))
            loss = (weights[..., None, None] * (model(images) - maps) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}  {loader.stats().verdict}")
    results: list[dict[str, Any]] = []
    options |= {"transforms": [ObjectCrop(SIZE), Normalize()]}
    columns = ("image", "to_source", "image_id", "box_labels")
    for images, matrices, ids, labels, _ in stoker.ImageLoader(dataset, columns=columns, **options):
        predicted = from_heatmaps(model.eval()(images).detach())[:, None]
        swap = dataset.manifest.annotations.swap
        for points, matrix, image_id, label in zip(predicted, matrices, ids, labels[:, 0], strict=True):
            back = augment.keypoints_to_source(points, matrix, swap=swap, coco=True)[0]
            result = {"image_id": int(image_id), "category_id": dataset.category_ids[label]}
            results.append(result | {"keypoints": back.ravel().tolist(), "score": float(back[:, 2].mean())})
    truth = COCO(HERE / "objects.json")
    evaluation = COCOeval(truth, truth.loadRes(results), "keypoints")
    evaluation.params.kpt_oks_sigmas = np.full(3, 0.1)  # COCO has 17, of people
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


main(*sys.argv[1:])
