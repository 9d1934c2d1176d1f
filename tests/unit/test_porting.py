"""Arguments of other loaders: the error gives the equivalent, the same that the guide gives."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.augment import (
    Normalize,
    RandomErasing,
    RandomResize,
    RandomResizedCrop,
    RandomShortestSize,
    Resize,
    ScaleJitter,
    Transform,
)
from stoker.errors import ConfigError
from stoker.porting import LOADER_ARGUMENTS, TRANSFORM_ARGUMENTS

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "porting.md"


def rows_of_the_guide() -> dict[str, str]:
    """The right cell of every argument, written ``name=``, in a left cell of the guide's tables."""
    found = {}
    for line in GUIDE.read_text().splitlines():
        cells = line.strip("| ").split(" | ")
        if line.startswith("| ") and len(cells) == 2:  # other tables compare figures
            left, right = cells
            found.update(dict.fromkeys(re.findall(r"`(\w+)=`", left), right))
    return found


def test_the_guide_has_the_same_rows_as_the_errors() -> None:
    assert rows_of_the_guide() == {**LOADER_ARGUMENTS, **TRANSFORM_ARGUMENTS}


@pytest.mark.parametrize("name", LOADER_ARGUMENTS)
@pytest.mark.parametrize("loader", [stoker.ImageLoader, stoker.TextLoader])
def test_a_loader_answers_an_argument_of_another_one(loader: Callable[..., Any], name: str) -> None:
    if (loader, name) == (stoker.TextLoader, "batch_sampler"):
        return  # it has this argument
    with pytest.raises(ConfigError, match=f"{loader.__name__} has no argument {name}\n") as error:
        loader("no such dataset", batch_size=4, **{name: 1})
    assert LOADER_ARGUMENTS[name].replace("`", "") in str(error.value)


def test_all_such_arguments_are_answered_at_once() -> None:
    loader: Any = stoker.ImageLoader
    with pytest.raises(
        ConfigError, match='\nIn place of drop_last: last_batch="drop"\nIn place of num_workers: '
    ):
        loader("no such dataset", batch_size=4, drop_last=True, num_workers=8)


@pytest.mark.parametrize(("make", "name"), [(Normalize, "inplace"), (RandomErasing, "inplace")])
def test_a_transform_answers_an_argument_of_torchvision(make: Callable[..., Any], name: str) -> None:
    with pytest.raises(ConfigError, match=f"has no argument {name}\nIn place of {name}: not needed"):
        make(**{name: True})


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (Resize, (8,)),
        (RandomResizedCrop, (8,)),
        (RandomResize, (8, 9)),
        (RandomShortestSize, ([8],)),
        (ScaleJitter, ((8, 8),)),
    ],
)
def test_resizes_antialias_unless_they_are_asked_not_to(kind: Callable[..., Any], size: Any) -> None:
    assert kind(*size, antialias=True) == kind(*size)
    assert "antialias" not in kind(*size).to_dict(), "states of releases without the argument stay valid"
    assert kind(*size, antialias=False).to_dict()["antialias"] is False
    for other in (None, "warn"):
        with pytest.raises(ConfigError, match="antialias must be True or False"):
            kind(*size, antialias=other)
    with pytest.raises(ConfigError, match="antialias must be True where the interpolation is lanczos"):
        kind(*size, interpolation="lanczos", antialias=False)


def test_other_unknown_arguments_are_errors_of_python() -> None:
    make: Any = Resize
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make(8, colour="red")


@dataclass(frozen=True)
class OwnTransform(Transform):
    """A transform whose argument has the name of one of torchvision's."""

    antialias: bool = False


class OwnLoader(stoker.ImageLoader):
    """A loader that passes its arguments on."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, last_batch="drop" if options.pop("drop_last") else "partial", **options)


def test_a_subclass_may_have_such_an_argument(thumbnails: Path) -> None:
    assert OwnTransform(antialias=True).antialias
    with OwnLoader(thumbnails, batch_size=16, transforms=[Resize((8, 8))], drop_last=True) as loader:
        assert len(loader) == 3


def test_transforms_can_be_copied() -> None:
    transform = Resize(8, interpolation="bicubic")
    assert (
        pickle.loads(pickle.dumps(transform)) == copy.deepcopy(transform) == copy.copy(transform) == transform
    )
