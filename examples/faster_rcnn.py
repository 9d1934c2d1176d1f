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
from stoker.augment import load_recipe, model_arguments, to_source

HERE = Path(__file__).parent


def train(model: Any, dataset: stoker.Dataset, epochs: int) -> None:
    some = dataset.select(objects="not crowd and width >= 1 and height >= 1", where="num_objects > 0")
    options: Any = {"transforms": load_recipe("coco-hflip"), "columns": ("image", "boxes", "box_labels")}
    loader = stoker.ImageLoader(some, batch_size=2, shuffle=True, output="torch", min_size=1, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)
    for _ in range(epochs):
        for images, boxes, labels in loader:
            assert model.transform(list(images))[0].tensors.shape == images.shape, "resized once more"
            targets = [{"boxes": b, "labels": n + 1} for b, n in zip(boxes, labels, strict=True)]  # 0 is none
            optimizer.zero_grad()
            loss = sum(model(list(images), targets).values())
            loss.backward()
            optimizer.step()
        print(f"loss {loss.item():.3f}")


@torch.no_grad()
def predict(model: Any, dataset: stoker.Dataset) -> list[dict[str, Any]]:
    options: Any = {"columns": ("image", "to_source", "source_size", "image_id"), "output": "torch"}
    results, transforms = [], load_recipe("coco-val")
    for images, *batch in stoker.ImageLoader(dataset, batch_size=2, transforms=transforms, **options):
        for found, matrix, size, image_id in zip(model(list(images)), *batch, strict=True):
            boxes = to_source(found["boxes"], matrix, size=size)
            for (x, y, right, bottom), n, score in zip(boxes, found["labels"], found["scores"], strict=True):
                one = {"image_id": int(image_id), "category_id": dataset.category_ids[n - 1]}
                results += [one | {"score": float(score), "bbox": [x, y, right - x, bottom - y]}]
    return results


def main(shards: str = "shards/coco", epochs: str = "1") -> None:
    stoker.convert(HERE / "objects.json", shards, images=HERE / "photos/train", overwrite=True)
    dataset = stoker.open(shards)
    model = fasterrcnn_resnet50_fpn(num_classes=len(dataset.classes) + 1, **model_arguments("coco-hflip"))
    train(model, dataset, int(epochs))
    truth, found = COCO(HERE / "objects.json"), predict(model.eval(), dataset)
    evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


if __name__ == "__main__":
    main(*sys.argv[1:])
