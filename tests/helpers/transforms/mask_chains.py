"""Chains of transforms that masks are drawn under, of a source of 40 rows and 70 columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ImageParams,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    compile_image,
)

HEIGHT, WIDTH = 40, 70

CHAINS = {
    "as it is": [Resize((HEIGHT, WIDTH))],
    "smaller, one column": [Resize((17, 1))],
    "larger, flipped": [Resize((90, 129)), RandomHorizontalFlip(1.0), RandomVerticalFlip(1.0)],
    "crop, flip": [RandomResizedCrop((33, 64), scale=(0.05, 0.9)), RandomHorizontalFlip()],
    "padding": [CenterCrop((60, 65))],
    "crop, padding": [CenterCrop(20), CenterCrop((31, 128))],
    "quarter turn": [Resize((50, 50)), RandomRotation((90, 90))],
    "affine": [Resize((40, 50)), RandomAffine(180, (0.3, 0.3), (0.3, 2), 30)],
    "crop, perspective": [CenterCrop(30), RandomPerspective(0.6, 1)],
    "wild perspective": [Resize((30, 30)), RandomPerspective(1.0, 1)],
}
chains = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)


def draw(chain: list[Any], n: int = 1, seed: int = 0) -> ImageParams:
    sizes = np.full(n, HEIGHT), np.full(n, WIDTH)
    return compile_image(chain).draw(*sizes, np.arange(n), seed, 0)
