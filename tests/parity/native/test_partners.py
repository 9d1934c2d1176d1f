"""The samples that mosaics show besides their own: of the epoch, a sampler, a buffer and a remote mixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker import ImageLoader
from stoker.augment import DetectionMosaic
from stoker.errors import ConfigError
from stoker.pipeline.images.planned_batches import planned_batches


def sources(source: Path, **options: Any) -> Any:
    """Positions of the four samples of each mosaic of an epoch, (N, 4)."""
    given = {
        "batch_size": 2,
        "transforms": [DetectionMosaic(32)],
        "columns": ("image",),
        "num_threads": 1,
        **options,
    }
    with ImageLoader(source, **given) as loader:
        planned = list(planned_batches(loader._config, loader._schedule(0, 0), 0))
    assert all(np.array_equal(one.positions, one.sources[::4]) for one in planned)
    return np.concatenate([one.sources.reshape(-1, 4) for one in planned])


def test_the_partners_of_a_small_batch_are_from_the_whole_dataset(thumbnails: Path) -> None:
    shown = sources(thumbnails, shuffle=True)
    assert all(len(set(row)) == 4 for row in shown.tolist())
    assert len(np.unique(shown[:, 1:])) > 50


def test_the_partners_of_a_buffer_are_the_draws_before(thumbnails: Path) -> None:
    shown = sources(thumbnails, transforms=[DetectionMosaic(32, buffer=5)])
    for number, (own, *others) in enumerate(shown.tolist()):
        window = set(range(max(number - 5, 0), max(number, 5) + 1))
        assert own == number
        assert len(set(others)) == 3
        assert set(others) <= window - {own}
    with pytest.raises(ConfigError, match="buffer must be a number of draws, at least 3, or None"):
        DetectionMosaic(32, buffer=2)


def test_partners_are_what_the_epoch_draws(thumbnails: Path) -> None:
    weights = np.zeros(len(stoker.open(thumbnails)))
    weights[10:20] = 1
    shown = sources(thumbnails, sampler=stoker.Weighted(weights))
    assert set(shown.ravel().tolist()) == set(range(10, 20))


@pytest.mark.parametrize("buffer", [None, 8])
def test_mosaics_of_a_remote_mixture_are_those_of_the_local_one(
    thumbnails: Path, tmp_path: Path, buffer: int | None
) -> None:
    def mixed(first: Any) -> list[Any]:
        source = stoker.mix([(first, 0.7), (stoker.open(thumbnails).select(range(10)), 0.3)], samples=24)
        given = {"batch_size": 4, "seed": 3, "shuffle": True, "num_threads": 2, "columns": ("image", "row")}
        with ImageLoader(source, transforms=[DetectionMosaic(32, buffer=buffer)], **given) as loader:
            return list(loader)

    remote = stoker.open(f"file://{thumbnails}", cache=tmp_path, cache_size="1MB")
    pairs = list(zip(mixed(stoker.open(thumbnails)), mixed(remote), strict=True))
    assert len(pairs) == 6
    assert any(tmp_path.iterdir()), "the cache is in use"
    for local, cached in pairs:
        assert np.array_equal(local.image, cached.image)
        assert np.array_equal(local.row, cached.row)
