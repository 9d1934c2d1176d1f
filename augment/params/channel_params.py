"""Parameters of a batch of images that are not RGB or grey, and have no colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .image_params import ImageParams

if TYPE_CHECKING:
    from .channels import Channels

__all__ = ["ChannelParams"]


@dataclass(frozen=True)
class ChannelParams(ImageParams):
    """Parameters of a batch with :class:`Channels`, which stand in place of ``color`` and ``fill``."""

    channels: Channels | None = None
