"""Recipes to and from JSON, and the errors of broken recipes."""

from __future__ import annotations

import ast
import inspect
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.transforms import CASES

from stoker import ImageLoader, augment
from stoker.augment import (
    BatchTransform,
    BlockwiseMask,
    Normalize,
    RandomInvert,
    RandomMask,
    RandomResizedCrop,
    Resize,
    SubtractMean,
    ToDtype,
    Transform,
    Views,
    compile_image,
    load_recipe,
    load_views,
    model_arguments,
    recipe,
    recipe_names,
    save_recipe,
    view_recipe_names,
)
from stoker.errors import ConfigError

EVERY = [
    *(case.transform for case in CASES),
    Resize(300, max_size=400),
    augment.RandomIoUCrop(0.2, sampler_options=(0.5, 2), trials=9),
    augment.RandomZoomOut((1, 2, 3), (1, 2)),
    augment.RandAugment(3, 5, 11, fill=7),
    augment.RandomApply([augment.RandomChoice([augment.ColorJitter(0.1), RandomInvert(1)], [1, 2])], 0.8),
    ToDtype("float16"),
    Normalize((0.5, 0.5, 0.5), (1, 2, 3)),
    augment.MixUp(0.2),
    augment.CutMix(),
    augment.Mosaic((40, 72), 0.5, stop_epoch=3),
    augment.DetectionMixUp(8.0, 0.1),
    augment.CopyPaste(0.4, 0.3, 0.2),
]


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def transform_names() -> set[str]:
    kinds = [getattr(augment, name) for name in augment.__all__]
    bases = (Transform, BatchTransform, SubtractMean)
    return {
        kind.__name__
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, (Transform, BatchTransform)) and kind not in bases
    }


def test_every_transform_has_an_example():
    """Add one to tests/helpers/transforms.py."""
    assert {type(transform).__name__ for transform in EVERY} == transform_names()
    # RandomIoUCrop needs objects; Normalize and ToDtype change only the output's form. SubtractMean needs
    # a file, and has tests/parity/test_mean_image.py. Those of several samples have their test in
    # tests/parity/native/test_combining.py.
    several = {"MixUp", "CutMix", "Mosaic", "DetectionMixUp", "CopyPaste"}
    compared = transform_names() - several - {"RandomIoUCrop", "Normalize", "ToDtype"}
    assert {type(case.transform).__name__ for case in CASES} == compared


