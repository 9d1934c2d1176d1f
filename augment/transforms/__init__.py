"""Transforms of images, named and parametrised as in torchvision.transforms.v2 (compared with 0.29).

A new transform is a class in the file of its subject, named here. :mod:`stoker.augment` exports the same
names, and recipes find a transform by its name. :class:`Transform` says what the class provides.
"""

from __future__ import annotations

from .base import Transform
from .combining.copy_paste import CopyPaste
from .combining.mixup import DetectionMixUp
from .combining.mosaic import DetectionMosaic
from .geometry.cover_crop import CoverCrop
from .geometry.crop import CenterCrop, RandomResizedCrop
from .geometry.flip import RandomHorizontalFlip, RandomVerticalFlip
from .geometry.iou_crop import RandomIoUCrop
from .geometry.letterbox import Letterbox
from .geometry.pad import Pad, RandomCrop
from .geometry.resize import Resize
from .geometry.scale_jitter import RandomResize, RandomShortestSize, ScaleJitter
from .geometry.zoom_out import RandomZoomOut
from .pixels.color import (
    ColorJitter,
    Grayscale,
    RandomChannelPermutation,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
)
from .pixels.degradations import JPEG, GaussianNoise
from .pixels.elastic import ElasticTransform
from .pixels.erase import RandomErasing
from .pixels.filters import GaussianBlur, RandomAdjustSharpness
from .pixels.levels import RandomAutocontrast, RandomEqualize, RandomPosterize, RandomSolarize
from .pixels.mean_image import SubtractMean
from .pixels.output import Normalize, ToDtype
from .policies.apply import Identity, RandomApply, RandomChoice, RandomOrder
from .policies.augmix import AugMix
from .policies.autoaugment import AutoAugment
from .policies.randaugment import RandAugment, TrivialAugmentWide
from .warps.object_crop import ObjectCrop
from .warps.warp import RandomAffine, RandomPerspective, RandomRotation

__all__ = [
    "JPEG",
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ColorJitter",
    "CopyPaste",
    "CoverCrop",
    "DetectionMixUp",
    "DetectionMosaic",
    "ElasticTransform",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "Letterbox",
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
