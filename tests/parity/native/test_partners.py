"""The partners of mosaics: from an epoch, a sampler, a buffer and a remote mixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments, planned

import stoker
from stoker import ImageLoader
from stoker.augment import Mosaic
from stoker.errors import ConfigError


def sources(source: Path, **options: Any) -> Any:
    """Positions of the four samples of each mosaic of an epoch, (N, 4)."""
    options = {
        "batch_size": 2,
        "transforms": [Mosaic(32)],
        "columns": ("image",),
        "num_threads": 1,
        **options,
    }
    with ImageLoader(source, **image_arguments(**options)) as loader:
        plans = planned(loader)
    assert all(np.array_equal(plan.positions, plan.sources[::4]) for plan in plans)
    return np.concatenate([plan.sources.reshape(-1, 4) for plan in plans])


def test_the_partners_of_a_small_batch_are_from_the_whole_dataset(thumbnails: Path) -> None:
    shown = sources(thumbnails, shuffle=True)
    assert all(len(set(row)) == 4 for row in shown.tolist())
    assert len(np.unique(shown[:, 1:])) > 50


@pytest.mark.parametrize(
    "order", [{"shuffle": True}, {"shuffle": stoker.BlockShuffle(block=4, window=3)}, {"steps_per_epoch": 9}]
)
def test_the_partners_of_a_buffer_are_the_draws_before(thumbnails: Path, order: dict[str, Any]) -> None:
    shown = sources(thumbnails, transforms=[Mosaic(32, buffer=5)], **{"shuffle": True, **order})
    drawn = shown[:, 0].tolist()
    for number, (first, *partners) in enumerate(shown.tolist()):
        window = set(drawn[max(number - 5, 0) : max(number, 5) + 1])
        assert len(set(partners)) == 3
        assert set(partners) <= window - {first}


def test_a_buffer_of_fewer_draws_than_partners_is_refused() -> None:
    with pytest.raises(ConfigError, match="buffer must be at least 3, found 2"):
        Mosaic(32, buffer=2)


@pytest.mark.parametrize(
    "order", [{}, {"sampler": stoker.Repeated(2)}, {"steps_per_epoch": 30}, {"batch_size": 4}]
)
def test_the_partners_of_an_unshuffled_epoch_are_from_the_whole_dataset(
    thumbnails: Path, order: dict[str, Any]
) -> None:
    with_buffer, without = (
        sources(thumbnails, transforms=[Mosaic(32, buffer=buffer)], **order) for buffer in (3, None)
    )
    assert np.array_equal(with_buffer, without)


@pytest.mark.parametrize("transform", [Mosaic(32, buffer=8), Mosaic(32, buffer=None)])
def test_each_image_meets_all_others_equally_often(thumbnails: Path, transform: Mosaic) -> None:
    n, epochs = len(stoker.open(thumbnails)), 150
    options = {"batch_size": 4, "transforms": [transform], "shuffle": True, "num_threads": 1}
    met = np.zeros((n, n))
    with ImageLoader(thumbnails, **image_arguments(columns=("image",), **options)) as loader:
        for epoch in range(epochs):
            shown = np.concatenate([plan.sources for plan in planned(loader, epoch)]).reshape(n, 4)
            assert (np.diff(np.sort(shown), axis=1) > 0).all(), "no image is twice in a mosaic"
            np.add.at(met, (shown[:, :1], shown[:, 1:]), 1)
    # Pearson's chi-square of the pairs. Three of n - 1 are drawn without replacement, which narrows it.
    expected = 3 * epochs / (n - 1)
    pairs = met[~np.eye(n, dtype=bool)]
    spread = ((pairs - expected) ** 2).sum() / expected / (1 - 2 / (n - 2))
    freedom = n * (n - 2)
    assert abs(spread - freedom) < 4 * np.sqrt(2 * freedom), (spread, freedom)
    # Each image is also shown in mosaics of other images equally often.
    assert abs(met.sum(axis=0) - 3 * epochs).max() < 4.5 * np.sqrt(3 * epochs)


def test_partners_are_samples_that_the_sampler_can_draw(thumbnails: Path) -> None:
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
        options = {"batch_size": 4, "seed": 3, "shuffle": True, "num_threads": 2, "columns": ("image", "row")}
        with ImageLoader(
            source, **image_arguments(transforms=[Mosaic(32, buffer=buffer)], **options)
        ) as loader:
            return list(loader)

    remote = stoker.open(f"file://{thumbnails}", cache=tmp_path, cache_size="1MB")
    pairs = list(zip(mixed(stoker.open(thumbnails)), mixed(remote), strict=True))
    assert len(pairs) == 6
    assert any(tmp_path.iterdir()), "the cache is in use"
    for local, cached in pairs:
        assert np.array_equal(local.image, cached.image)
        assert np.array_equal(local.row, cached.row)
