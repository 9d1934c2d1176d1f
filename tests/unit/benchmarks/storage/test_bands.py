"""Tests of the simulation of a cache of blocks, against values by hand, and of the bytes of small crops."""

from pathlib import Path

import numpy as np
from PIL import Image

import stoker
from stoker.augment import RandomResizedCrop
from stoker.benchmarks.storage.bands import fetched, measure_disk, needed

KIB = 1 << 10


def test_each_block_is_fetched_once_while_the_cache_has_room() -> None:
    # Two samples share a block; the third has a part in the last block, and its header far before that.
    needs = np.array([[0, 10, 0, 0], [100, 10, 0, 0], [9 * KIB, 10, 4 * KIB, 10]])
    order = np.arange(3)
    assert fetched([needs] * 2, [order] * 2, KIB, 100 * KIB) == [(KIB, 1.0), (0.0, 0.0)]
    far_apart = np.array([[2 * KIB * i, 10, 0, 0] for i in range(200)])
    assert fetched([far_apart] * 2, [np.arange(200)] * 2, KIB, 10 * KIB) == [(KIB, 1.0)] * 2


def test_small_crops_need_fewer_bytes_than_the_images_have(tmp_path: Path) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    for i in range(4):
        noise = np.random.default_rng(i).integers(0, 256, (220, 161, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "photos" / "a" / f"{i}.jpg", quality=60)
    stoker.convert(tmp_path / "photos", tmp_path / "out", restarts=True, shards=1)
    dataset, crop = stoker.open(tmp_path / "out"), RandomResizedCrop(32, scale=(0.1, 0.2))
    needs = needed(dataset, crop, 0)
    assert needs[:, 1].sum() + needs[:, 3].sum() < 0.9 * dataset.column("length").sum()
    found = measure_disk(dataset, crop)
    assert (
        found["bytes of an epoch"] < found["their pages"] <= found["with pages read ahead for the next epoch"]
    )
