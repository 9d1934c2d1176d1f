"""Keypoint R-CNN on shapes (AP 0.11, 49 CPU s): python examples/detection/keypoint_rcnn.py SHARDS EPOCHS."""

import sys

import numpy as np
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from shapes import convert_shapes
from small_rcnn import SIDE, small_rcnn

import stoker
from stoker.augment import Letterbox, RandomHorizontalFlip, ToDtype, keypoints_to_source

VAL = [Letterbox(SIDE), ToDtype("float32", scale=True)]


def train(model: torch.nn.Module, dataset: stoker.Dataset, epochs: int) -> None:
    columns = ("image", "boxes", "box_labels", "keypoints")
    options = {"columns": columns, "output": "torch", "objects": stoker.Objects(min_size=1), "shuffle": True}
    loader = stoker.ImageLoader(dataset, batch_size=8, transforms=[RandomHorizontalFlip(), *VAL], **options)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(epochs):
        for images, *batch in loader:
            rows = zip(*batch, strict=True)
            targets = [{"boxes": b, "labels": n + 1, "keypoints": k} for b, n, k in rows]  # 0 is background
            optimizer.zero_grad()
            (loss := sum(model(list(images), targets).values())).backward()
            optimizer.step()
        print(f"loss {loss.item():.3f}  {loader.stats().verdict}", flush=True)


@torch.no_grad()
def predict(model: torch.nn.Module, dataset: stoker.Dataset) -> list[dict]:
    results, options = [], {"columns": ("image", "to_source", "image_id"), "output": "torch"}
    swap = dataset.manifest.annotations.swap
    for images, *batch in stoker.ImageLoader(dataset, batch_size=8, transforms=VAL, **options):
        for output, matrix, image_id in zip(model(list(images)), *batch, strict=True):
            points = keypoints_to_source(output["keypoints"], matrix, swap=swap, coco=True)
            for point, n, score in zip(points, output["labels"], output["scores"], strict=True):
                result = {"image_id": int(image_id), "category_id": dataset.category_ids[n - 1]}
                results.append(result | {"score": float(score), "keypoints": point.ravel().tolist()})
    return results


def main(shards: str = "shards/shapes", epochs: str = "10") -> None:
    train_set, val, file = convert_shapes(shards, 400)
    dataset, val = (part.select(classes=["arrow"], renumber=True) for part in (train_set, val))
    model, truth = small_rcnn("keypoint", 1), COCO(file)
    train(model, dataset, int(epochs))
    found = predict(model.eval(), val)
    evaluation = COCOeval(truth, truth.loadRes(found), "keypoints")
    evaluation.params.kpt_oks_sigmas = np.full(3, 0.1)  # COCO has 17, of people
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


main(*sys.argv[1:])
