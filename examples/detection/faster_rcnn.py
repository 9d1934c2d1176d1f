"""Faster R-CNN on shapes (AP 0.73, 53 CPU s): python examples/detection/faster_rcnn.py [SHARDS] [EPOCHS]."""

import sys

import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from shapes import convert_shapes
from small_rcnn import SIDE, small_rcnn

import stoker
from stoker.augment import RandomHorizontalFlip, Resize, ToDtype, to_source

RESIZE = [Resize(SIDE, max_size=2 * SIDE), ToDtype("float32", scale=True)]  # the model resizes nothing more
OPTIONS = {"batch_size": 8, "sizes": stoker.Ragged(aspect_ratio_group_factor=3), "output": "torch"}


def train(model: torch.nn.Module, dataset: stoker.Dataset, epochs: int) -> None:
    annotated = dataset.select(objects="not crowd and width >= 1 and height >= 1", where="num_objects > 0")
    options = {
        "columns": ("image", "boxes", "box_labels"),
        "shuffle": True,
        "objects": stoker.Objects(min_size=1),
        **OPTIONS,
    }
    loader = stoker.ImageLoader(annotated, transforms=[RandomHorizontalFlip(), *RESIZE], **options)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(epochs):
        for images, boxes, labels in loader:
            targets = [{"boxes": b, "labels": n + 1} for b, n in zip(boxes, labels, strict=True)]  # 0 is none
            optimizer.zero_grad()
            (loss := sum(model(images, targets).values())).backward()
            optimizer.step()
        print(f"loss {loss.item():.3f}  {loader.stats().verdict}", flush=True)


@torch.no_grad()
def predict(model: torch.nn.Module, dataset: stoker.Dataset) -> list[dict]:
    options, results = {"columns": ("image", "to_source", "source_size", "image_id"), **OPTIONS}, []
    for images, *batch in stoker.ImageLoader(dataset, transforms=RESIZE, **options):
        for output, matrix, size, image_id in zip(model(images), *batch, strict=True):
            labels, scores = output["labels"], output["scores"]
            boxes = to_source(output["boxes"], matrix, size=size)
            for (x, y, right, bottom), n, score in zip(boxes, labels, scores, strict=True):
                result = {"image_id": int(image_id), "bbox": [x, y, right - x, bottom - y]}
                results += [result | {"category_id": dataset.category_ids[n - 1], "score": float(score)}]
    return results


def main(shards: str = "shards/shapes", epochs: str = "10") -> None:
    dataset, val, file = convert_shapes(shards)
    model, truth = small_rcnn("faster", len(dataset.classes)), COCO(file)
    train(model, dataset, int(epochs))
    evaluation = COCOeval(truth, truth.loadRes(predict(model.eval(), val)), "bbox")
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


main(*sys.argv[1:])
