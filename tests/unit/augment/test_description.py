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

from stoker.augment import (
    JPEG,
    AugMix,
    AutoAugment,
    CenterCrop,
    ColorJitter,
    CopyPaste,
    CutMix,
    DetectionMixUp,
    ElasticTransform,
    GaussianBlur,
    GaussianNoise,
    Letterbox,
    MixUp,
    Mosaic,
    Normalize,
    ObjectCrop,
    Pad,
    RandAugment,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomIoUCrop,
    RandomPerspective,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomResize,
    RandomResizedCrop,
    RandomRotation,
    RandomShortestSize,
    RandomSolarize,
    RandomVerticalFlip,
    RandomZoomOut,
    Resize,
    ScaleJitter,
    ToDtype,
    TrivialAugmentWide,
    load_recipe,
    save_recipe,
)
from stoker.errors import ConfigError
from stoker.pipeline.images.batch_transforms import split_transforms


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (Resize([50]), Resize(50)),
        (Resize((50,), max_size=60), Resize(50, max_size=60)),
        (CenterCrop([50]), CenterCrop(50)),
        (RandomCrop((50,)), RandomCrop(50)),
        (RandomResizedCrop([50]), RandomResizedCrop(50)),
        (ScaleJitter([50]), ScaleJitter(50)),
        (Pad([3], fill=[7]), Pad(3, fill=7)),
        (Pad(3, fill=7.0), Pad(3, fill=7)),
        (Pad(3, fill=np.array([1.0, 2.0, 3.0])), Pad(3, fill=(1, 2, 3))),
        (GaussianBlur([5], [0.5]), GaussianBlur(5, 0.5)),
        (Normalize([0.5], (0.25,)), Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))),
        (Normalize(np.full(3, 0.5), np.full(3, 0.25)), Normalize([0.5], [0.25])),
        (RandomErasing(value=[1]), RandomErasing(value=1)),
        (ColorJitter(np.uint8(3), hue=np.float32(0.5)), ColorJitter(3, hue=0.5)),
        (RandomRotation(np.uint8(30)), RandomRotation(30)),
        (RandomRotation(0), RandomRotation((0, 0))),
        (ColorJitter(hue=0), ColorJitter(hue=(0, 0))),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_a_sequence_of_one_an_array_and_a_number_mean_the_same(given, meant):
    assert given == meant
    assert repr(given) == repr(meant)


def test_any_sequence_is_accepted():
    def some(*items):
        return UserList(items)  # as the lists of configuration libraries

    assert CenterCrop(some(5, 6)) == CenterCrop((5, 6))
    assert RandomResizedCrop(8, some(0.2, 1), np.array([1, 2])) == RandomResizedCrop(8, (0.2, 1), (1, 2))
    given = RandomAffine(
        some(1, 2), some(0, 1), some(1, 2), some(1, 2, 3, 4), "nearest", some(1, 2, 3), some(3, 4)
    )
    assert given == RandomAffine((1, 2), (0, 1), (1, 2), (1, 2, 3, 4), "nearest", (1, 2, 3), (3, 4))
    assert RandomIoUCrop(sampler_options=some(0.5)) == RandomIoUCrop(sampler_options=(0.5,))
    transforms = some(RandomGrayscale(), RandomInvert())
    assert RandomChoice(transforms, some(1, 2)) == RandomChoice((RandomGrayscale(), RandomInvert()), (1, 2))
    assert split_transforms(some(CenterCrop(8), MixUp()))[0] == (CenterCrop(8),)


