"""Steps and the like, in the form in which the C++ engine takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _native
from stoker.augment import steps as kinds
from stoker.augment.noise import quantiles
from stoker.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.augment.params.optional_params import Noise

__all__ = ["EXECUTES", "column", "extras"]

_FIELDS: dict[type[kinds.Step], dict[str, type[np.generic]]] = {
    kinds.Affine: {"color": np.float32, "mean_matrix": np.float32},
    kinds.Table: {"levels": np.uint8},
    kinds.Posterize: {"bits": np.uint8},
    kinds.Solarize: {"threshold": np.int16},
    kinds.Autocontrast: {},
    kinds.Equalize: {},
    kinds.Sharpen: {"factor": np.float32},
    kinds.Blur: {"kernel_size": np.intp, "sigma": np.float32},
    kinds.Distort: {"matrix": np.float64, "fill": np.uint8, "nearest": np.bool_},
    kinds.WeightedSum: {"weights": np.float32},
}
"""Fields of each step in the order of the C++ operation's arguments, with the dtypes of arrays there."""

EXECUTES = frozenset(
    {"interpolation", "mean_matrix", "warp", "perspective", "nearest", "border", "erase", "noise"}
    | {kind.__name__ for kind in _FIELDS}
)
"""What the engine executes of :attr:`stoker.augment.plan.ImagePlan.needs`."""


def column(values: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Contiguous, in the type that C++ expects; a copy only where it is not so already."""
    return np.ascontiguousarray(values, dtype=dtype)


def extras(params: ImageParams) -> dict[str, Any]:
    """Arguments of ``_native.Pool.submit`` for the optional fields that are set."""
    found: dict[str, Any] = {}
    if params.steps:
        found["steps"] = _steps(params.steps, len(params))
    if params.interpolation is not None:
        found["interpolation"] = column(params.interpolation, np.uint8)
    if params.mean_matrix is not None:
        found["mean"] = column(params.mean_matrix, np.float32)
    if params.warp is not None:
        nearest = params.warp.nearest
        picked = None if nearest is None else column(nearest, np.bool_)
        found["warp"] = (column(params.warp.matrix, np.float64), *params.warp.canvas, picked)
    if params.border is not None:
        border = params.border
        found["border"] = tuple(column(part, np.int32) for part in (border.size, border.rows, border.columns))
    if params.erase:
        found["erase"] = [
            (column(one.box, np.int32), tuple(map(float, one.value)), _noise(one.noise))
            for one in params.erase
        ]
    return found


def _noise(noise: Noise | None) -> tuple[Any, ...] | None:
    if noise is None:
        return None
    return column(noise.keys, np.uint64), tuple(map(float, noise.deviation)), quantiles()


def _steps(steps: Iterable[kinds.Step], n: int) -> _native.Steps:
    made = _native.Steps(n)
    for step in steps:
        if step.where.any():
            _append(made, step, n)
    return made


def _append(made: _native.Steps, step: kinds.Step, n: int) -> None:
    if type(step) not in _FIELDS:
        raise EngineError(
            f"the native engine has no step {type(step).__name__}",
            hint="engine='auto' takes one that executes it.",
        )
    arguments: list[Any] = [column(step.where, np.bool_)]
    for name, dtype in _FIELDS[type(step)].items():
        value = getattr(step, name)
        arguments.append(column(value, dtype) if isinstance(value, np.ndarray) else value)
    if isinstance(step, kinds.WeightedSum):
        arguments.append([_steps(chain, n) for chain in step.chains])
    getattr(made, step.operation)(*arguments)
