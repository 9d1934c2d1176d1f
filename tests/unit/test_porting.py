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
from stoker.bucketing import FixedBucketSampler, Pad
from stoker.errors import ConfigError
from stoker.porting import BUCKETING_ARGUMENTS, LOADER_ARGUMENTS, TRANSFORM_ARGUMENTS

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "porting.md"


def rows_of_the_guide() -> set[tuple[str, str]]:
    """Every argument, written ``name=``, in a left cell of the guide's tables, with the right cell."""
    rows = set()
    for line in GUIDE.read_text().splitlines():
        cells = line.strip("| ").split(" | ")
        if line.startswith("| ") and len(cells) == 2:  # other tables compare figures
            left, right = cells
            rows.update((name, right) for name in re.findall(r"`(\w+)=`", left))
    return rows


def test_the_guide_has_the_same_rows_as_the_errors() -> None:
    tables = (LOADER_ARGUMENTS, TRANSFORM_ARGUMENTS, BUCKETING_ARGUMENTS)
    assert rows_of_the_guide() == {row for table in tables for row in table.items()}


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


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            lambda: Normalize(inplace=True),
            "Normalize has no argument inplace\nIn place of inplace: not needed",
        ),
        (lambda: RandomErasing(inplace=True), "In place of inplace: not needed"),
        (lambda: RandomResizedCrop(8, random_area=(0.1, 1)), "In place of random_area: scale"),
        (
            lambda: FixedBucketSampler([3], [3], 1, num_buckets=2),
            "In place of num_buckets: boundaries: bucket_",
        ),
        (lambda: Pad(pad_val=1), "Pad has no argument pad_val\nIn place of pad_val: value"),
        (lambda: stoker.convert("x", "y", num_workers=2), "convert has no argument num_workers.*num_threads"),
        (lambda: stoker.convert_text("x", "y", num_workers=2), "In place of num_workers: num_threads"),
        (lambda: stoker.Writer("x", write_mode="jpg"), "Writer has no argument write_mode\n"),
        (lambda: stoker.convert("x", "y", restarts=True), r"storage=stoker.ImageStorage\(restarts=...\)"),
        (lambda: stoker.convert("x", "y", overwite=True), "In place of overwite: overwrite"),
        (lambda: stoker.open("x", vesion=1), "open has no argument vesion\nIn place of vesion: version"),
        (
            lambda: stoker.ImageLoader("x", batch_size=4, shufle=1, drop_last=1),
            "shufle: shuffle\nIn.*last_batch",
        ),
        (lambda: stoker.TextLoader("x", max_tokens=4, verfy=True), r"MaxTokens.*\n.*Reading\(verify=...\)"),
        (lambda: stoker.Reading(veryfy=True), "Reading has no argument veryfy\nIn place of veryfy: verify"),
    ],
)
def test_an_unknown_argument_is_answered_with_what_takes_its_place(
    call: Callable[[], Any], answer: str
) -> None:
    with pytest.raises(ConfigError, match=f"(?s){answer}"):
        call()


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
