"""Views on every engine: the pixels of one decoding for all views, against a slow decoding for each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader
from stoker.augment import (
    ColorJitter,
    GaussianBlur,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    Resize,
    Views,
)

VIEWS = {
    "large": Views(2, [RandomResizedCrop(64, scale=(0.4, 1)), RandomHorizontalFlip(), ColorJitter(0.4, 0.4)]),
    "small": Views(4, [RandomResizedCrop((24, 32), scale=(0.05, 0.2)), RandomRotation(20), GaussianBlur(5)]),
    "whole": [Resize((40, 30)), RandomErasing(0.5)],
}


def batch(dataset: Path, **options: Any) -> dict[str, Any]:
    """The columns of the first batch."""
    options = {"batch_size": 8, "seed": 3, "shuffle": True, "transforms": VIEWS, "num_threads": 2, **options}
    with ImageLoader(dataset, **image_arguments(**options)) as loader:
        return dict(next(iter(loader))._asdict())


def test_views_are_near_the_reference(dataset: Path, engine: str) -> None:
    found, expected = batch(dataset, engine=engine, exact=True), batch(dataset, engine="reference")
    assert np.array_equal(found["label"], expected["label"])
    for name in VIEWS:
        difference = np.abs(found[name].astype(int) - expected[name].astype(int))
        assert found[name].shape == expected[name].shape
        assert difference.max() <= (2 if engine == "native" else 255)
        # DALI's filter reads beyond the crop at the border.
        assert difference.mean() < (0.05 if engine == "native" else 1.5)


def test_exact_views_do_not_depend_on_the_others(dataset: Path) -> None:
    together = batch(dataset, exact=True)
    for name, views in VIEWS.items():
        alone = batch(dataset, exact=True, transforms={name: views})
        assert np.array_equal(together[name], alone[name])


def test_a_larger_view_beside_it_brings_a_view_closer_to_exact_decoding(dataset: Path) -> None:
    tiny = {"tiny": Views(2, [RandomResizedCrop(24, scale=(0.5, 1))])}
    exact = batch(dataset, exact=True, transforms=tiny)["tiny"].astype(int)
    reduced = batch(dataset, transforms=tiny)["tiny"]
    beside = batch(dataset, transforms={**tiny, "large": [RandomResizedCrop(224)]})["tiny"]
    alike = batch(dataset, transforms={**tiny, "other": [Resize((24, 24))]})["tiny"]
    means = [np.abs(images - exact).mean() for images in (reduced, alike, beside)]
    assert 0 < means[0] < 2
    assert 0 < means[1] < 2
    assert means[2] <= means[0]


def test_views_of_files_with_restart_markers_are_those_without(
    tmp_path: Path, photographs: list[Path], engine: str
) -> None:
    (tmp_path / "source" / "class").mkdir(parents=True)
    for file in photographs[:6]:
        shutil.copy(file, tmp_path / "source" / "class")
    for name in ("plain", "marked"):
        stoker.convert(
            tmp_path / "source", tmp_path / name, storage=stoker.ImageStorage(restarts=name == "marked")
        )
    low = {"low": Views(3, [RandomResizedCrop(24, scale=(0.02, 0.1))])}
    options: dict[str, Any] = {"transforms": low, "batch_size": 6, "shuffle": False, "engine": engine}
    plain, marked = (
        batch(tmp_path / name, exact=engine == "native", **options) for name in ("plain", "marked")
    )
    assert np.array_equal(plain["low"], marked["low"])
