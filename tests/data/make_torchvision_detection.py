"""Draw crops and sizes with torchvision's transforms for detection, for test_iou_crop.py.

    python tests/data/make_torchvision_detection.py tests/data/torchvision-detection.npz

The file has the draws of each transform for one image with two boxes, (N, 2) to (N, 5) int16, and the boxes
after geometry that is not random. Needs torch and torchvision.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
import torchvision
from torchvision import tv_tensors
from torchvision.transforms import v2

HEIGHT, WIDTH = 100, 160
BOXES = [[20.0, 30, 60, 90], [100, 10, 150, 40]]
N = 4000
IMAGE = tv_tensors.Image(torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8))
MARKS = tv_tensors.BoundingBoxes(torch.tensor(BOXES), format="XYXY", canvas_size=(HEIGHT, WIDTH))

FIXED = {
    "resize": v2.Resize((80, 90)),
    "crop": v2.CenterCrop((70, 80)),
    "pad": v2.Pad((5, 6, 7, 8)),
    "horizontal flip": v2.RandomHorizontalFlip(1),
    "vertical flip": v2.RandomVerticalFlip(1),
    "rotation": v2.RandomRotation((10, 10)),
    "affine": v2.RandomAffine((20, 20), scale=(0.8, 0.8), shear=(10, 10)),
}


def iou_crops() -> Any:
    """Top, left, height, width, and how many boxes remain."""
    transform = v2.RandomIoUCrop()
    drawn = []
    for _ in range(N):
        if params := transform.make_params([IMAGE, MARKS]):
            crop = [params[key] for key in ("top", "left", "height", "width")]
            drawn.append([*crop, int(params["is_within_crop_area"].sum())])
        else:
            drawn.append([0, 0, HEIGHT, WIDTH, len(BOXES)])
    return np.array(drawn, np.int16)


def zooms() -> Any:
    """Top and left of the image in the canvas, height and width of the canvas."""
    zoom = v2.RandomZoomOut(p=1.0)
    drawn = []
    for _ in range(N):
        left, top, right, bottom = zoom.make_params([IMAGE])["padding"]
        drawn.append([top, left, HEIGHT + top + bottom, WIDTH + left + right])
    return np.array(drawn, np.int16)


def sizes(transform: Any) -> Any:
    """Heights and widths."""
    return np.array([list(transform.make_params([IMAGE])["size"]) for _ in range(N)], np.int16)


def main() -> None:
    """Draw, and write the file."""
    torch.manual_seed(0)
    draws = {"iou-crop": iou_crops(), "zoom-out": zooms(), "scale-jitter": sizes(v2.ScaleJitter((300, 200)))}
    draws["shortest-size"] = sizes(v2.RandomShortestSize([50, 75, 200], 240))
    fixed = {name: transform(MARKS).numpy() for name, transform in FIXED.items()}
    np.savez_compressed(sys.argv[1], version=torchvision.__version__, **draws, **fixed)


if __name__ == "__main__":
    main()
