"""What transforms draw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import stoker.augment as aug

from .results import Near
from .sources import Sandbox

EPOCHS = (0, 1, 7)
ROWS = np.array((0, 1, 2, 3, 17, 60, 999_999, 2**33))
HEIGHTS = np.array((240, 500, 64, 333, 100, 267, 1200, 90))
WIDTHS = np.array((320, 400, 64, 500, 75, 400, 900, 260))
# Stands in for a type of the library that has no public name.
OBJECTS = SimpleNamespace(
    boxes=np.array(
        [
            (10, 20, 100, 90),
            (50, 50, 200, 220),
            (0, 0, 60, 64),
            (5, 7, 300, 240),
            (9, 9, 40, 88),
            (99, 3, 380, 250),
        ],
        np.float64,
    ),
    owner=np.array((0, 0, 2, 3, 4, 5)),
)

SIZED = [aug.Resize((40, 56))]

GEOMETRY: dict[str, list[Any]] = {
    "resize": [aug.Resize((48, 64))],
    "resize/short": [aug.Resize(80, max_size=200), aug.CenterCrop(32)],
    "resize/bicubic": [aug.Resize((32, 32), interpolation="bicubic")],
    "center": [aug.CenterCrop((70, 90))],
    "crop": [aug.Resize(64), aug.RandomCrop(48, padding=4, fill=(9, 8, 7))],
    "crop/needed": [aug.RandomCrop((300, 310), pad_if_needed=True)],
    "crop/reflect": [aug.Resize((40, 40)), aug.RandomCrop(40, padding=6, padding_mode="reflect")],
    "pad/edge": [*SIZED, aug.Pad((3, 5), padding_mode="edge"), aug.RandomHorizontalFlip()],
    "pad/symmetric": [*SIZED, aug.Pad(7, padding_mode="symmetric"), aug.RandomRotation(20)],
    "pad": [*SIZED, aug.Pad((1, 2, 3, 4), fill=50)],
    "resized": [aug.RandomResizedCrop(64), aug.RandomHorizontalFlip(), aug.RandomVerticalFlip(0.3)],
    "resized/ranges": [aug.RandomResizedCrop((32, 48), (0.3, 0.9), (0.5, 2.5), interpolation="lanczos")],
    "iou": [aug.RandomIoUCrop(), aug.Resize((40, 40))],
    "iou/options": [aug.RandomIoUCrop(0.2, 0.9, sampler_options=(0.3, 0.7), trials=9), aug.Resize((40, 40))],
    "zoom": [aug.RandomZoomOut(fill=(1, 2, 3), p=0.8), aug.Resize((40, 40))],
    "jitter": [aug.ScaleJitter((64, 64)), aug.RandomCrop(64, pad_if_needed=True)],
    "shortest": [aug.RandomShortestSize((48, 64, 80), max_size=140), aug.RandomCrop(40)],
    "random size": [aug.RandomResize(50, 90), aug.CenterCrop(44)],
}

WARPS: dict[str, list[Any]] = {
    "rotation": [*SIZED, aug.RandomRotation(30, fill=7)],
    "rotation/expand": [*SIZED, aug.RandomRotation((10, 80), expand=True), aug.Resize((40, 40))],
    "rotation/center": [*SIZED, aug.RandomRotation(15, center=(3, 9), interpolation="nearest")],
    "affine": [*SIZED, aug.RandomAffine(20, (0.1, 0.2), (0.5, 1.5), (-10, 10, -5, 5))],
    "perspective": [*SIZED, aug.RandomPerspective(0.6, p=0.7), aug.RandomHorizontalFlip()],
    "several": [*SIZED, aug.RandomRotation(9), aug.RandomAffine(0, shear=8), aug.CenterCrop(30)],
}

COLORS: dict[str, list[Any]] = {
    "jitter": [aug.ColorJitter(0.4, 0.3, 0.2, 0.1)],
    "jitter/ranges": [aug.ColorJitter((0.5, 1.5), None, (0, 2))],
    "photometric": [aug.RandomPhotometricDistort()],
    "gray": [aug.RandomGrayscale(0.5), aug.RandomInvert(0.4)],
    "posterize": [aug.RandomPosterize(3), aug.RandomSolarize(100)],
    "levels": [aug.RandomAutocontrast(), aug.RandomEqualize(0.6)],
    "filters": [aug.RandomAdjustSharpness(2), aug.GaussianBlur(5), aug.GaussianBlur((3, 7), (0.5, 3))],
    "apply": [aug.RandomApply([aug.ColorJitter(0.3), aug.GaussianBlur(3)], p=0.6)],
    "choice": [aug.RandomChoice([aug.RandomGrayscale(1), aug.RandomInvert(1)], p=(1, 2))],
    "erase": [aug.RandomErasing(0.9), aug.RandomErasing(0.5, (0.1, 0.2), (0.5, 2), (9, 8, 7))],
    "normalize": [aug.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), aug.RandomErasing(0.8, value="random")],
    "dtype": [aug.ToDtype("float32", scale=False)],
}

POLICIES: dict[str, list[Any]] = {
    "rand": [aug.RandAugment(2, 9)],
    "rand/strong": [aug.RandAugment(3, 20, 31, "nearest", fill=128)],
    "trivial": [aug.TrivialAugmentWide()],
    "auto/imagenet": [aug.AutoAugment()],
    "auto/cifar10": [aug.AutoAugment("cifar10", fill=(1, 2, 3))],
    "auto/svhn": [aug.AutoAugment("svhn", interpolation="nearest")],
    "augmix": [aug.AugMix()],
    "augmix/options": [aug.AugMix(5, 2, 3, 0.5, all_ops=False)],
}


def draw(transforms: list[Any], seed: int = 5) -> Near:
    """Returns the parameters of three epochs."""
    plan = aug.compile_image(transforms)
    needs_objects = any(isinstance(transform, aug.RandomIoUCrop) for transform in transforms)
    options: dict[str, Any] = {"objects": OBJECTS} if needs_objects else {}
    return Near(tuple(plan.draw(HEIGHTS, WIDTHS, ROWS, seed, epoch, **options) for epoch in EPOCHS))


def geometry(_: Sandbox) -> dict[str, Any]:
    """Crops, resizes, flips and padding."""
    return {name: draw(transforms) for name, transforms in GEOMETRY.items()}


def warps(_: Sandbox) -> dict[str, Any]:
    """Rotations, affine maps and perspective."""
    return {name: draw(transforms) for name, transforms in WARPS.items()}


def colors(_: Sandbox) -> dict[str, Any]:
    """Colours, levels, filters and erasing."""
    return {name: draw([*SIZED, *transforms]) for name, transforms in COLORS.items()}


def policies(_: Sandbox) -> dict[str, Any]:
    """Automatic augmentation."""
    return {name: draw([*SIZED, *transforms]) for name, transforms in POLICIES.items()}


def recipes(sandbox: Sandbox) -> dict[str, Any]:
    """Ready recipes: their transforms as JSON, and what they draw."""
    results: dict[str, Any] = {"names": aug.recipe_names()}
    for name in aug.recipe_names():
        transforms = aug.load_recipe(name)
        path = sandbox.path("recipe.json")
        aug.save_recipe(transforms, path)
        # Mosaic had another name when the results were recorded.
        results[f"{name}/json"] = path.read_text().replace('"Mosaic"', '"DetectionMosaic"')
        single = [transform for transform in transforms if not isinstance(transform, aug.BatchTransform)]
        results[name] = draw(single)
    every = [*GEOMETRY.values(), *WARPS.values(), *COLORS.values(), *POLICIES.values()]
    aug.save_recipe([transform for transforms in every for transform in transforms], path)
    return {**results, "every transform": path.read_text()}


def batch_transforms(_: Sandbox) -> dict[str, Any]:
    """What transforms of batches draw."""
    transforms = {
        "mixup": aug.MixUp(0.2),
        "cutmix": aug.CutMix(),
    }
    return {
        name: Near(tuple(transform.draw(ROWS, (48, 64), 3, epoch) for epoch in EPOCHS))
        for name, transform in transforms.items()
    }


CONFIGURATIONS = (geometry, warps, colors, policies, recipes, batch_transforms)
