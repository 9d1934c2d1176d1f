"""Augmentation as data: transforms, the parameters that they decide for a batch, and their slow execution.

Transforms are frozen descriptions named as in torchvision.transforms.v2. ``compile_image`` turns a list of
them into a plan, and the plan decides the parameters of a batch, which engines execute.
``docs/architecture.md`` says what each folder holds and which others it may import.
"""

from __future__ import annotations

from . import transforms
from .batch import AllColumns, BatchTransform, CutMix, MixUp
from .geometry.pose import from_heatmaps, from_simcc, heatmaps, simcc
from .geometry.source_coordinates import keypoints_to_source, masks_to_source, to_source
from .params import ImageParams
from .plan import ImagePlan, compile_image
from .recipe import (
    load_recipe,
    load_views,
    model_arguments,
    recipe_names,
    register,
    save_recipe,
    view_recipe_names,
)
from .transforms import *  # noqa: F403 - the names of transforms.__all__
from .views import BlockwiseMask, PatchMask, RandomMask, Views

__all__ = [
    "AllColumns",
    "BatchTransform",
    "BlockwiseMask",
    "CutMix",
    "ImageParams",
    "ImagePlan",
    "MixUp",
    "PatchMask",
    "RandomMask",
    "Views",
    "compile_image",
    "from_heatmaps",
    "from_simcc",
    "heatmaps",
    "keypoints_to_source",
    "load_recipe",
    "load_views",
    "masks_to_source",
    "model_arguments",
    "recipe_names",
    "register",
    "save_recipe",
    "simcc",
    "to_source",
    "view_recipe_names",
]
__all__ += transforms.__all__
