"""Arguments in all forms that torchvision.transforms.v2 takes, NumPy's numbers, and what JSON can hold."""

from __future__ import annotations

import json
from collections import UserList
from dataclasses import fields

import numpy as np
import pytest

from stoker.augment import (
    AutoAugment,
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    MixUp,
    Normalize,
    Pad,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomInvert,
    RandomIoUCrop,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    Resize,
    ScaleJitter,
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


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: AutoAugment(policy=[]), "policy"),
        (lambda: AutoAugment(policy={"name": "RandAugment"}), "policy"),
        (lambda: RandAugment(np.array([1, 2])), "num_ops"),
        (lambda: RandAugment(magnitude=np.array([1, 2])), "magnitude"),
        (lambda: TrivialAugmentWide(10**25), "num_magnitude_bins"),
        (lambda: Pad(10**25), "padding"),
        (lambda: Pad(False), "padding"),
        (lambda: Pad(3, fill=7.5), "fill"),
        (lambda: Pad(3, fill=float("nan")), "fill"),
        (lambda: CenterCrop(10**25), "size"),
        (lambda: CenterCrop({"height": 3}), "size"),
    ],
)
def test_a_bad_value_of_any_type_is_named(make, name):
    with pytest.raises(ConfigError, match=rf"\w+: {name} must be .*, found "):
        make()


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
