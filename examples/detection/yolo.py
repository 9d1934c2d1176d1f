"""A YOLO on mosaics (AP 0.25, 29 CPU s): python examples/detection/yolo.py [SHARDS] [EPOCHS]."""

import sys

import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from shapes import convert_shapes
from torch import nn

import stoker
from stoker.augment import Letterbox, Mosaic, ToDtype, to_source

SIZE, STRIDE = 128, 16


def boxes_of(out: torch.Tensor) -> torch.Tensor:  # from the distances of a cell's centre to the sides
    y, x = torch.meshgrid(*(torch.arange(side) + 0.5 for side in out.shape[2:]), indexing="ij")
    sides = torch.stack((x, y, x, y)) + out[:, :4].exp() * torch.tensor([-1, -1, 1, 1])[:, None, None]
    return sides.movedim(1, -1) * STRIDE


def main(shards: str = "shards/shapes", epochs: str = "20") -> None:
    dataset, val, file = convert_shapes(shards)
    layers, last = [], ToDtype("float32", scale=True)
    for n, m in ((3, 16), (16, 32), (32, 64), (64, 96)):
        layers += [nn.Conv2d(n, m, 3, 2, 1), nn.BatchNorm2d(m), nn.SiLU()]
    model = nn.Sequential(*layers, nn.Conv2d(96, 4 + dataset.num_classes, 3, padding=1))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    options = {"batch_size": 8, "output": "torch", "columns": ("image", "boxes", "box_labels")}
    mosaics = [Mosaic(SIZE, p=0.5), last]
    loader = stoker.ImageLoader(dataset, shuffle=True, transforms=mosaics, **options)
    for _ in range(int(epochs)):
        for images, boxes, labels in loader:
            out, wanted = model(images), torch.cat(boxes)
            image = torch.cat([torch.full((len(one),), n) for n, one in enumerate(boxes)])
            x, y = ((wanted[:, :2] + wanted[:, 2:]) / 2 / STRIDE).long().T  # the cells of the centres
            classes = torch.zeros_like(out[:, 4:])
            classes[image, torch.cat(labels), y, x] = 1
            loss = 20 * nn.functional.binary_cross_entropy_with_logits(out[:, 4:], classes)
            loss += nn.functional.l1_loss(boxes_of(out)[image, y, x], wanted) / STRIDE
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}  {loader.stats().verdict}")
    options |= {"columns": ("image", "to_source", "source_size", "image_id")}
    found = [[1, 0, 0, 1, 1, 0, 1]]  # image, box, score and class; COCO takes no empty list
    for images, *batch in stoker.ImageLoader(val, transforms=[Letterbox(SIZE), last], **options):
        out = model.eval()(images).detach()
        scores = out[:, 4:].sigmoid() * (nn.functional.max_pool2d(out[:, 4:], 3, 1, 1) == out[:, 4:])
        for score, boxes, matrix, size, image in zip(scores, boxes_of(out), *batch, strict=True):
            for n, y, x in (score > 0.05).nonzero().tolist():
                x0, y0, x1, y1 = to_source(boxes[y, x][None], matrix, size=size)[0]
                found.append([image, x0, y0, x1 - x0, y1 - y0, score[n, y, x], dataset.category_ids[n]])
    truth, found = COCO(file), torch.tensor(found).numpy()
    run = COCOeval(truth, truth.loadRes(found), "bbox")
    run.evaluate(), run.accumulate(), run.summarize()


main(*sys.argv[1:])
