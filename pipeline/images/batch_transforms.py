"""The plan of what follows the engine: transforms that mix samples of a batch, and the user's functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import augment
from stoker.augment.batch import AllColumns, BatchTransform, MixParams
from stoker.augment.transforms.base import Description, Transform
from stoker.augment.transforms.nested import RandomChoice
from stoker.augment.views import Views
from stoker.errors import ConfigError
from stoker.random import derive_key, uniform

# Description is the base of transforms of images and of batches, as mypy infers for a list of both.
AnyTransform = Description | Callable[[Any], Any]
Transforms = Sequence[AnyTransform] | Mapping[str, Sequence[AnyTransform] | Views]
"""A list of transforms, or lists and views by the names of their columns."""

_CHOICE = -1_000_000
"""Key of the choice of the first RandomChoice of a batch; the indices of transforms are above it."""

_AS_ARRAYS = "Leave it out: batches are arrays, in 0..1 after stoker.augment.ToDtype() or Normalize."
_INSTEAD = {
    "Compose": "Give a list of transforms of stoker.augment.",
    "ConvertImageDtype": "Write stoker.augment.ToDtype.",
    **dict.fromkeys(("PILToTensor", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor"), _AS_ARRAYS),
}
"""What to write instead of transforms of torchvision that have no counterpart of the same name."""


@dataclass(frozen=True)
class BatchTransformPlan:
    """What happens to a batch after the engine: the transforms in order, then the functions in order."""

    # Transforms that mix samples of the batch. A RandomChoice draws one of its transforms for each batch
    transforms: tuple[BatchTransform | RandomChoice, ...] = ()
    # Functions that take the images of a batch, and return the same number of images
    functions: tuple[Callable[[Any], Any], ...] = ()
    whole: tuple[AllColumns, ...] = ()  # Functions that take the whole batch and return it, after all others

    @property
    def columns(self) -> frozenset[str]:
        """Columns besides "image" that all transforms can mix; see ``BatchTransform.columns``."""
        leaves = [leaf for transform in self.transforms for leaf in _leaves(transform)]
        return frozenset.intersection(*(leaf.columns for leaf in leaves)) if leaves else frozenset()

    def draw(
        self, transform: int, keys: npt.NDArray[np.int64], size: tuple[int, int], seed: int, epoch: int
    ) -> tuple[str, MixParams]:
        """Draw the parameters of one transform for a batch."""
        # keys (N,) int64
        chosen = self.transforms[transform]
        if isinstance(chosen, RandomChoice):
            weights = np.cumsum(chosen.p or (1.0,) * len(chosen.transforms))
            u = uniform(derive_key(seed, epoch, _CHOICE - transform), keys[:1], 1)[0, 0]
            chosen = _leaves(chosen)[int(np.searchsorted(weights / weights[-1], u, side="right"))]
        return type(chosen).__name__, chosen.draw(keys, size, seed, epoch)

    def to_json(self) -> list[Any]:
        """All transforms as JSON, and functions by module and name; states record it."""
        functions = [{"function": function_name(f, module=True)} for f in self.functions]
        whole = [{"all_columns": function_name(f.function, module=True)} for f in self.whole]
        return [*(transform.to_dict() for transform in self.transforms), *functions, *whole]


def split_transforms(transforms: Sequence[Any]) -> tuple[tuple[Transform, ...], BatchTransformPlan]:
    """Split a loader's transforms into those of images, and what follows on the batch."""
    is_list = isinstance(transforms, Sequence) and not isinstance(transforms, str)
    for transform in transforms if is_list else (transforms,):
        if isinstance(transform, Views):
            raise ConfigError(
                "Views stand in place of transforms",
                hint='Name them: transforms={"large": Views(2, [...]), "small": Views(8, [...])}.',
            )
        _refuse_torchvision(transform)
    if not is_list:
        hint = "Put it into brackets, or leave it out."
        if isinstance(transforms, str):
            hint = f"The transforms of a recipe are stoker.augment.load_recipe({transforms!r})."
        raise ConfigError(f"transforms must be a list, found {transforms!r}", hint=hint)
    phases = [_phase(transform) for transform in transforms]
    following = zip(phases[1:], phases, transforms[1:], transforms, strict=False)
    for phase, phase_before, transform, before in following:
        if phase < phase_before:
            raise ConfigError(
                f"{_name(transform)} stands after {_name(before)}",
                hint="Transforms of images come first, then those of batches, then functions of images, then "
                "AllColumns.",
            )
    of_images, *others = (
        tuple(one for one, number in zip(transforms, phases, strict=True) if number == phase)
        for phase in range(4)
    )
    return of_images, BatchTransformPlan(*others)


def function_name(function: Callable[[Any], Any], *, module: bool = False) -> str:
    """Name of a function, of the function in a partial, or of the class of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}" if module else str(named.__qualname__)


def _refuse_torchvision(transform: Any) -> None:
    """Refuse a transform of torchvision, which would draw once for all images of a batch."""
    if not type(transform).__module__.startswith("torchvision.transforms"):
        return
    name = type(transform).__name__
    if name in augment.__all__:
        hint = f"Write stoker.augment.{name}, which is drawn for each image."
    else:
        hint = _INSTEAD.get(name, "To call it with whole batches, wrap it in a function.")
    raise ConfigError(f"transforms has torchvision's {name}", hint=hint)


def _phase(transform: Any) -> int:
    """When it runs: 0 for transforms of images, 1 for those of batches, 2 for functions, 3 for AllColumns."""
    if isinstance(transform, AllColumns):
        return 3
    if isinstance(transform, BatchTransform):
        return 1
    if isinstance(transform, RandomChoice):
        return int(transform.on_batches)
    # compile_image refuses everything that is not a transform.
    return 2 if callable(transform) and not isinstance(transform, (Transform, type)) else 0


def _leaves(transform: BatchTransform | RandomChoice) -> list[BatchTransform]:
    """The transforms of batches that may run; none for a RandomChoice of transforms of images."""
    if isinstance(transform, BatchTransform):
        return [transform]
    return [leaf for leaf in transform.transforms if isinstance(leaf, BatchTransform)]


def _name(transform: Any) -> str:
    return function_name(transform) if _phase(transform) == 2 else type(transform).__name__
