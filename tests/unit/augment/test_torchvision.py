"""The translation of torchvision's transforms, which stand-ins with their attributes show."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from stoker import augment
from stoker.augment.torchvision import stoker_transforms
from stoker.errors import ConfigError


class Interpolation(Enum):
    """As torchvision's ``InterpolationMode``."""

    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    HAMMING = "hamming"


def of_torchvision(name: str, **attributes: Any) -> Any:
    """An object of a class of this name."""
    made = type(name, (), {})()
    vars(made).update(attributes)
    return made


def compose(*transforms: Any) -> Any:
    return of_torchvision("Compose", transforms=list(transforms))


CROP = of_torchvision(
    "RandomResizedCrop",
    size=(224, 224),
    scale=(0.2, 1.0),
    ratio=(0.75, 1.25),
    interpolation=Interpolation.BICUBIC,
    antialias=True,
)
FLIP = of_torchvision("RandomHorizontalFlip", p=0.3)
JITTER = of_torchvision("ColorJitter", brightness=(0.6, 1.4), contrast=None, saturation=None, hue=(-0.1, 0.1))


def test_a_pipeline_of_version_1() -> None:
    norm = of_torchvision("Normalize", mean=[0.5] * 3, std=[0.2] * 3)
    erase = of_torchvision("RandomErasing", p=0.25, scale=(0.02, 0.3), ratio=(0.3, 3.3), value=None)
    made = stoker_transforms(compose(CROP, FLIP, of_torchvision("ToTensor"), norm, erase))
    assert made == [
        augment.RandomResizedCrop(224, scale=(0.2, 1.0), ratio=(0.75, 1.25), interpolation="bicubic"),
        augment.RandomHorizontalFlip(0.3),
        augment.ToDtype("float32"),
        augment.Normalize((0.5,) * 3, (0.2,) * 3),
        augment.RandomErasing(0.25, scale=(0.02, 0.3), ratio=(0.3, 3.3), value="random"),
    ]


def test_nested_transforms_and_those_that_are_not_needed() -> None:
    apply = of_torchvision("RandomApply", transforms=[JITTER], p=0.8)
    choice = of_torchvision(
        "RandomChoice", transforms=[FLIP, of_torchvision("RandomVerticalFlip", p=1)], p=None
    )
    made = stoker_transforms(
        compose(of_torchvision("ToImage"), compose(apply, choice), of_torchvision("ToPureTensor"))
    )
    jitter = augment.ColorJitter((0.6, 1.4), hue=(-0.1, 0.1))
    flips = [augment.RandomHorizontalFlip(0.3), augment.RandomVerticalFlip(1)]
    assert made == [augment.RandomApply([jitter], 0.8), augment.RandomChoice(flips)]
    assert stoker_transforms(of_torchvision("CenterCrop", size=(8, 8))) == [augment.CenterCrop(8)]


def test_a_crop_of_timm_draws_its_interpolation() -> None:
    both = (Interpolation.BILINEAR, Interpolation.BICUBIC)
    crop = of_torchvision(
        "RandomResizedCropAndInterpolation", size=(8, 8), scale=(0.2, 1), ratio=(0.75, 1.25)
    )
    crop.interpolation = both
    crops = [augment.RandomResizedCrop(8, (0.2, 1.0), (0.75, 1.25), one.value) for one in both]
    assert stoker_transforms(crop) == [augment.RandomChoice(crops)]


def test_transforms_of_stoker_stay() -> None:
    own = augment.Resize((8, 8))
    assert stoker_transforms(own) == stoker_transforms([own]) == [own]
    assert stoker_transforms([own, FLIP]) == [own, augment.RandomHorizontalFlip(0.3)]
    assert stoker_transforms(None) == []
    named = {"weak": [own]}
    assert stoker_transforms(named) is named


class Preset:
    """As a class of torchvision's references."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = compose(*transforms)

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class Doing(Preset):
    def __call__(self, image: Any) -> Any:
        return self.transforms(image) * 2


def test_presets() -> None:
    assert stoker_transforms(Preset(FLIP)) == [augment.RandomHorizontalFlip(0.3)]
    assert stoker_transforms(Preset()) == []
    with pytest.raises(ConfigError, match="Doing has no equivalent"):
        stoker_transforms(Doing(FLIP))
    of_weights = of_torchvision(
        "ImageClassification",
        crop_size=[224],
        resize_size=[232],
        mean=[0.5] * 3,
        std=[0.2] * 3,
        interpolation=Interpolation.BICUBIC,
        antialias=True,
    )
    assert stoker_transforms(of_weights) == [
        augment.Resize(232, interpolation="bicubic"),
        augment.CenterCrop(224),
        augment.Normalize((0.5,) * 3, (0.2,) * 3),
    ]


def test_values_lose_the_types_of_their_library() -> None:
    tensor = type("Tensor", (), {"__module__": "torch", "tolist": lambda self: [0.5] * 3})()
    assert stoker_transforms(of_torchvision("Normalize", mean=tensor, std=tensor)) == [
        augment.Normalize((0.5,) * 3, (0.5,) * 3)
    ]
    float16 = type("dtype", (), {"__module__": "torch", "__str__": lambda self: "torch.float16"})()
    for name, options in (("ConvertImageDtype", {}), ("ToDtype", {"scale": True})):
        assert stoker_transforms(of_torchvision(name, dtype=float16, **options)) == [
            augment.ToDtype("float16")
        ]


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (compose(CROP, of_torchvision("FiveCrop", size=3)), "the transform FiveCrop has no equivalent"),
        (lambda image: image, "<lambda>.* has no equivalent"),
        # Not torchvision's, but timm's.
        (of_torchvision("RandAugment", ops=[], num_layers=2), "RandAugment has no equivalent"),
        (of_torchvision("RandomErasing", probability=0.25, mode="pixel"), "RandomErasing has no equivalent"),
        (
            of_torchvision("Resize", size=8, interpolation=Interpolation.HAMMING, max_size=None),
            "Resize of torchvision: .*hamming",
        ),
    ],
)
def test_refusals(transform: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stoker_transforms(transform)
