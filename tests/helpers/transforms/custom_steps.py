"""Custom steps that reorder pixels at random, and the images that loaders make with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from helpers.loaders.flat import image_arguments

import stoker
from stoker.augment import Transform
from stoker.augment.steps import BatchStep, Step


@dataclass(frozen=True)
class Upset(Step):
    """Turns images upside down, as a view with negative strides; other kinds do something else."""

    kind: str

    def apply(self, i: int, pixels: Any) -> Any:
        if self.kind == "raises" and i in {2, 5}:
            raise KeyError("no such lamp")
        if self.kind == "floats":
            return pixels * 0.5
        return pixels if self.kind == "same" else pixels[::-1]


@dataclass(frozen=True)
class RandomUpset(Transform):
    """Adds the step."""

    p: float = 0.5
    kind: str = "turns"

    draws: ClassVar[int] = 1

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(Upset(u[:, 0] < self.p, self.kind))


def images(dataset: Path, transforms: list[Any], **options: Any) -> Any:
    given = {"batch_size": 16, "columns": ("image",), "num_threads": 3, **options}
    with stoker.ImageLoader(dataset, **image_arguments(transforms=transforms, **given)) as loader:
        assert loader.engine == options.get("engine", "native")
        return np.concatenate([batch.image for batch in loader])


def of_both_engines(dataset: Path, transforms: list[Any], **options: Any) -> tuple[Any, Any]:
    """The images of the native engine, and those of the reference."""
    native, reference = (
        images(dataset, transforms, engine=engine, **options) for engine in ("native", "reference")
    )
    return native, reference


@dataclass(frozen=True)
class UpsetTogether(BatchStep):
    """The same with one call for several images."""

    kind: str
    amount: Any

    def apply_batch(self, rows: Any, pixels: Any) -> Any:
        if self.kind == "raises" and {2, 5} & set(rows.tolist()):
            raise KeyError("no such lamp")
        if self.kind == "floats":
            return pixels * 0.5
        return pixels[:, ::-1] // 2 + self.amount[rows, None, None, None]


@dataclass(frozen=True)
class RandomUpsetTogether(Transform):
    """Adds the step."""

    p: float = 0.5
    kind: str = "turns"

    draws: ClassVar[int] = 2

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(UpsetTogether(u[:, 0] < self.p, self.kind, (99 * u[:, 1]).astype(np.uint8)))