def test_type_checkers_see_every_name():
    (block,) = [node for node in ast.parse(inspect.getsource(augment)).body if isinstance(node, ast.If)]
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen == {*augment.__all__, "geometry", "steps"}
    assert set(dir(augment)) == set(augment.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Mosaik'"):
        augment.Mosaik  # noqa: B018 - the access is the test


def test_transforms_survive_a_round_trip(tmp_path):
    save_recipe(EVERY, tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == EVERY
    assert load_recipe(str(tmp_path / "recipe.json")) == EVERY


READY = {
    "ade20k-train": (512, 512),
    "coco-hflip": (1344, 1344),
    "coco-lsj": (1024, 1024),
    "coco-multiscale": (1344, 1344),
    "coco-segmentation": (480, 480),
    "coco-ssd": (300, 300),
    "coco-ssdlite": (320, 320),
    "coco-val": (1344, 1344),
    "deit3-train": (224, 224),
    "deit3-train-src": (224, 224),
    "imagenet-train": (224, 224),
    "imagenet-val": (224, 224),
    "yolo-train": (640, 640),
    "yolo-train-mixup": (640, 640),
    "yolo-val": (640, 640),
}


def test_every_ready_recipe_is_tested_here():
    assert recipe_names() == list(READY)


@pytest.mark.parametrize("name", READY)
def test_ready_recipes_name_their_source_and_give_floats_of_one_size(name):
    document = json.loads((Path(recipe.__file__).parent / "recipes" / f"{name}.json").read_text())
    assert "github.com/" in document["source"] or "torchvision" in document["source"]
    plan = compile_image(load_recipe(name))
    assert plan.size == READY[name]
    assert plan.dtype == "float32"
    height, width = np.array([30, 480, 1200]), np.array([40, 640, 90])
    params = plan.draw(height, width, np.arange(3), 0, 0)
    assert len(params) == 3
    assert (params.crop[:, 2:] > 0).all()


@pytest.mark.parametrize("name", ["coco-hflip", "coco-lsj", "coco-multiscale", "coco-val"])
def test_torchvision_leaves_the_images_of_a_recipe_at_their_size(name):
    """The scale is that of torchvision's GeneralizedRCNNTransform._resize_image_and_masks."""
    arguments = model_arguments(name)
    height, width = compile_image(load_recipe(name)).size

    def scale(min_size=800, max_size=1333):
        return min(min_size / min(height, width), max_size / max(height, width))

    assert scale(**arguments) == 1
    assert scale() != 1  # with the defaults of the model
    assert height % 32 == width % 32 == 0  # GeneralizedRCNN pads to a multiple of 32


def test_other_recipes_need_no_arguments():
    assert [name for name in READY if model_arguments(name)] == [
        "coco-hflip", "coco-lsj", "coco-multiscale", "coco-val"
    ]  # fmt: skip


def test_arguments_that_are_left_out_have_their_defaults(tmp_path):
    path = write(
        tmp_path / "r.json", {"version": 1, "transforms": [{"name": "RandomResizedCrop", "size": 8}]}
    )
    assert load_recipe(path) == [RandomResizedCrop(8)]


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            {"name": "RandomResizeCrop"},
            "no transform is named 'RandomResizeCrop'.*\nDid you mean 'RandomResizedCrop'",
        ),
        ({"name": "Transform"}, "no transform is named 'Transform'"),
        ({"name": "__import__"}, "no transform is named '__import__'.*\nKnown: "),
        ({"name": ["CenterCrop"]}, "no transform is named"),
        ({"name": "CenterCrop", "sise": 8}, "CenterCrop has no argument 'sise'.*\nDid you mean 'size'"),
        ({"name": "CenterCrop", "size": 0}, "CenterCrop: size must be a positive integer"),
        ({"name": "CenterCrop"}, "CenterCrop: .*missing"),
        ({"size": 8}, 'a transform is an object with a "name"'),
        ("CenterCrop", "a transform is an object"),
    ],
)
def test_a_broken_transform_names_the_file_and_the_remedy(tmp_path, transform, message):
    path = write(tmp_path / "broken.json", {"version": 1, "transforms": [transform]})
    with pytest.raises(ConfigError, match=f"(?s){message}") as raised:
        load_recipe(path)
    assert raised.value.path == str(path)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("[", "not JSON"),
        ([], "a recipe is an object"),
        ({"version": 1}, "a recipe is an object"),
        ({"version": 2, "transforms": []}, "version must be 1, found 2"),
        ({"transforms": []}, "version must be 1, found None"),
        ({"version": 1, "transforms": [], "comment": ""}, "unknown key 'comment'"),
        ({"version": 1, "transforms": [], "source": []}, "source must be text"),
        ({"version": 1, "transforms": [], "model": []}, "model must be an object of arguments"),
    ],
)
def test_json_that_is_no_recipe_is_refused(tmp_path, recipe, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe(write(tmp_path / "broken.json", recipe))


def test_a_recipe_that_does_not_exist_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean 'imagenet-train'"):
        load_recipe("imagenet-trian")


# Sizes of the columns of two samples.
READY_VIEWS = {
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
    assert view_recipe_names() == list(READY_VIEWS)


@pytest.mark.parametrize("name", READY_VIEWS)
def test_a_loader_takes_a_recipe_of_views(thumbnails: Path, name: str) -> None:
    with ImageLoader(thumbnails, batch_size=2, num_threads=2, transforms=load_views(name)) as loader:
        batch = next(iter(loader))._asdict()
    assert batch.pop("label").shape == (2,)
    assert {column: values.shape for column, values in batch.items()} == READY_VIEWS[name]


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
        "large": Views(2, [Resize((32, 32))], mask=BlockwiseMask(8, ratio=(0.2, 0.3))),
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
