"""What happens to a sample, as data.

Transforms are frozen descriptions named as in torchvision.transforms.v2; ``compile_image`` turns a
list of them into a plan, and the plan decides the parameters of a batch, which engines execute.
"""

from __future__ import annotations

from stoker.augment.batch import BatchTransform
from stoker.augment.mix import CutMix, MixUp
from stoker.augment.mosaic import Mosaic
from stoker.augment.params import ImageParams, ImagePlan, compile_image
from stoker.augment.recipe import load_recipe, recipe_names, save_recipe
from stoker.augment.transforms import (
    CenterCrop,
    ColorJitter,
    Normalize,
    Pad,
    RandomAffine,
    RandomAutocontrast,
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
    Transform,
)

__all__ = [
    "BatchTransform",
    "CenterCrop",
    "ColorJitter",
    "CutMix",
    "ImageParams",
    "ImagePlan",
    "MixUp",
    "Mosaic",
    "Normalize",
    "Pad",
    "RandomAffine",
    "RandomAutocontrast",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "ScaleJitter",
    "ToDtype",
    "Transform",
    "compile_image",
    "load_recipe",
    "recipe_names",
    "save_recipe",
]
