"""The recipes that come with Stoker, by what an image of them shows."""

from __future__ import annotations

from stoker.augment import BatchTransform, load_recipe, recipe_names

OF_ONE_SAMPLE = [
    name
    for name in recipe_names()
    if not any(
        isinstance(transform, BatchTransform) or getattr(transform, "combines", False)
        for transform in load_recipe(name)
    )
]
"""Names of the recipes whose images show one sample each, without a mosaic or a mixture."""
