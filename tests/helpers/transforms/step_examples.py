"""Examples of every step that C++ executes, for three samples."""

from typing import Any

import numpy as np
import numpy.typing as npt
from helpers.transforms.compiled_functions import darken

from stoker.augment import steps as kinds

WHERE = np.array([True, False, True])
N = len(WHERE)


def rows(values: Any, dtype: type) -> npt.NDArray[Any]:
    return np.tile(np.asarray(values, dtype), (N, *(1 for _ in np.shape(values))))


MIXING = rows([[0.513, 0.247, 0.25, -3], [0.1, 0.81, 0.1, 2.3], [-0.21, 0.32, 0.89, 1.7]], np.float32)
DIAGONAL = rows([[1.375, 0, 0, -20], [0, 0.75, 0, 5.5], [0, 0, 1.125, 0]], np.float32)
MEAN = rows(np.full((3, 3), -0.125), np.float32)
TURNED = rows([[0.9, 0.2, 3], [-0.1, 1.1, -5], [0, 0, 1]], np.float64)
TILTED = rows([[0.9, 0.2, 3], [-0.1, 1.1, -5], [0.003, -0.002, 1]], np.float64)
TABLE = np.random.default_rng(0).integers(0, 256, (N, 3, 256)).astype(np.uint8)


EXACT = {
    "diagonal": kinds.Affine(WHERE, DIAGONAL, None),
    "table": kinds.Table(WHERE, TABLE),
    "posterize": kinds.Posterize(WHERE, np.array([3, 0, 0], np.uint8)),
    "posterize 8": kinds.Posterize(WHERE, np.array([8, 0, 5], np.uint8)),
    "solarize": kinds.Solarize(WHERE, np.array([100, 0, 256], np.int16)),
    "autocontrast": kinds.Autocontrast(WHERE),
    "equalize": kinds.Equalize(WHERE),
    "smooth": kinds.Sharpen(WHERE, np.array([0, 1, 0.3], np.float32)),
    "sharpen": kinds.Sharpen(WHERE, np.array([1.9, 1, 23.1], np.float32)),
    "noise": kinds.AddNoise(
        WHERE, np.array([3, 4, 2**60], np.uint64), rows(-2.3, np.float32), np.array([40, 1, 300], np.float32)
    ),
    "displace": kinds.Displace(WHERE, np.array([3, 4, 2**60], np.uint64), (70, 40), (3, 2.5), (1, 2, 200)),
    "displace by nearest": kinds.Displace(
        WHERE, np.arange(3, dtype=np.uint64), (9, 9), (0, 9), (0, 0, 0), True
    ),
    "compiled": kinds.Compiled(WHERE, np.array([[0.5], [0], [0.3]]), darken),
    "compress": kinds.Compress(WHERE, np.array([30, 1, 95], np.uint8)),
}


WITHIN_A_LEVEL = {
    "affine": kinds.Affine(WHERE, MIXING, None),
    "affine by the mean": kinds.Affine(WHERE, MIXING, MEAN),
    "contrast": kinds.Affine(WHERE, DIAGONAL, MEAN),
    "blur": kinds.Blur(WHERE, (5, 9), rows([1.3, 0.4], np.float32)),
    "wide blur": kinds.Blur(WHERE, (1, 201), rows([0.1, 30], np.float32)),
    "shift": kinds.Distort(WHERE, TURNED, (1, 2, 200)),
    "projective shift": kinds.Distort(WHERE, TILTED, (1, 2, 200)),
    "mix": kinds.WeightedSum(
        WHERE,
        rows([0.3, 0.5, 0.2], np.float32),
        (
            (kinds.Posterize(WHERE, np.full(N, 3, np.uint8)), kinds.Distort(~WHERE, TURNED, (0, 0, 0))),
            (kinds.Equalize(np.ones(N, bool)), kinds.Distort(WHERE, TURNED, (1, 2, 200))),
        ),
    ),
}
