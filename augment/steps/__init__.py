"""Steps: operations on pixels that an engine executes one after the other, and what each does to an image.

A step takes and returns (H, W, 3) uint8 RGB; an engine executes it on the finished image, after all geometry
and before the rest of the colours. A step belongs to a batch of N samples: its arrays have one row for each
sample, and ``where`` says which samples it changes. Numbers and tuples hold for all samples. The order of the
steps and their classes follow from the list of transforms alone, so that an engine can prepare for them.

``docs/common-changes.md`` says how to add a step. Its ``operation`` names the C++ operation that runs it.
The C++ class names the arrays of the step that it takes, and Python reads these names from the native
module (``STEP_COLUMNS``); :mod:`stoker.pipeline.engines.dali.steps` builds the step from DALI's operators.
If an engine lacks a step of the list, ``engine="auto"`` takes another engine. The reference engine executes
every step.
"""

from __future__ import annotations

from .base import BatchStep, Step
from .chains import Distort, WeightedSum, step_names
from .compiled import Compiled
from .degradations import AddNoise, Compress
from .elastic import Displace
from .filters import Blur, Sharpen
from .pointwise import Affine, Autocontrast, Equalize, Posterize, Solarize, Table

__all__ = [
    "AddNoise",
    "Affine",
    "Autocontrast",
    "BatchStep",
    "Blur",
    "Compiled",
    "Compress",
    "Displace",
    "Distort",
    "Equalize",
    "Posterize",
    "Sharpen",
    "Solarize",
    "Step",
    "Table",
    "WeightedSum",
    "step_names",
]
