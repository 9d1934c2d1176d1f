"""Recipes of views: those that come with Stoker, and a user's views in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from stoker import ImageLoader
from stoker.augment import (
    BlockMask,
    RandomMask,
    Resize,
    Views,
    load_recipe,
    load_views,
    save_recipe,
    view_recipe_names,
)
from stoker.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

# Sizes of the columns of two samples.
READY = {
    "byol": {"first": (2, 3, 224, 224), "second": (2, 3, 224, 224)},
    "dino-v1": {"large1": (2, 3, 224, 224), "large2": (2, 3, 224, 224), "small": (8, 2, 3, 96, 96)},
    "dino-v2": {
        "large1": (2, 3, 224, 224),
        "large2": (2, 3, 224, 224),
        "small": (8, 2, 3, 98, 98),
        "large1_mask": (2, 16, 16),
        "large2_mask": (2, 16, 16),
    },
    "ibot": {
        "large1": (2, 3, 224, 224),
        "large2": (2, 3, 224, 224),
        "small": (10, 2, 3, 96, 96),
        "large1_mask": (2, 14, 14),
        "large2_mask": (2, 14, 14),
    },
    "mae": {"image": (2, 3, 224, 224), "image_mask": (2, 14, 14)},
    "simclr": {"image": (2, 2, 3, 224, 224)},
}


def test_every_recipe_of_views_is_listed() -> None:
    assert view_recipe_names() == list(READY)


@pytest.mark.parametrize("name", READY)
def test_a_loader_takes_a_recipe_of_views(thumbnails: Path, name: str) -> None:
    with ImageLoader(thumbnails, batch_size=2, num_threads=2, transforms=load_views(name)) as loader:
        batch = next(iter(loader))._asdict()
    assert batch.pop("label").shape == (2,)
    assert {column: values.shape for column, values in batch.items()} == READY[name]


def test_views_come_back_as_they_were_saved(tmp_path: Path) -> None:
    views = {
        "large": Views(2, [Resize((32, 32))], mask=BlockMask(8, ratio=(0.2, 0.3))),
        "small": Views(None, [Resize((16, 16))], mask=RandomMask(4)),
        "plain": [Resize((8, 8))],
    }
    save_recipe(views, tmp_path / "views.json")
    assert load_views(tmp_path / "views.json") == views
    with pytest.raises(ConfigError, match="the recipe has views") as error:
        load_recipe(tmp_path / "views.json")
    assert "load_views" in str(error.value)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([], 'a recipe of views is an object with "version" and an object of "views"'),
        ({"a": {"name": "Resize", "size": 8}}, "no transform is named 'Resize'"),
        ({"a": {"name": "Views", "count": 2}}, "Views: .*transforms"),
        (
            {"a": {"name": "Views", "count": 2, "transforms": [], "masks": None}},
            "Views has no argument 'masks'",
        ),
        (
            {"a": {"name": "Views", "count": 2, "transforms": [], "mask": {"name": "Resize"}}},
            "named 'Resize'",
        ),
    ],
)
def test_a_broken_recipe_of_views_names_its_file(tmp_path: Path, views: object, message: str) -> None:
    path = tmp_path / "views.json"
    path.write_text(json.dumps({"version": 1, "views": views}))
    with pytest.raises(ConfigError, match=message) as error:
        load_views(path)
    assert str(path) in str(error.value)


def test_the_other_function_is_named() -> None:
    with pytest.raises(ConfigError, match="the recipe 'dino-v1' has views"):
        load_recipe("dino-v1")
    with pytest.raises(ConfigError, match="the recipe 'imagenet-val' has no views"):
        load_views("imagenet-val")
