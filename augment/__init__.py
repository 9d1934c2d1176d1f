"""Augmentation as data: transforms, and the parameters that they decide for a batch.

Transforms are frozen descriptions, named and parametrised as in torchvision.transforms.v2 (compared with
0.29). ``compile_image`` turns a list of them into a plan, which decides the parameters of each batch, and
engines execute these. A new transform is a class in the file of its subject, and its name stands here twice,
for type checkers and for recipes. Every name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import geometry as geometry
    from . import steps as steps
    from .batch import AllColumns as AllColumns
    from .batch import BatchTransform as BatchTransform
    from .batch import CutMix as CutMix
    from .batch import MixUp as MixUp
    from .geometry.pose import from_heatmaps as from_heatmaps
    from .geometry.pose import from_simcc as from_simcc
    from .geometry.pose import heatmaps as heatmaps
    from .geometry.pose import simcc as simcc
    from .geometry.source_coordinates import keypoints_to_source as keypoints_to_source
    from .geometry.source_coordinates import masks_to_source as masks_to_source
    from .geometry.source_coordinates import to_source as to_source
    from .params import ImageParams as ImageParams
    from .plan import ImagePlan as ImagePlan
    from .plan import compile_image as compile_image
    from .recipe import load_recipe as load_recipe
    from .recipe import load_views as load_views
    from .recipe import model_arguments as model_arguments
    from .recipe import recipe_names as recipe_names
    from .recipe import register as register
    from .recipe import save_recipe as save_recipe
    from .recipe import view_recipe_names as view_recipe_names
    from .transforms.base import Transform as Transform
    from .transforms.color import JPEG as JPEG
    from .transforms.color import ColorJitter as ColorJitter
    from .transforms.color import ElasticTransform as ElasticTransform
    from .transforms.color import GaussianBlur as GaussianBlur
    from .transforms.color import GaussianNoise as GaussianNoise
    from .transforms.color import Grayscale as Grayscale
    from .transforms.color import RandomAdjustSharpness as RandomAdjustSharpness
    from .transforms.color import RandomAutocontrast as RandomAutocontrast
    from .transforms.color import RandomChannelPermutation as RandomChannelPermutation
    from .transforms.color import RandomEqualize as RandomEqualize
    from .transforms.color import RandomGrayscale as RandomGrayscale
    from .transforms.color import RandomInvert as RandomInvert
    from .transforms.color import RandomPhotometricDistort as RandomPhotometricDistort
    from .transforms.color import RandomPosterize as RandomPosterize
    from .transforms.color import RandomSolarize as RandomSolarize
    from .transforms.combining import CopyPaste as CopyPaste
    from .transforms.combining import DetectionMixUp as DetectionMixUp
    from .transforms.combining import Mosaic as Mosaic
    from .transforms.crops import CenterCrop as CenterCrop
    from .transforms.crops import CoverCrop as CoverCrop
    from .transforms.crops import ObjectCrop as ObjectCrop
    from .transforms.crops import Pad as Pad
    from .transforms.crops import RandomCrop as RandomCrop
    from .transforms.crops import RandomIoUCrop as RandomIoUCrop
    from .transforms.crops import RandomResizedCrop as RandomResizedCrop
    from .transforms.crops import RandomZoomOut as RandomZoomOut
    from .transforms.nested import Identity as Identity
    from .transforms.nested import RandomApply as RandomApply
    from .transforms.nested import RandomChoice as RandomChoice
    from .transforms.nested import RandomOrder as RandomOrder
    from .transforms.output import Normalize as Normalize
    from .transforms.output import RandomErasing as RandomErasing
    from .transforms.output import SubtractMean as SubtractMean
    from .transforms.output import ToDtype as ToDtype
    from .transforms.policies import AugMix as AugMix
    from .transforms.policies import AutoAugment as AutoAugment
    from .transforms.policies import RandAugment as RandAugment
    from .transforms.policies import TrivialAugmentWide as TrivialAugmentWide
    from .transforms.resize import Letterbox as Letterbox
    from .transforms.resize import RandomResize as RandomResize
    from .transforms.resize import RandomShortestSize as RandomShortestSize
    from .transforms.resize import Resize as Resize
    from .transforms.resize import ScaleJitter as ScaleJitter
    from .transforms.warps import RandomAffine as RandomAffine
    from .transforms.warps import RandomHorizontalFlip as RandomHorizontalFlip
    from .transforms.warps import RandomPerspective as RandomPerspective
    from .transforms.warps import RandomRotation as RandomRotation
    from .transforms.warps import RandomVerticalFlip as RandomVerticalFlip
    from .views import BlockwiseMask as BlockwiseMask
    from .views import PatchMask as PatchMask
    from .views import RandomMask as RandomMask
    from .views import Views as Views

_NAMES = {
    "batch": "AllColumns BatchTransform CutMix MixUp",
    "geometry.pose": "from_heatmaps from_simcc heatmaps simcc",
    "geometry.source_coordinates": "keypoints_to_source masks_to_source to_source",
    "params": "ImageParams",
    "plan": "ImagePlan compile_image",
    "recipe": "load_recipe load_views model_arguments recipe_names register save_recipe view_recipe_names",
    "transforms.base": "Transform",
    "transforms.color": "ColorJitter ElasticTransform GaussianBlur GaussianNoise Grayscale JPEG "
    "RandomAdjustSharpness RandomAutocontrast RandomChannelPermutation RandomEqualize RandomGrayscale "
    "RandomInvert RandomPhotometricDistort RandomPosterize RandomSolarize",
    "transforms.combining": "CopyPaste DetectionMixUp Mosaic",
    "transforms.crops": "CenterCrop CoverCrop ObjectCrop Pad RandomCrop RandomIoUCrop RandomResizedCrop "
    "RandomZoomOut",
    "transforms.nested": "Identity RandomApply RandomChoice RandomOrder",
    "transforms.output": "Normalize RandomErasing SubtractMean ToDtype",
    "transforms.policies": "AugMix AutoAugment RandAugment TrivialAugmentWide",
    "transforms.resize": "Letterbox RandomResize RandomShortestSize Resize ScaleJitter",
    "transforms.warps": "RandomAffine RandomHorizontalFlip RandomPerspective RandomRotation "
    "RandomVerticalFlip",
    "views": "BlockwiseMask PatchMask RandomMask Views",
}
_HOME = {name: f"{__name__}.{file}" for file, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in ("geometry", "steps"):
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
