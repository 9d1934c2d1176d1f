"""Arguments in all forms that torchvision.transforms.v2 takes, NumPy's numbers, and what JSON can hold."""

from __future__ import annotations

import enum
import json
from collections import UserList
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from stoker import augment
from stoker.errors import ConfigError
from stoker.pipeline.images.batch_transforms import split_transforms


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (augment.Resize([50]), augment.Resize(50)),
        (augment.Resize((50,), max_size=60), augment.Resize(50, max_size=60)),
        (augment.CenterCrop([50]), augment.CenterCrop(50)),
        (augment.RandomCrop((50,)), augment.RandomCrop(50)),
        (augment.RandomResizedCrop([50]), augment.RandomResizedCrop(50)),
        (augment.ScaleJitter([50]), augment.ScaleJitter(50)),
        (augment.Pad([3], fill=[7]), augment.Pad(3, fill=7)),
        (augment.Pad(3, fill=7.0), augment.Pad(3, fill=7)),
        (augment.Pad(3, fill=np.array([1.0, 2.0, 3.0])), augment.Pad(3, fill=(1, 2, 3))),
        (augment.GaussianBlur([5], [0.5]), augment.GaussianBlur(5, 0.5)),
        (augment.Normalize([0.5], (0.25,)), augment.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))),
        (augment.Normalize(np.full(3, 0.5), np.full(3, 0.25)), augment.Normalize([0.5], [0.25])),
        (augment.RandomErasing(value=[1]), augment.RandomErasing(value=1)),
        (augment.ColorJitter(np.uint8(3), hue=np.float32(0.5)), augment.ColorJitter(3, hue=0.5)),
        (augment.RandomRotation(np.uint8(30)), augment.RandomRotation(30)),
        (augment.RandomRotation(0), augment.RandomRotation((0, 0))),
        (augment.ColorJitter(hue=0), augment.ColorJitter(hue=(0, 0))),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_a_sequence_of_one_an_array_and_a_number_mean_the_same(given, meant):
    assert given == meant
    assert repr(given) == repr(meant)


def test_any_sequence_is_accepted():
    some = UserList  # as the lists of configuration libraries
    given = augment.RandomAffine(some((1, 2)), some((0, 1)), None, some((1, 2, 3, 4)), fill=some((1, 2, 3)))
    assert given == augment.RandomAffine((1, 2), (0, 1), None, (1, 2, 3, 4), fill=(1, 2, 3))
    transforms = some([augment.CenterCrop(some((5, 6))), augment.MixUp()])
    assert split_transforms(transforms)[0] == (augment.CenterCrop((5, 6)),)


