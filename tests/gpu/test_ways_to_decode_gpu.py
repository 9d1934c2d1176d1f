"""Every way to decode on a GPU. Some of them may end the process, so these tests come last: see run.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.gpu_device import DEVICE
from helpers.loaders import image_arguments

import stoker
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop


def batches(dataset: Path, **arguments: Any) -> list[Any]:
    """All batches of one pass."""
    with stoker.ImageLoader(
        dataset,
        **image_arguments(
            batch_size=24,
            engine="dali",
            output="torch",
            transforms=[RandomResizedCrop(64), RandomHorizontalFlip()],
            layout="NHWC",
            **arguments,
        ),
    ) as loader:
        return list(loader)


@pytest.mark.parametrize("load", [0.0, 0.65, 1.0], ids=["0", "0.65", "1"])
@pytest.mark.parametrize("region", [False, True], ids=["full", "region"])
def test_every_way_to_decode_shows_the_same_pixels(dataset: Path, region: bool, load: float) -> None:
    options = stoker.DaliOptions(region_decode=region, hw_decoder_load=load)
    found = batches(dataset, device=DEVICE, dali=options)
    expected = batches(dataset, device="cpu")
    for batch, plain in zip(found, expected, strict=True):
        assert float((batch.image.cpu().float() - plain.image.float()).abs().mean()) < 1.5
