"""Examples of every step, for three samples: tests of steps and engines run over them.

A new step needs a :class:`StepCase` here, and no change of these tests.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from helpers.transforms.compiled_functions import darken

from stoker.augment import steps
from stoker.augment.steps import Step


class StepCase(NamedTuple):
    """A step, and how far the engines may be from the reference, in levels.

    Attributes:
        step: The step; it leaves the second of three samples alone, and changes the first.
        native: Largest difference of the C++ engine, 0 or 1.
        dali: Largest and mean difference of DALI; None where it lacks the step.
    """

    step: Step
    native: int
    dali: tuple[float, float] | None


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
KEYS = np.array([3, 4, 2**60], np.uint64)
DEVIATIONS = np.array([40, 1, 300], np.float32)
CHAINS = (
    (steps.Posterize(WHERE, np.full(N, 3, np.uint8)), steps.Distort(~WHERE, TURNED, (0, 0, 0))),
    (steps.Equalize(np.ones(N, bool)), steps.Distort(WHERE, TURNED, (1, 2, 200))),
)

# C++ sums in float32 or 14 bits, the reference in float64: a few pixels differ at a tie.
STEP_CASES = {
    "affine": StepCase(steps.Affine(WHERE, MIXING, None), 1, (1, 0.003)),
    "affine by the mean": StepCase(steps.Affine(WHERE, MIXING, MEAN), 1, (1, 0.003)),
    "diagonal": StepCase(steps.Affine(WHERE, DIAGONAL, None), 0, (1, 0.003)),
    "contrast": StepCase(steps.Affine(WHERE, DIAGONAL, MEAN), 1, (1, 0.003)),
    "table": StepCase(steps.Table(WHERE, TABLE), 0, None),
    "posterize": StepCase(steps.Posterize(WHERE, np.array([3, 0, 0], np.uint8)), 0, (0, 0)),
    "posterize to 5 bits": StepCase(steps.Posterize(WHERE, np.array([5, 0, 8], np.uint8)), 0, (0, 0)),
    "solarize": StepCase(steps.Solarize(WHERE, np.array([100, 0, 256], np.int16)), 0, (0, 0)),
    "autocontrast": StepCase(steps.Autocontrast(WHERE), 0, (0, 0)),
    # DALI's result is already rounded when Pillow's formula is applied to it.
    "equalize": StepCase(steps.Equalize(WHERE), 0, (1, 0.3)),
    "smooth": StepCase(steps.Sharpen(WHERE, np.array([0, 1, 0.3], np.float32)), 0, (1, 0.001)),
    "sharpen": StepCase(steps.Sharpen(WHERE, np.array([1.9, 1, 23.1], np.float32)), 0, (1, 0.001)),
    "blur": StepCase(steps.Blur(WHERE, (5, 9), rows([1.3, 0.4], np.float32)), 1, (1, 0.01)),
    "wide blur": StepCase(steps.Blur(WHERE, (1, 201), rows([0.1, 30], np.float32)), 1, (1, 0.01)),
    "noise": StepCase(steps.AddNoise(WHERE, KEYS, rows(-2.3, np.float32), DEVIATIONS), 0, None),
    "displace": StepCase(steps.Displace(WHERE, KEYS, (70, 40), (3, 2.5), (1, 2, 200)), 0, None),
    "displace by nearest": StepCase(steps.Displace(WHERE, KEYS, (9, 9), (0, 9), (0, 0, 0), True), 0, None),
    "compiled": StepCase(steps.Compiled(WHERE, np.array([[0.5], [0], [0.3]]), darken), 0, None),
    "compress": StepCase(steps.Compress(WHERE, np.array([30, 1, 95], np.uint8)), 0, (0, 0)),
    # These maps shrink the image a little. The reference widens its filter there, and DALI does not.
    "distort": StepCase(steps.Distort(WHERE, TURNED, (1, 2, 200)), 1, (20, 0.3)),
    "projective": StepCase(steps.Distort(WHERE, TILTED, (1, 2, 200)), 1, (40, 0.3)),
    "weighted sum": StepCase(
        steps.WeightedSum(WHERE, rows([0.3, 0.5, 0.2], np.float32), CHAINS), 1, (4, 0.1)
    ),
}
"""All cases by name."""
