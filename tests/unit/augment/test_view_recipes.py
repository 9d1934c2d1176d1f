"""Recipes of views: those that come with Stoker, and a user's views in a file."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

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

_FAIR, _STRONG = (0.4, 0.4, 0.2, 0.1), (0.8, 0.8, 0.8, 0.2)
_BLOCKS = ((0.1, 0.5), 0.5)
# Published values: scale of the crop, colour jitter, probability of blur and of solarization, and ratio and
# probability of the mask. The recipes' files name the sources in full.
PUBLISHED = {
    # DINO, main_dino.py: DataAugmentationDINO and the arguments' defaults (arXiv:2104.14294).
    ("dino-v1", "large1"): ((0.4, 1), _FAIR, 1, 0, None),
    ("dino-v1", "large2"): ((0.4, 1), _FAIR, 0.1, 0.2, None),
    ("dino-v1", "small"): ((0.05, 0.4), _FAIR, 0.5, 0, None),
    # DINOv2, augmentations.py and ssl_default_config.yaml (arXiv:2304.07193).
    ("dino-v2", "large1"): ((0.32, 1), _FAIR, 1, 0, _BLOCKS),
    ("dino-v2", "large2"): ((0.32, 1), _FAIR, 0.1, 0.2, _BLOCKS),
    ("dino-v2", "small"): ((0.05, 0.32), _FAIR, 0.5, 0, None),
    # iBOT, the arguments of ViT-S/16: pred_ratio 0 or 0.3 with a variation of 0.2 (arXiv:2111.07832).
    ("ibot", "large1"): ((0.25, 1), _FAIR, 1, 0, _BLOCKS),
    ("ibot", "large2"): ((0.25, 1), _FAIR, 0.1, 0.2, _BLOCKS),
    ("ibot", "small"): ((0.05, 0.25), _FAIR, 0.5, 0, None),
    # SimCLR, appendix A (arXiv:2002.05709).
    ("simclr", "image"): ((0.08, 1), _STRONG, 0.5, 0, None),
    # BYOL, table 6 (arXiv:2006.07733).
    ("byol", "first"): ((0.08, 1), _FAIR, 1, 0, None),
    ("byol", "second"): ((0.08, 1), _FAIR, 0.1, 0.2, None),
    # MAE, table 8 and section 3 (arXiv:2111.06377): no colours.
    ("mae", "image"): ((0.2, 1), None, 0, 0, (0.75, 1)),
}


def test_every_recipe_of_views_is_listed() -> None:
    assert view_recipe_names() == list(READY)


@pytest.mark.parametrize("name", READY)
def test_a_loader_takes_a_recipe_of_views(thumbnails: Path, name: str) -> None:
    with ImageLoader(thumbnails, batch_size=2, num_threads=2, transforms=load_views(name)) as loader:
        batch = next(iter(loader))._asdict()
    assert batch.pop("label").shape == (2,)
    assert {column: values.shape for column, values in batch.items()} == READY[name]


@pytest.mark.parametrize(("name", "column"), PUBLISHED)
def test_a_recipe_has_the_published_values(name: str, column: str) -> None:
    given = json.loads((files("stoker.augment") / f"recipes/views/{name}.json").read_text("utf-8"))
    views = given["views"][column]
    views = views if isinstance(views, dict) else {"transforms": views}
    found: dict[str, tuple[dict[str, Any], float]] = {}  # arguments and probability of each transform
    for outer in views["transforms"]:
        inner = outer["transforms"][0] if outer["name"] == "RandomApply" else outer
        found[inner["name"]] = (inner, outer.get("p", 1))
    scale, jitter, blur, solarize, mask = PUBLISHED[name, column]
    assert tuple(found["RandomResizedCrop"][0]["scale"]) == scale
    assert found["RandomHorizontalFlip"][1] == 0.5
    if jitter:
        values, p = found["ColorJitter"]
        assert tuple(values[key] for key in ("brightness", "contrast", "saturation", "hue")) == jitter
        assert (p, found["RandomGrayscale"][1]) == (0.8, 0.2)
        assert found["GaussianBlur"][0]["sigma"] == [0.1, 2.0]
    assert ("ColorJitter" in found) == bool(jitter)
    assert found.get("GaussianBlur", ({}, 0))[1] == blur
    assert found.get("RandomSolarize", ({}, 0))[1] == solarize
    hidden = views.get("mask")
    ratio = hidden and hidden["ratio"]
    assert (hidden and (tuple(ratio) if isinstance(ratio, list) else ratio, hidden.get("p", 1))) == mask


def test_views_come_back_as_they_were_saved(tmp_path: Path) -> None:
    views = {
        "large": Views(2, [Resize((32, 32))], mask=BlockMask(8, ratio=(0.2, 0.3))),
        "small": Views(None, [Resize((16, 16))], mask=RandomMask(4)),
        "plain": [Resize((8, 8))],
    }
    save_recipe(views, tmp_path / "views.json")
    assert load_views(tmp_path / "views.json") == views
    with pytest.raises(ConfigError, match=r"(?s)the recipe has views.*load_views"):
        load_recipe(tmp_path / "views.json")


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


def test_a_recipe_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="the recipe 'dino-v1' has views"):
        load_recipe("dino-v1")
    with pytest.raises(ConfigError, match="the recipe 'imagenet-val' has no views"):
        load_views("imagenet-val")
