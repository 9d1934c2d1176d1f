"""Images of a batch with their steps and boxes to erase, in the form in which the C++ module takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from stoker import _native
from stoker.augment import steps as kinds
from stoker.augment.noise import quantiles
from stoker.augment.params import Erase, ImageParams
from stoker.errors import EngineError

from ..column_arrays import pack

_STEPS = frozenset(
    kind
    for kind in vars(kinds).values()
    if isinstance(kind, type) and issubclass(kind, kinds.Step) and kind.operation in _native.STEP_COLUMNS
)
"""The steps that C++ executes, each by its ``operation``."""

_QUANTILES = "quantiles"
"""The column of a box to erase that is not an attribute of :class:`Erase`."""

EXECUTES = frozenset(
    {"channels", "interpolation", "mean_matrix", "warp", "perspective", "nearest", "border", "erase", "noise"}
    | {"direct"}  # warps whose canvas is not made
    | {"antialias=False", "antialias=False beside other resizes, warps or bicubic"}
    | {"image_size", "sizes by step"}  # which DALI lacks, as it builds a pipeline for each size
    | {"composition"}  # images of several samples
    | {"mean_image"}  # which Python subtracts after C++
    | {kind.__name__ for kind in _STEPS}
)
"""What the engine executes of :attr:`stoker.augment.plan.ImagePlan.needs`."""


def pack_images(params: ImageParams, out: npt.NDArray[Any], layout: int, *, exact: bool) -> dict[str, Any]:
    """Return the arguments of ``_native.ImageArray`` for images written into ``out``."""
    return {
        "params": pack(_native.PARAMETER_COLUMNS, params),
        "out": out,
        "layout": layout,
        "steps": pack_steps(params.steps, len(params)) if params.steps else None,
        "erase": [_pack_erase(erase) for erase in params.erase or ()],
        "exact": exact,
        "composition": pack(_native.COMPOSITION_COLUMNS, params) if params.composition else {},
    }


def pack_steps(steps: Iterable[kinds.Step], n: int) -> _native.Steps:
    """Make the steps of a batch of ``n`` samples, without those that apply to none."""
    packed = _native.Steps(n)
    for step in steps:
        if not step.where.any():
            continue
        if type(step) not in _STEPS:
            raise EngineError(
                f"the native engine has no step {type(step).__name__}",
                hint="engine='auto' takes one that executes it.",
            )
        chains = (
            [pack_steps(chain, n) for chain in step.chains] if isinstance(step, kinds.WeightedSum) else []
        )
        packed.append(step.operation, pack(_native.STEP_COLUMNS[step.operation], step), chains)
    return packed


def _pack_erase(erase: Erase) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a box to erase; noise comes with the quantiles that it is drawn from."""
    columns = pack((column for column in _native.ERASE_COLUMNS if column.name != _QUANTILES), erase)
    if erase.noise is not None:
        columns[_QUANTILES] = quantiles()
    return columns
