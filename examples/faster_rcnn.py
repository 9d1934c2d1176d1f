"""Train and evaluate torchvision's Faster R-CNN: python examples/faster_rcnn.py [SHARDS] [EPOCHS]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.models.detection import fasterrcnn_resnet50_fpn

import stoker
from stoker.augment import RandomHorizontalFlip, Resize, ToDtype, to_source

HERE = Path(__file__).parent
SIDES = {"min_size": 320, "max_size": 533}  # of images, pixels; torchvision's references take 800 and 1333
RESIZE = [Resize(320, max_size=533), ToDtype("float32", scale=True)]  # so that the model resizes nothing
RAGGED: Any = {"batch_size": 2, "sizes": "ragged", "aspect_ratio_group_factor": 3, "output": "torch"}


def train(model: Any, dataset: stoker.Dataset, epochs: int) -> None:
    some = dataset.select(objects="not crowd and width >= 1 and height >= 1", where="num_objects > 0")
    options: Any = {"columns": ("image", "boxes", "box_labels"), "shuffle": True, "min_size": 1, **RAGGED}
    loader = stoker.ImageLoader(some, transforms=[RandomHorizontalFlip(), *RESIZE], **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)
    for _ in range(epochs):
        for images, boxes, labels in loader:
            targets = [{"boxes": b, "labels": n + 1} for b, n in zip(boxes, labels, strict=True)]  # 0 is none
            optimizer.zero_grad()
            (loss := sum(model(images, targets).values())).backward()
            optimizer.step()
        print(f"loss {loss.item():.3f}")


@torch.no_grad()
def predict(model: Any, dataset: stoker.Dataset) -> list[dict[str, Any]]:
    options, results = {"columns": ("image", "to_source", "source_size", "image_id"), **RAGGED}, []
    for images, *batch in stoker.ImageLoader(dataset, transforms=RESIZE, **options):
        for found, matrix, size, image_id in zip(model(images), *batch, strict=True):
            boxes = to_source(found["boxes"], matrix, size=size)
            for (x, y, right, bottom), n, score in zip(boxes, found["labels"], found["scores"], strict=True):
                one = {"image_id": int(image_id), "bbox": [x, y, right - x, bottom - y]}
                results += [one | {"category_id": dataset.category_ids[n - 1], "score": float(score)}]
    return results


def main(shards: str = "shards/coco", epochs: str = "1") -> None:
    stoker.convert(HERE / "objects.json", shards, images=HERE / "photos/train", overwrite=True)
    dataset = stoker.open(shards)
    model = fasterrcnn_resnet50_fpn(num_classes=len(dataset.classes) + 1, **SIDES)  # downloads weights
    train(model, dataset, int(epochs))
    truth = COCO(HERE / "objects.json")
    evaluation = COCOeval(truth, truth.loadRes(predict(model.eval(), dataset)), "bbox")
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


if __name__ == "__main__":
    main(*sys.argv[1:])
