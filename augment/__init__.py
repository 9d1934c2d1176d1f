"""Augmentation as data: transforms, what they decide for a batch, and the reference that executes it.

Transforms are frozen descriptions named as in torchvision.transforms.v2; ``compile_image`` turns a
list of them into a plan, and the plan decides the parameters of a batch, which engines execute.

Each of these modules and folders imports only those before it:

- ``color``, ``dirichlet``, ``noise``, ``resample``: formulas, which know arrays alone.
- ``steps``: operations on pixels that no map of colours can express.
- ``params``: what was decided for a batch of images, for an engine to execute.
- ``geometry``: boxes, keypoints and masks under the parameters of their image, and back.
- ``reference``: the slow execution of parameters that every engine is tested against.
- ``state``: a batch of images between two transforms.
- ``description``: the base of all transforms, their arguments as data.
- ``transforms``: transforms of images, which compose what they decide onto the state.
- ``batch``: transforms of finished batches.
- ``checks``, ``plan``: a list of transforms, checked, and the parameters that it draws.
- ``pose``: targets of keypoints, and keypoints of a model's outputs.
- ``patch_masks``, ``views``: patches to hide, and several images of a sample.
- ``recipe``: lists of transforms, and views, as JSON.
"""

from __future__ import annotations

from . import transforms
from .batch.all_columns import AllColumns
from .batch.base import BatchTransform
from .batch.mix import CutMix, MixUp
from .batch.mosaic import Mosaic
from .geometry.source_coordinates import keypoints_to_source, masks_to_source, to_source
from .params.image_params import ImageParams
from .patch_masks import BlockMask, PatchMask, RandomMask
from .plan import ImagePlan, compile_image
from .pose import from_heatmaps, from_simcc, heatmaps, simcc
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
from .views import Views

__all__ = [
    "AllColumns",
    "BatchTransform",
    "BlockMask",
    "CutMix",
    "ImageParams",
    "ImagePlan",
    "MixUp",
    "Mosaic",
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
