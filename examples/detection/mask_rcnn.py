"""Mask R-CNN on shapes (AP 0.74, 78 CPU s): python examples/detection/mask_rcnn.py [SHARDS] [EPOCHS]."""

import sys

import numpy as np
import torch
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from shapes import convert_shapes
from small_rcnn import SIDE, small_rcnn

import stoker
from stoker.augment import Letterbox, RandomHorizontalFlip, ToDtype, masks_to_source

VAL = [Letterbox(SIDE), ToDtype("float32", scale=True)]


def train(model: torch.nn.Module, dataset: stoker.Dataset, epochs: int) -> None:
    annotated = dataset.select(objects="not crowd", where="num_objects > 0")
    columns = ("image", "boxes", "box_labels", "masks")
    options = {"columns": columns, "output": "torch", "objects": stoker.Objects(min_size=1)}
    transforms = [RandomHorizontalFlip(), *VAL]
    loader = stoker.ImageLoader(annotated, batch_size=8, shuffle=True, transforms=transforms, **options)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(epochs):
        for images, *columns in loader:
            rows = zip(*columns, strict=True)
            targets = [{"boxes": b, "labels": n + 1, "masks": m} for b, n, m in rows]  # 0 is background
            optimizer.zero_grad()
            (loss := sum(model(list(images), targets).values())).backward()
            optimizer.step()
        print(f"loss {loss.item():.3f}  {loader.stats().verdict}", flush=True)


@torch.no_grad()
def predict(model: torch.nn.Module, dataset: stoker.Dataset) -> list[dict]:
    results, columns = [], ("image", "to_source", "source_size", "image_id")
    options = {"batch_size": 8, "transforms": VAL, "columns": columns, "output": "torch"}
    for images, *batch in stoker.ImageLoader(dataset, **options):
        for output, matrix, size, image_id in zip(model(list(images)), *batch, strict=True):
            masks = masks_to_source(output["masks"][:, 0] > 0.5, matrix, size).astype(np.uint8)
            for mask, n, score in zip(masks, output["labels"], output["scores"], strict=True):
                result = {"image_id": int(image_id), "category_id": dataset.category_ids[n - 1]}
                encoded = coco_mask.encode(np.asfortranarray(mask))
                results.append(result | {"score": float(score), "segmentation": encoded})
    return results


def main(shards: str = "shards/shapes", epochs: str = "10") -> None:
    dataset, val, file = convert_shapes(shards)
    model, truth = small_rcnn("mask", len(dataset.classes)), COCO(file)
    train(model, dataset, int(epochs))
    found = predict(model.eval(), val)
    evaluation = COCOeval(truth, truth.loadRes(found), "segm")
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


main(*sys.argv[1:])
