"""Train and evaluate torchvision's Keypoint R-CNN: python examples/keypoint_rcnn.py [SHARDS] [EPOCHS]."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.models.detection import keypointrcnn_resnet50_fpn

import stoker
from stoker.augment import Letterbox, RandomHorizontalFlip, ToDtype, keypoints_to_source

HERE, SIZE = Path(__file__).parent, 320
VAL = [Letterbox(SIZE), ToDtype("float32", scale=True)]


def train(model: Any, dataset: stoker.Dataset, epochs: int) -> None:
    some = dataset.select(objects="not crowd and num_keypoints > 0", where="num_objects > 0")
    columns = ("image", "boxes", "box_labels", "keypoints")
    options: Any = {"columns": columns, "output": "torch", "min_size": 1, "shuffle": True}
    loader = stoker.ImageLoader(some, batch_size=2, transforms=[RandomHorizontalFlip(), *VAL], **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)
    for _ in range(epochs):
        for images, *batch in loader:
            rows = zip(*batch, strict=True)
            targets = [{"boxes": b, "labels": n + 1, "keypoints": k} for b, n, k in rows]  # 0 is no object
            optimizer.zero_grad()
            sum(model(list(images), targets).values()).backward()
            optimizer.step()
    print(loader.stats().verdict)


@torch.no_grad()
def predict(model: Any, dataset: stoker.Dataset) -> list[dict[str, Any]]:
    options: Any = {"columns": ("image", "to_source", "image_id"), "output": "torch"}
    results, swap = [], dataset.manifest.annotations.swap
    for images, *batch in stoker.ImageLoader(dataset, batch_size=3, transforms=VAL, **options):
        for found, matrix, image_id in zip(model(list(images)), *batch, strict=True):
            points = keypoints_to_source(found["keypoints"], matrix, swap=swap, coco=True)
            for point, n, score in zip(points, found["labels"], found["scores"], strict=True):
                one = {"image_id": int(image_id), "category_id": dataset.category_ids[n - 1]}
                results.append(one | {"score": float(score), "keypoints": point.ravel().tolist()})
    return results


def main(shards: str = "shards/coco", epochs: str = "1") -> None:
    stoker.convert(HERE / "objects.json", shards, images=HERE / "photos/train", overwrite=True)
    dataset, options = stoker.open(shards), {"min_size": SIZE, "max_size": SIZE, "num_keypoints": 3}
    model = keypointrcnn_resnet50_fpn(weights_backbone=None, num_classes=len(dataset.classes) + 1, **options)
    train(model, dataset, int(epochs))
    truth, found = COCO(HERE / "objects.json"), predict(model.eval(), dataset)
    evaluation = COCOeval(truth, truth.loadRes(found), "keypoints")
    evaluation.params.kpt_oks_sigmas = np.full(3, 0.1)  # of COCO's 17 keypoints of people by default
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


main(*sys.argv[1:])
