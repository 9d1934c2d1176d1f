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
    rows = {}
    for line in GUIDE.read_text().splitlines():
        cells = line.strip("| ").split(" | ")
        if line.startswith("| ") and len(cells) == 2:  # other tables compare figures
            left, right = cells
            rows.update(dict.fromkeys(re.findall(r"`(\w+)=`", left), right))
    return rows


def test_the_guide_has_the_same_rows_as_the_errors() -> None:
    assert rows_of_the_guide() == {**LOADER_ARGUMENTS, **TRANSFORM_ARGUMENTS}


@pytest.mark.parametrize(
    ("loader", "name"),
    [
        *((stoker.ImageLoader, name) for name in LOADER_ARGUMENTS),
        *((stoker.TextLoader, name) for name in LOADER_ARGUMENTS if name != "batch_sampler"),
    ],
)
def test_a_loader_names_its_equivalent_of_another_loaders_argument(
    loader: Callable[..., Any], name: str
) -> None:
    with pytest.raises(ConfigError, match=f"{loader.__name__} has no argument {name}\n") as error:
        loader("no such dataset", batch_size=4, **{name: 1})
    assert LOADER_ARGUMENTS[name].replace("`", "") in str(error.value)


def test_one_error_names_the_equivalents_of_all_arguments() -> None:
    loader: Any = stoker.ImageLoader
    with pytest.raises(
        ConfigError, match='\nIn place of drop_last: last_batch="drop"\nIn place of num_workers: '
    ):
        loader("no such dataset", batch_size=4, drop_last=True, num_workers=8)


@pytest.mark.parametrize("transform", [Normalize, RandomErasing])
def test_a_transform_refuses_inplace_of_torchvision(transform: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="has no argument inplace\nIn place of inplace: not needed"):
        transform(inplace=True)


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
def test_resizes_antialias_unless_antialias_is_false(kind: Callable[..., Any], size: Any) -> None:
    assert kind(*size, antialias=True) == kind(*size)
    assert "antialias" not in kind(*size).to_dict(), "states of releases without the argument stay valid"
    assert kind(*size, antialias=False).to_dict()["antialias"] is False
    for value in (None, "warn"):
        with pytest.raises(ConfigError, match="antialias must be True or False"):
            kind(*size, antialias=value)
    with pytest.raises(ConfigError, match="antialias must be True where the interpolation is lanczos"):
        kind(*size, interpolation="lanczos", antialias=False)


def test_other_unknown_arguments_raise_type_error() -> None:
    make: Any = Resize
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make(8, colour="red")


@dataclass(frozen=True)
class UserTransform(Transform):
    """A transform whose argument has the name of one of torchvision's."""

    antialias: bool = False


class UserLoader(stoker.ImageLoader):
    """A loader that passes its arguments on."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, last_batch="drop" if options.pop("drop_last") else "partial", **options)


def test_a_subclass_may_have_an_argument_of_another_library(thumbnails: Path) -> None:
    assert UserTransform(antialias=True).antialias
    with UserLoader(thumbnails, batch_size=16, transforms=[Resize((8, 8))], drop_last=True) as loader:
        assert len(loader) == 3


def test_transforms_can_be_copied() -> None:
    transform = Resize(8, interpolation="bicubic")
    assert (
        pickle.loads(pickle.dumps(transform)) == copy.deepcopy(transform) == copy.copy(transform) == transform
    )