@pytest.mark.parametrize(
    "transform",
    [
        RandomGrayscale(np.float32(0.25)),
        RandomPosterize(np.uint8(3), p=np.float64(0.5)),
        RandomSolarize(np.int64(128)),
        RandAugment(np.int64(2), np.int32(5), np.uint8(11)),
        RandomIoUCrop(trials=np.int64(7), max_aspect_ratio=np.float32(2)),
        RandomApply([RandomGrayscale(np.float32(0.25))], np.float32(0.5)),
        MixUp(alpha=np.float32(0.5)),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_numbers_of_numpy_are_saved_as_numbers(transform, tmp_path):
    save_recipe([transform], tmp_path / "recipe.json")
    (loaded,) = load_recipe(tmp_path / "recipe.json")
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
    *(RandomHorizontalFlip, RandomVerticalFlip, RandomPerspective, RandomZoomOut, RandomPhotometricDistort),
    *(RandomGrayscale, RandomInvert, RandomAutocontrast, RandomEqualize, RandomErasing, MixUp, CutMix),
    *(DetectionMixUp, CopyPaste),
]
WARPING: list[tuple[type[Any], dict[str, Any]]] = [
    *((kind, {"degrees": 5}) for kind in (RandomRotation, RandomAffine)),
    *((kind, {}) for kind in (RandomPerspective, RandAugment, TrivialAugmentWide, AutoAugment, AugMix)),
    (ElasticTransform, {}),
]
NAN, INFINITE = float("nan"), float("inf")
NOT_A_PROBABILITY = (-1, 1.1, 2, NAN, "0.5", None)
NOT_A_SIZE = (0, -1, True, 2.5, None, "224", (), (224, 0), (1, 2, 3), 2**31, 10**25, {"height": 3})
NOT_A_FILL = (-1, 256, 7.5, NAN, (1, 2), "red")
NOT_A_WARPING = ("bicubic", Mode.BICUBIC, "lanczos", "cubic", None, 0)
NOT_A_RANGE = ((0.5, 0.1), (1, INFINITE), (NAN, 1), "1", 0.5)
# A transform, its other arguments, the argument that is refused, and values of it.
REFUSED: list[tuple[type[Any], dict[str, Any], str, Sequence[Any]]] = [
    (Resize, {}, "size", (*(size for size in NOT_A_SIZE if size is not None), -5)),
    (Resize, {"size": None}, "max_size", (None, 0)),
    (Resize, {"size": 256}, "max_size", (255,)),
    (Resize, {"size": (224, 224)}, "max_size", (300,)),
    *((kind, {"size": 8}, "interpolation", NOT_AN_INTERPOLATION) for kind in (Resize, RandomResizedCrop)),
    (CenterCrop, {}, "size", NOT_A_SIZE),
    (RandomResizedCrop, {"size": 8}, "scale", (*NOT_A_RANGE, (-0.1, 1))),
    (RandomResizedCrop, {"size": 8}, "ratio", (*NOT_A_RANGE, (0, 1))),
    (RandomCrop, {}, "size", NOT_A_SIZE),
    (RandomCrop, {"size": 8}, "padding", ("4", (1, 2, 3))),
    (RandomCrop, {"size": 8}, "pad_if_needed", (1,)),
    (RandomCrop, {"size": 8}, "fill", (None, *NOT_A_FILL)),
    (RandomCrop, {"size": 8}, "padding_mode", NOT_A_MODE),
    (Pad, {}, "padding", (-1, (1, 2, 3), 1.5, False, 10**25)),
    (Pad, {"padding": 3}, "fill", (None, *NOT_A_FILL)),
    (Pad, {"padding": 3}, "padding_mode", NOT_A_MODE),
    (Letterbox, {}, "size", NOT_A_SIZE),
    (Letterbox, {"size": 8}, "fill", (None, *NOT_A_FILL)),
    (Letterbox, {"size": 8}, "enlarge", (1,)),
    (RandomZoomOut, {}, "fill", (None, *NOT_A_FILL)),
    (RandomZoomOut, {}, "side_range", ((0.5, 2),)),
    (ScaleJitter, {}, "target_size", NOT_A_SIZE),
    (ScaleJitter, {"target_size": 9}, "scale_range", (*NOT_A_RANGE, (0, 1))),
    (RandomShortestSize, {}, "min_size", ((), 0)),
    (RandomShortestSize, {"min_size": 9}, "max_size", (0,)),
    (RandomResize, {"max_size": 9}, "min_size", (0,)),
    (RandomResize, {"min_size": 9}, "max_size", (9,)),
    (ScaleJitter, {"target_size": 9}, "interpolation", NOT_AN_INTERPOLATION),
    (RandomShortestSize, {"min_size": 9}, "interpolation", NOT_AN_INTERPOLATION),
    (RandomResize, {"min_size": 8, "max_size": 9}, "interpolation", NOT_AN_INTERPOLATION),
    (RandomIoUCrop, {}, "min_scale", (0,)),
    (RandomIoUCrop, {"min_scale": 0.5}, "max_scale", (0.4, 1.1)),
    (RandomIoUCrop, {}, "min_aspect_ratio", (0,)),
    (RandomIoUCrop, {}, "max_aspect_ratio", (0.1,)),
    (RandomIoUCrop, {}, "sampler_options", ((),)),
    (RandomIoUCrop, {}, "trials", (0,)),
    *((kind, {}, "p", NOT_A_PROBABILITY) for kind in WITH_PROBABILITY),
    (RandomRotation, {}, "degrees", (-5, (5, -5))),
    (RandomRotation, {"degrees": 5}, "center", (3, (3, NAN), (3, 4, 5))),
    (RandomRotation, {"degrees": 5, "expand": True}, "center", ((1, 2),)),
    (RandomRotation, {"degrees": 5}, "expand", (1,)),
    (RandomAffine, {"degrees": 5}, "center", (3, (3, NAN), (3, 4, 5))),
    (RandomAffine, {"degrees": 0}, "translate", ((0.1, 1.1), 0.1)),
    (RandomAffine, {"degrees": 0}, "scale", ((0, 1),)),
    (RandomAffine, {"degrees": 0}, "shear", (90, (0, 1, 2), (0, 1, 2, 1))),
    (RandomPerspective, {}, "distortion_scale", (1.5, -1)),
    *((kind, given, "interpolation", NOT_A_WARPING) for kind, given in WARPING),
    *((kind, given, "fill", NOT_A_FILL) for kind, given in WARPING),
    (ColorJitter, {}, "brightness", (-0.1, (1.5, 0.5))),
    (ColorJitter, {}, "contrast", ((1.5, 0.5),)),
    (ColorJitter, {}, "saturation", ("0.5",)),
    (ColorJitter, {}, "hue", (0.6, -0.1, (-0.6, 0))),
    (RandomPhotometricDistort, {}, "contrast", (0.5,)),
    (RandomPhotometricDistort, {}, "hue", ((0, 1),)),
    (RandomPosterize, {}, "bits", (-1, 9)),
    (RandomSolarize, {}, "threshold", (NAN,)),
    (GaussianBlur, {}, "kernel_size", (4, (3, 0), (3, 3, 3))),
    (GaussianBlur, {"kernel_size": 3}, "sigma", (0, (2, 1))),
    (RandomAdjustSharpness, {}, "sharpness_factor", (-1,)),
    (GaussianNoise, {}, "sigma", (-1,)),
    (GaussianNoise, {}, "clip", (False,)),
    (JPEG, {}, "quality", (0, 101, (50, 40), (1, 2, 3), 2.5)),
    (ElasticTransform, {}, "alpha", ((1, 2, 3), NAN)),
    (ElasticTransform, {}, "sigma", (-1, 1001)),
    (RandomErasing, {}, "scale", ((0.1, 1.5),)),
    (RandomErasing, {}, "ratio", ((0, 1),)),
    (RandomErasing, {}, "value", ("noise", None, ())),
    (Normalize, {}, "mean", ("0.5", ())),
    (Normalize, {}, "std", ((0.2, 0, 0.2),)),
    (ToDtype, {}, "dtype", ("int8",)),
    (ToDtype, {}, "scale", (1,)),
    (RandAugment, {}, "num_ops", (-1, np.array([1, 2]))),
    (RandAugment, {}, "magnitude", (31, np.array([1, 2]))),
    (RandAugment, {"magnitude": 0}, "num_magnitude_bins", (1,)),
    (TrivialAugmentWide, {}, "num_magnitude_bins", (1, 10**25)),
    (AutoAugment, {}, "policy", ("coco", [], {"name": "RandAugment"})),
    (AugMix, {}, "severity", (11,)),
    (AugMix, {}, "mixture_width", (0,)),
    (AugMix, {}, "chain_depth", (1.5,)),
    (AugMix, {}, "alpha", (0,)),
    (AugMix, {}, "all_ops", (1,)),
    (RandomApply, {}, "transforms", ([], RandomInvert(), [RandomErasing()])),
    (RandomChoice, {}, "transforms", ([ToDtype()], [Normalize])),
    (RandomApply, {"transforms": [RandomInvert()]}, "p", NOT_A_PROBABILITY),
    (RandomChoice, {"transforms": [RandomInvert()]}, "p", ([1, 2], [0])),
    (RandomChoice, {"transforms": [RandomInvert(), RandomInvert()]}, "p", ([2, -1],)),
    *((kind, {}, "alpha", (0, -1, INFINITE, "1", None)) for kind in (MixUp, CutMix, DetectionMixUp)),
    (Mosaic, {}, "size", NOT_A_SIZE),
    (Mosaic, {"size": 8}, "center", ((0.5, 1.5),)),
    (Mosaic, {"size": 8}, "scale", ((0, 1), (1, 0.5))),
    (Mosaic, {"size": 8}, "translate", (-1, 2)),
    (Mosaic, {"size": 8}, "buffer", (0, 2)),
    (Mosaic, {"size": 8}, "stop_epoch", (-1,)),
    (CopyPaste, {}, "min_left", (-1, 2)),
    (ObjectCrop, {"size": 8}, "padding", (0,)),
    (ObjectCrop, {"size": 8}, "scale", (-1, 1)),
    (ObjectCrop, {"size": 8}, "degrees", (-1, 181)),
]


@pytest.mark.parametrize(
    ("kind", "given", "name", "value"),
    [(kind, given, name, value) for kind, given, name, values in REFUSED for value in values],
)
def test_a_bad_argument_is_named_with_its_rule_and_value(kind, given, name, value):
    with pytest.raises(ConfigError, match=rf"{kind.__name__}: {name} must be .*, found "):
        kind(**{**given, name: value})


@pytest.mark.parametrize("kind", [Resize, RandomResizedCrop])
def test_interpolations_of_torchvision_are_accepted(kind):
    assert kind(8, interpolation=Mode.BICUBIC) == kind(8, interpolation="bicubic")
    assert kind(8, interpolation=Mode.NEAREST_EXACT) == kind(8, interpolation="nearest")


def test_a_recipe_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text('{"version": 1, "transforms": ' + "[" * 100_000 + "]" * 100_000 + "}", "utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_recipe(path)
    nested = '{"name": "RandomHorizontalFlip"}'
    for _ in range(800):
        nested = f'{{"name": "RandomApply", "transforms": [{nested}]}}'
    path.write_text(f'{{"version": 1, "transforms": [{nested}]}}', "utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_recipe(path)


def test_arguments_have_one_form_and_descriptions_compare_by_value():
    assert CenterCrop(224) == CenterCrop([224, 224]) == CenterCrop((np.int64(224), 224))
    assert Resize(256).size == 256
    assert Normalize(mean=[0, 0, 0]).mean == (0.0, 0.0, 0.0)
    assert hash(RandomResizedCrop(8)) == hash(RandomResizedCrop((8, 8)))
    assert repr(RandomHorizontalFlip(0.25)) == "RandomHorizontalFlip(p=0.25)"
