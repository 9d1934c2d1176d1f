"""Lists of transforms that leave images of another size."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.errors import ConfigError
from stoker.types import Size

from .description import Description
from .transforms.base import Transform

__all__ = ["resized"]


def resized(transforms: Sequence[Description], size: Size) -> list[Description]:
    """Return the transforms with ``size``, height and width in pixels, as size of the last crop or resize.

    Raises:
        ConfigError: There is no crop or resize to replace, or the images get another size after it.
    """
    changed = list(transforms)
    for place in reversed(range(len(changed))):
        given = changed[place]
        if isinstance(given, Transform) and (sized := given.with_size(size)):
            changed[place] = sized
            break
    else:
        raise ConfigError(
            "sizes: no crop or resize stands in the list of transforms",
            hint="Add RandomResizedCrop(size), CenterCrop(size) or Resize((height, width)).",
        )
    found: Size | None = size
    for one in changed[place + 1 :]:
        found = one.output_size(found) if isinstance(one, Transform) else found
    if found != size:
        raise ConfigError(
            f"sizes: {type(changed[place]).__name__} leaves images of the size, "
            "and a transform after it changes that",
            hint="Move the last crop or resize after all transforms that pad or turn with expand=True.",
        )
    return changed
