"""Arguments of a loader on the command line, written as in a program."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, load_recipe, load_views
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset

from ...images.batch_transforms import Transforms
from ...images.captions import Tokens
from ...images.patches import Patches
from ...images.planners import AspectBuckets
from ...images.sizes import RandomSizes, Sizes


def recipe_transforms(recipe: str | None, views: str | None, size: int | None) -> Transforms:
    """The argument ``transforms`` of a loader: those of a recipe, or random crops without a recipe.

    Args:
        recipe: Name or file of a recipe of transforms.
        views: Name or file of a recipe of views.
        size: Side of the random crops, pixels; None is 224. A recipe has its own size.

    Raises:
        ConfigError: There is no such recipe, there are two, or one comes with a size.
    """
    if recipe is None and views is None:
        return [RandomResizedCrop(size or 224), RandomHorizontalFlip(), Normalize()]
    if size is not None or (recipe and views):
        raise ConfigError("--transforms, --views and --size exclude each other: a recipe has its own size")
    return load_views(views) if views else load_recipe(str(recipe))


def recipe_columns(dataset: Dataset, transforms: Transforms) -> tuple[str, ...] | None:
    """The columns for a recipe; for images with boxes and no labels they have the boxes and their classes."""
    if isinstance(transforms, Mapping) or "boxes" not in dataset.tasks or dataset.tasks & {"label", "labels"}:
        return None
    return ("image", "boxes", "box_labels")


def parse_sizes(text: str) -> Sizes:
    """The argument ``sizes`` of a loader.

    Raises:
        ConfigError: The text is none of the forms.
    """
    words: dict[str, Sizes] = {"padded": "padded", "ragged": "ragged"}
    if text in words:
        return words[text]
    if isinstance(
        sizes := _value(text, AspectBuckets, Patches, RandomSizes),
        (dict, AspectBuckets, Patches, RandomSizes),
    ):
        return sizes
    raise ConfigError(
        f"sizes are not understood: {text!r}",
        hint="Write padded, ragged, '{0: 160, 10: 192}', 'RandomSizes(320, 608)', 'AspectBuckets(262144)' or "
        "'Patches(size=16, most=256, row=1024)'.",
    )


def parse_caption(text: str) -> Tokens:
    """The argument ``caption`` of a loader.

    Raises:
        ConfigError: The text is not understood.
    """
    if isinstance(found := _value(text, Tokens), Tokens):
        return found
    raise ConfigError(
        f"a caption is not understood: {text!r}",
        hint="""Write 'Tokens(77, form="packed", row=256)', with the arguments of stoker.Tokens.""",
    )


def _value(text: str, *classes: type) -> Any:
    """The literal or the object of one of the classes that a text stands for; None for any other text.

    Raises:
        ConfigError: The class says what is wrong with its arguments.
    """
    try:
        node = ast.parse(text.removeprefix("stoker."), mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return ast.literal_eval(node)
        values = [ast.literal_eval(one) for one in node.args]
        named = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        return {one.__name__: one for one in classes}[node.func.id](*values, **named)
    except ConfigError:
        raise
    except (KeyError, SyntaxError, TypeError, ValueError):
        return None