@pytest.mark.parametrize(
    "transform",
    [
        augment.RandomGrayscale(np.float32(0.25)),
        augment.RandomPosterize(np.uint8(3), p=np.float64(0.5)),
        augment.RandomSolarize(np.int64(128)),
        augment.RandAugment(np.int64(2), np.int32(5), np.uint8(11)),
        augment.RandomIoUCrop(trials=np.int64(7), max_aspect_ratio=np.float32(2)),
        augment.RandomApply([augment.RandomGrayscale(np.float32(0.25))], np.float32(0.5)),
        augment.MixUp(alpha=np.float32(0.5)),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_numbers_of_numpy_are_saved_as_numbers(transform, tmp_path):
    augment.save_recipe([transform], tmp_path / "recipe.json")
    (loaded,) = augment.load_recipe(tmp_path / "recipe.json")
    assert loaded == transform
    json.dumps(transform.to_dict())
    for item in fields(loaded):
        assert not isinstance(getattr(loaded, item.name), np.generic)


class Mode(enum.Enum):
    """Interpolations as torchvision has them."""

    NEAREST_EXACT = "nearest-exact"
    NEAREST = "nearest"
    BICUBIC = "bicubic"
    HAMMING = "hamming"


NOT_AN_INTERPOLATION = ("cubic", "BICUBIC", Mode.HAMMING, 3, None, ["bicubic"])
NOT_A_MODE = ("wrap", None, "Edge", 0, ["edge"])
WITH_PROBABILITY = [
    *(
        augment.RandomHorizontalFlip,
        augment.RandomVerticalFlip,
        augment.RandomPerspective,
        augment.RandomZoomOut,
        augment.RandomPhotometricDistort,
    ),
    *(
        augment.RandomGrayscale,
        augment.RandomInvert,
        augment.RandomAutocontrast,
        augment.RandomEqualize,
        augment.RandomErasing,
        augment.MixUp,
        augment.CutMix,
    ),
    *(augment.DetectionMixUp, augment.CopyPaste),
]
WARPING: list[tuple[type[Any], dict[str, Any]]] = [
    *((kind, {"degrees": 5}) for kind in (augment.RandomRotation, augment.RandomAffine)),
    *(
        (kind, {})
        for kind in (
            augment.RandomPerspective,
            augment.RandAugment,
            augment.TrivialAugmentWide,
            augment.AutoAugment,
            augment.AugMix,
        )
    ),
    (augment.ElasticTransform, {}),
]
NAN, INFINITE = float("nan"), float("inf")
NOT_A_PROBABILITY = (-1, 1.1, 2, NAN, "0.5", None)
NOT_A_SIZE = (0, -1, True, 2.5, None, "224", (), (224, 0), (1, 2, 3), 2**31, 10**25, {"height": 3})
NOT_A_FILL = (-1, 256, 7.5, NAN, (1, 2), "red")
NOT_A_WARPING = ("bicubic", Mode.BICUBIC, "lanczos", "cubic", None, 0)
NOT_A_RANGE = ((0.5, 0.1), (1, INFINITE), (NAN, 1), "1", 0.5)
# A transform, its other arguments, the argument that is refused, and values of it.
REFUSED: list[tuple[type[Any], dict[str, Any], str, Sequence[Any]]] = [
    (augment.Resize, {}, "size", (*(size for size in NOT_A_SIZE if size is not None), -5)),
    (augment.Resize, {"size": None}, "max_size", (None, 0)),
    (augment.Resize, {"size": 256}, "max_size", (255,)),
    (augment.Resize, {"size": (224, 224)}, "max_size", (300,)),
    *(
        (kind, {"size": 8}, "interpolation", NOT_AN_INTERPOLATION)
        for kind in (augment.Resize, augment.RandomResizedCrop)
    ),
    (augment.CenterCrop, {}, "size", NOT_A_SIZE),
    (augment.RandomResizedCrop, {"size": 8}, "scale", (*NOT_A_RANGE, (-0.1, 1))),
    (augment.RandomResizedCrop, {"size": 8}, "ratio", (*NOT_A_RANGE, (0, 1))),
    (augment.RandomCrop, {}, "size", NOT_A_SIZE),
    (augment.RandomCrop, {"size": 8}, "padding", ("4", (1, 2, 3))),
    (augment.RandomCrop, {"size": 8}, "pad_if_needed", (1,)),
    (augment.RandomCrop, {"size": 8}, "fill", (None, *NOT_A_FILL)),
    (augment.RandomCrop, {"size": 8}, "padding_mode", NOT_A_MODE),
    (augment.Pad, {}, "padding", (-1, (1, 2, 3), 1.5, False, 10**25)),
    (augment.Pad, {"padding": 3}, "fill", (None, *NOT_A_FILL)),
    (augment.Pad, {"padding": 3}, "padding_mode", NOT_A_MODE),
    (augment.Letterbox, {}, "size", NOT_A_SIZE),
    (augment.Letterbox, {"size": 8}, "fill", (None, *NOT_A_FILL)),
    (augment.Letterbox, {"size": 8}, "enlarge", (1,)),
    (augment.RandomZoomOut, {}, "fill", (None, *NOT_A_FILL)),
    (augment.RandomZoomOut, {}, "side_range", ((0.5, 2),)),
    (augment.ScaleJitter, {}, "target_size", NOT_A_SIZE),
    (augment.ScaleJitter, {"target_size": 9}, "scale_range", (*NOT_A_RANGE, (0, 1))),
    (augment.RandomShortestSize, {}, "min_size", ((), 0)),
    (augment.RandomShortestSize, {"min_size": 9}, "max_size", (0,)),
    (augment.RandomResize, {"max_size": 9}, "min_size", (0,)),
    (augment.RandomResize, {"min_size": 9}, "max_size", (9,)),
    (augment.ScaleJitter, {"target_size": 9}, "interpolation", NOT_AN_INTERPOLATION),
    (augment.RandomShortestSize, {"min_size": 9}, "interpolation", NOT_AN_INTERPOLATION),
    (augment.RandomResize, {"min_size": 8, "max_size": 9}, "interpolation", NOT_AN_INTERPOLATION),
    (augment.RandomIoUCrop, {}, "min_scale", (0,)),
    (augment.RandomIoUCrop, {"min_scale": 0.5}, "max_scale", (0.4, 1.1)),
    (augment.RandomIoUCrop, {}, "min_aspect_ratio", (0,)),
    (augment.RandomIoUCrop, {}, "max_aspect_ratio", (0.1,)),
    (augment.RandomIoUCrop, {}, "sampler_options", ((),)),
    (augment.RandomIoUCrop, {}, "trials", (0,)),
    *((kind, {}, "p", NOT_A_PROBABILITY) for kind in WITH_PROBABILITY),
    (augment.RandomRotation, {}, "degrees", (-5, (5, -5))),
    (augment.RandomRotation, {"degrees": 5}, "center", (3, (3, NAN), (3, 4, 5))),
    (augment.RandomRotation, {"degrees": 5, "expand": True}, "center", ((1, 2),)),
    (augment.RandomRotation, {"degrees": 5}, "expand", (1,)),
    (augment.RandomAffine, {"degrees": 5}, "center", (3, (3, NAN), (3, 4, 5))),
    (augment.RandomAffine, {"degrees": 0}, "translate", ((0.1, 1.1), 0.1)),
    (augment.RandomAffine, {"degrees": 0}, "scale", ((0, 1),)),
    (augment.RandomAffine, {"degrees": 0}, "shear", (90, (0, 1, 2), (0, 1, 2, 1))),
    (augment.RandomPerspective, {}, "distortion_scale", (1.5, -1)),
    *((kind, given, "interpolation", NOT_A_WARPING) for kind, given in WARPING),
    *((kind, given, "fill", NOT_A_FILL) for kind, given in WARPING),
    (augment.ColorJitter, {}, "brightness", (-0.1, (1.5, 0.5))),
    (augment.ColorJitter, {}, "contrast", ((1.5, 0.5),)),
    (augment.ColorJitter, {}, "saturation", ("0.5",)),
    (augment.ColorJitter, {}, "hue", (0.6, -0.1, (-0.6, 0))),
    (augment.RandomPhotometricDistort, {}, "contrast", (0.5,)),
    (augment.RandomPhotometricDistort, {}, "hue", ((0, 1),)),
    (augment.RandomPosterize, {}, "bits", (-1, 9)),
    (augment.RandomSolarize, {}, "threshold", (NAN,)),
    (augment.GaussianBlur, {}, "kernel_size", (4, (3, 0), (3, 3, 3))),
    (augment.GaussianBlur, {"kernel_size": 3}, "sigma", (0, (2, 1))),
    (augment.RandomAdjustSharpness, {}, "sharpness_factor", (-1,)),
    (augment.GaussianNoise, {}, "sigma", (-1,)),
    (augment.GaussianNoise, {}, "clip", (False,)),
    (augment.JPEG, {}, "quality", (0, 101, (50, 40), (1, 2, 3), 2.5)),
    (augment.ElasticTransform, {}, "alpha", ((1, 2, 3), NAN)),
    (augment.ElasticTransform, {}, "sigma", (-1, 1001)),
    (augment.RandomErasing, {}, "scale", ((0.1, 1.5),)),
    (augment.RandomErasing, {}, "ratio", ((0, 1),)),
    (augment.RandomErasing, {}, "value", ("noise", None, ())),
    (augment.Normalize, {}, "mean", ("0.5", ())),
    (augment.Normalize, {}, "std", ((0.2, 0, 0.2),)),
    (augment.ToDtype, {}, "dtype", ("int8",)),
    (augment.ToDtype, {}, "scale", (1,)),
    (augment.RandAugment, {}, "num_ops", (-1, np.array([1, 2]))),
    (augment.RandAugment, {}, "magnitude", (31, np.array([1, 2]))),
    (augment.RandAugment, {"magnitude": 0}, "num_magnitude_bins", (1,)),
    (augment.TrivialAugmentWide, {}, "num_magnitude_bins", (1, 10**25)),
    (augment.AutoAugment, {}, "policy", ("coco", [], {"name": "RandAugment"})),
    (augment.AugMix, {}, "severity", (11,)),
    (augment.AugMix, {}, "mixture_width", (0,)),
    (augment.AugMix, {}, "chain_depth", (1.5,)),
    (augment.AugMix, {}, "alpha", (0,)),
    (augment.AugMix, {}, "all_ops", (1,)),
    (augment.RandomApply, {}, "transforms", ([], augment.RandomInvert(), [augment.RandomErasing()])),
    (augment.RandomChoice, {}, "transforms", ([augment.ToDtype()], [augment.Normalize])),
    (augment.RandomApply, {"transforms": [augment.RandomInvert()]}, "p", NOT_A_PROBABILITY),
    (augment.RandomChoice, {"transforms": [augment.RandomInvert()]}, "p", ([1, 2], [0])),
    (augment.RandomChoice, {"transforms": [augment.RandomInvert(), augment.RandomInvert()]}, "p", ([2, -1],)),
    *(
        (kind, {}, "alpha", (0, -1, INFINITE, "1", None))
        for kind in (augment.MixUp, augment.CutMix, augment.DetectionMixUp)
    ),
    (augment.Mosaic, {}, "size", NOT_A_SIZE),
    (augment.Mosaic, {"size": 8}, "center", ((0.5, 1.5),)),
    (augment.Mosaic, {"size": 8}, "scale", ((0, 1), (1, 0.5))),
    (augment.Mosaic, {"size": 8}, "translate", (-1, 2)),
    (augment.Mosaic, {"size": 8}, "buffer", (0, 2)),
    (augment.Mosaic, {"size": 8}, "stop_epoch", (-1,)),
    (augment.CopyPaste, {}, "min_left", (-1, 2)),
    (augment.ObjectCrop, {"size": 8}, "padding", (0,)),
    (augment.ObjectCrop, {"size": 8}, "scale", (-1, 1)),
    (augment.ObjectCrop, {"size": 8}, "degrees", (-1, 181)),
]


@pytest.mark.parametrize(
    ("kind", "given", "name", "value"),
    [(kind, given, name, value) for kind, given, name, values in REFUSED for value in values],
)
def test_a_bad_argument_is_named_with_its_rule_and_value(kind, given, name, value):
    with pytest.raises(ConfigError, match=rf"{kind.__name__}: {name} must be .*, found "):
        kind(**{**given, name: value})


@pytest.mark.parametrize("kind", [augment.Resize, augment.RandomResizedCrop])
def test_interpolations_of_torchvision_are_accepted(kind):
    assert kind(8, interpolation=Mode.BICUBIC) == kind(8, interpolation="bicubic")
    assert kind(8, interpolation=Mode.NEAREST_EXACT) == kind(8, interpolation="nearest")


def test_a_recipe_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text('{"version": 1, "transforms": ' + "[" * 100_000 + "]" * 100_000 + "}", "utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        augment.load_recipe(path)
    nested = '{"name": "RandomHorizontalFlip"}'
    for _ in range(800):
        nested = f'{{"name": "RandomApply", "transforms": [{nested}]}}'
    path.write_text(f'{{"version": 1, "transforms": [{nested}]}}', "utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        augment.load_recipe(path)
