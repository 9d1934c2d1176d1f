"""A DALI pipeline on the CPU with more to do to each image."""

from __future__ import annotations

from typing import Any

from nvidia.dali import fn
from nvidia.dali.auto_aug import rand_augment

from stoker.benchmarks.peers.base import JITTER, RAND_AUGMENT
from stoker.benchmarks.peers.dali_pipeline import DaliPipeline

__all__ = ["DaliJitter", "DaliRandAugment"]


def _jitter(images: Any) -> Any:
    brightness, contrast, saturation = (
        fn.random.uniform(range=[1 - strength, 1 + strength]) for strength in JITTER[:3]
    )
    hue = fn.random.uniform(range=[-360 * JITTER[3], 360 * JITTER[3]])
    return fn.color_twist(images, brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)


def _rand_augment(images: Any) -> Any:
    return rand_augment.rand_augment(images, *RAND_AUGMENT)


class DaliJitter(DaliPipeline):
    """And ``color_twist``."""

    colors = staticmethod(_jitter)


class DaliRandAugment(DaliPipeline):
    """And DALI's own ``auto_aug.rand_augment``."""

    colors = staticmethod(_rand_augment)
