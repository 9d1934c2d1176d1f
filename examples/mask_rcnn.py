"""Train and evaluate torchvision's Mask R-CNN: python examples/mask_rcnn.py [SHARDS] [EPOCHS]."""

import sys
from pathlib import Path

import numpy as np
import torch
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.models.detection import maskrcnn_resnet50_fpn

import stoker
from stoker.augment import Letterbox, RandomHorizontalFlip, ToDtype, masks_to_source

HERE, SIZE = Path(__file__).parent, 320
VAL = [Letterbox(SIZE), ToDtype("float32", scale=True)]


def train(model: torch.nn.Module, dataset: stoker.Dataset, epochs: int) -> None:
    some = dataset.select(objects="not crowd", where="num_objects > 0")
    options = {"columns": ("image", "boxes", "box_labels", "masks"), "output": "torch", "min_size": 1}
    train = [RandomHorizontalFlip(), *VAL]
    loader = stoker.ImageLoader(some, batch_size=3, shuffle=True, transforms=train, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)
    for _ in range(epochs):
        for images, *columns in loader:
            rows = zip(*columns, strict=True)
            targets = [{"boxes": b, "labels": n + 1, "masks": m} for b, n, m in rows]  # 0 is no object
            optimizer.zero_grad()
            sum(model(list(images), targets).values()).backward()
            optimizer.step()
    print(loader.stats().verdict)


@torch.no_grad()
def predict(model: torch.nn.Module, dataset: stoker.Dataset) -> list[dict]:
    results, columns = [], ("image", "to_source", "source_size", "image_id")
    options = {"batch_size": 3, "transforms": VAL, "columns": columns, "output": "torch"}
    for images, *batch in stoker.ImageLoader(dataset, **options):
        for found, matrix, size, image_id in zip(model(list(images)), *batch, strict=True):
            masks = masks_to_source(found["masks"][:, 0] > 0.5, matrix, size).astype(np.uint8)
            for mask, n, score in zip(masks, found["labels"], found["scores"], strict=True):
                one = {"image_id": int(image_id), "category_id": dataset.category_ids[n - 1]}
                encoded = coco_mask.encode(np.asfortranarray(mask))
                results.append(one | {"score": float(score), "segmentation": encoded})
    return results


def main(shards: str = "shards/coco", epochs: str = "1") -> None:
    stoker.convert(HERE / "objects.json", shards, images=HERE / "photos/train", overwrite=True)
    dataset, sizes = stoker.open(shards), {"min_size": SIZE, "max_size": SIZE}  # nothing is resized again
    model = maskrcnn_resnet50_fpn(weights_backbone=None, num_classes=len(dataset.classes) + 1, **sizes)
    train(model, dataset, int(epochs))
    truth, found = COCO(HERE / "objects.json"), predict(model.eval(), dataset)
    evaluation = COCOeval(truth, truth.loadRes(found), "segm")
    evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()


main(*sys.argv[1:])
