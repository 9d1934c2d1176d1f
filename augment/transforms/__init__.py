"""Transforms of images, named and parametrised as in torchvision.transforms.v2 (compared with 0.29).

A new transform is a class in the file of its subject, named here. :mod:`stoker.augment` exports the same
names, and recipes find a transform by its name. :class:`Transform` says what the class provides.
"""

from __future__ import annotations

from .base import Transform
from .color import (
    ColorJitter,
    Grayscale,
    RandomChannelPermutation,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
)
from .combining import CopyPaste, DetectionMixUp, Mosaic
from .crops import CenterCrop, CoverCrop, ObjectCrop, RandomIoUCrop, RandomResizedCrop
from .nested import Identity, RandomApply, RandomChoice, RandomOrder
from .output import Normalize, RandomErasing, SubtractMean, ToDtype
from .pad import Pad, RandomCrop, RandomZoomOut
from .pixels import (
    JPEG,
    ElasticTransform,
    GaussianBlur,
    GaussianNoise,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomPosterize,
    RandomSolarize,
)
from .policies import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from .resize import Letterbox, RandomResize, RandomShortestSize, Resize, ScaleJitter
from .warps import RandomAffine, RandomHorizontalFlip, RandomPerspective, RandomRotation, RandomVerticalFlip

__all__ = [
    "JPEG",
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ColorJitter",
    "CopyPaste",
    "CoverCrop",
    "DetectionMixUp",
    "ElasticTransform",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "Letterbox",
    "Mosaic",
    "Normalize",
    "ObjectCrop",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
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
    "SubtractMean",
    "ToDtype",
    "Transform",
    "TrivialAugmentWide",
]
