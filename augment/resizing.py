"""Lists of transforms that leave images of another size."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.errors import ConfigError
from stoker.types import Size

from .description import Description
from .transforms.base import Transform


def resized(transforms: Sequence[Description], size: Size) -> list[Description]:
    """Return the transforms with ``size``, height and width in pixels, as size of the last crop or resize."""
    changed = list(transforms)
    for index in reversed(range(len(changed))):
        transform = changed[index]
        if isinstance(transform, Transform) and (sized := transform.with_size(size)):
            changed[index] = sized
            break
    else:
        raise ConfigError(
            "sizes: no crop or resize stands in the list of transforms",
            hint="Add RandomResizedCrop(size), CenterCrop(size) or Resize((height, width)).",
        )
    final_size: Size | None = size
    for transform in changed[index + 1 :]:
        if isinstance(transform, Transform):
            final_size = transform.output_size(final_size)
    if final_size != size:
        raise ConfigError(
            f"sizes: {type(changed[index]).__name__} leaves images of the size, "
            "and a transform after it changes that",
            hint="Move the last crop or resize after all transforms that pad or turn with expand=True.",
        )
    return changed
