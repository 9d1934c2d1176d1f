"""Transforms as frozen descriptions, named and parametrised as in torchvision.transforms.v2."""

from __future__ import annotations

from stoker.augment.transforms.apply import RandomApply, RandomChoice
from stoker.augment.transforms.augmix import AugMix
from stoker.augment.transforms.autoaugment import AutoAugment
from stoker.augment.transforms.base import Transform
from stoker.augment.transforms.color import (
    ColorJitter,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
)
from stoker.augment.transforms.crop import CenterCrop, RandomResizedCrop
from stoker.augment.transforms.erase import RandomErasing
from stoker.augment.transforms.filters import GaussianBlur, RandomAdjustSharpness
from stoker.augment.transforms.flip import RandomHorizontalFlip, RandomVerticalFlip
from stoker.augment.transforms.iou_crop import RandomIoUCrop
from stoker.augment.transforms.levels import (
    RandomAutocontrast,
    RandomEqualize,
    RandomPosterize,
    RandomSolarize,
)
from stoker.augment.transforms.output import Normalize, ToDtype
from stoker.augment.transforms.pad import Pad, RandomCrop
from stoker.augment.transforms.randaugment import RandAugment, TrivialAugmentWide
from stoker.augment.transforms.resize import Resize
from stoker.augment.transforms.scale_jitter import RandomResize, RandomShortestSize, ScaleJitter
from stoker.augment.transforms.warp import RandomAffine, RandomPerspective, RandomRotation
from stoker.augment.transforms.zoom_out import RandomZoomOut

__all__ = [
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ColorJitter",
    "GaussianBlur",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
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
    "TrivialAugmentWide",
]
