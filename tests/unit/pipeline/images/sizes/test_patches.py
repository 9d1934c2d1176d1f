"""Packed rows of patches of images at their own aspect ratios."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.datasets import jpeg
from helpers.loaders.planned import stop_and_resume

import stoker
from stoker import ImageLoader, Patches
from stoker.augment import ColorJitter, MixUp, Normalize, Pad, RandomHorizontalFlip, RandomRotation, Resize
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.images.sizes.patches.patches import patch_grids

SIZE = 4
PATCHES = Patches(size=SIZE, most=20, row=64)
ALL = ("patches", "segment_ids", "patch_positions", "cu_seqlens", "label", "row")
OPTIONS: dict[str, Any] = {
    "transforms": (),
    "columns": ALL,
    "sizes": PATCHES,
    "batch_size": 2,
    "shuffle": True,
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("form", [{}, {"dtype": "float32", "color": "gray"}])
def test_patches_put_together_are_the_image_alone(
    load: Callable[..., ImageLoader], engine: str, form: dict[str, str]
) -> None:
    changes = [ColorJitter(0.5), RandomHorizontalFlip()]
    loader = load(engine=engine, **{**OPTIONS, "transforms": changes}, **form)
    sizes = np.stack([loader.dataset.column(name) for name in ("height", "width")], axis=1)
    batch, alone = next(iter(loader)), {}
    assert batch.patches.shape == (2, *loader.element_spec()[0].shape)
    assert not batch.patches[batch.segment_ids == 0].any()
    for row in range(2):
        for segment, position in enumerate(batch.row[row][batch.row[row] >= 0].tolist()):
            inside = batch.segment_ids[row] == segment + 1
            height, width = (patch_grids(sizes[[position]], 20)[0] * SIZE).tolist()
            transforms = [Resize((height, width)), *changes]
            if (height, width) not in alone:
                options = {"batch_size": 61, "columns": ("image",), "layout": "NHWC", **form}
                alone[height, width] = next(iter(load(engine=engine, transforms=transforms, **options))).image
            image = alone[height, width][position]
            whole = np.zeros_like(image)
            coordinates = batch.patch_positions[row][inside]
            for patch, (y, x) in zip(batch.patches[row][inside], coordinates, strict=True):
                tile = patch.reshape(SIZE, SIZE, -1)
                whole[y * SIZE : (y + 1) * SIZE, x * SIZE : (x + 1) * SIZE] = tile
            assert inside.sum() == height * width // SIZE**2
            assert np.array_equal(whole, image)


def test_segments_have_their_labels_and_bounds(load: Callable[..., ImageLoader]) -> None:
    loader = load(**OPTIONS)
    for batch in loader:
        starts = np.flatnonzero(np.diff(batch.segment_ids.reshape(-1), prepend=-1))
        assert np.array_equal(np.unique(batch.cu_seqlens), [*starts, batch.segment_ids.size])
        assert len(batch.cu_seqlens) == len(batch.row) * (batch.row.shape[1] + 1) + 1
        assert np.array_equal(batch.segment_ids.max(axis=1), (batch.row >= 0).sum(axis=1))
        real = batch.row >= 0
        assert np.array_equal(batch.label[real], loader.dataset.values("label", batch.row[real]))
        assert (batch.label[~real] == -1).all()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("last_batch", ["partial", "drop", "pad"])
def test_ranks_share_an_epoch_of_every_image_once(
    load: Callable[..., ImageLoader], last_batch: str, shuffle: bool
) -> None:
    columns = ("patches", "row", "mask")
    options = {**OPTIONS, "columns": columns, "last_batch": last_batch, "world_size": 3, "shuffle": shuffle}
    loaders = [load(rank=rank, **options) for rank in range(3)]
    epochs = []
    for _ in range(2):
        runs = [list(loader) for loader in loaders]
        assert {len(run) for run in runs} == {len(loaders[0])}
        for batches in zip(*runs, strict=True):
            assert len({batch.patches.shape for batch in batches}) == 1
        rows = [row for run in runs for batch in run for row in _samples(batch)]
        assert len(set(rows)) == len(rows)
        assert len(rows) == 61 or (last_batch == "drop" and len(rows) > 30)
        epochs.append(rows)
    assert (epochs[0] != epochs[1]) is shuffle


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("stop", [0, 2])
def test_an_epoch_that_stopped_goes_on_with_the_other_samples(
    load: Callable[..., ImageLoader], ranks: int, stop: int
) -> None:
    options = {**OPTIONS, "columns": ("patches", "row", "mask"), "batch_size": 1}
    stopped, resumed = stop_and_resume(partial(load, **options), stop, ranks)
    if ranks == 2:
        for batch, expected in zip(resumed[0], stopped[0][stop:], strict=True):
            assert np.array_equal(batch.patches, expected.patches)
    batches = [batch for run in stopped for batch in run[:stop]] + [batch for run in resumed for batch in run]
    assert sorted(row for batch in batches for row in _samples(batch)) == list(range(61))


def test_a_state_refuses_other_patches(load: Callable[..., ImageLoader]) -> None:
    state = load(**OPTIONS).state_dict()
    with pytest.raises(CheckpointError, match=r"sizes\.patches\.most was 20 and is 16"):
        load(**{**OPTIONS, "sizes": Patches(4, 16, 64)}).load_state_dict(state)
    with pytest.raises(CheckpointError, match="not one of a loader with Patches"):
        load(**OPTIONS).load_state_dict(load().state_dict())


def test_a_bad_image_is_left_out_of_its_row(pack_images: Callable[..., Path]) -> None:
    good = [jpeg(20 + i, 24) for i in range(4)]
    folder = pack_images([good[0], good[1], good[2][: len(good[2]) // 3], good[3]])
    options = {**OPTIONS, "columns": ("segment_ids", "row"), "batch_size": 1}
    with (
        pytest.warns(UserWarning, match="'k2'"),
        ImageLoader(folder, on_error="skip", max_bad=2, **options) as loader,
    ):
        rows = [row for batch in loader for row in _samples(batch)]
    assert sorted(rows) == [0, 1, 3]


@pytest.mark.parametrize("most", [1, 2, 7, 64, 256])
def test_a_grid_has_the_largest_scale_that_fits(most: int) -> None:
    rng = np.random.default_rng(most)
    sizes = np.concatenate([rng.integers(1, 90, (60, 2)), [[1, 4000], [4000, 1], [64, 64]]])
    for (height, width), grid in zip(sizes.tolist(), patch_grids(sizes, most).tolist(), strict=True):
        scales = {Fraction(k, side) for side in (height, width) for k in range(1, most + 1)}
        grids = {s: (-(-height * s // 1), -(-width * s // 1)) for s in scales}
        fitting = [s for s, (a, b) in grids.items() if a * b <= most]
        assert tuple(grid) == (grids[max(fitting)] if fitting else (1, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": stoker.Repeated(2)}, "Patches plan epochs of one dataset, found a sampler"),
        ({"steps_per_epoch": 3}, "Patches plan epochs of all samples, found steps_per_epoch"),
        ({"batch_size": None, "pixels_per_batch": 999}, "Patches take batch_size"),
        ({"transforms": [Resize((8, 8))]}, "Resize changes the size of images"),
        ({"transforms": [Pad(2)]}, "Pad changes the size of images"),
        ({"transforms": [RandomRotation(9)]}, "RandomRotation warps images"),
        ({"transforms": [Normalize(), MixUp(0.2)]}, "MixUp mixes samples"),
        ({"transforms": {"a": [Resize((8, 8))]}}, "found named columns of images"),
        ({"columns": ("image",)}, r"there is no 'image' with sizes=Patches"),
        ({"on_error": "replace"}, "would put an image of another size into a packed row"),
        ({"layout": "NHWC4"}, "patches have none to add"),
        ({"engine": "dali", "device": "cpu"}, "dali"),
    ],
)
def test_a_wrong_argument_is_refused(
    load: Callable[..., ImageLoader], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**{**OPTIONS, **options})


def test_a_row_must_hold_an_image() -> None:
    with pytest.raises(ConfigError, match="a row of 128 patches holds no image of most=256"):
        Patches(row=128)


def _samples(batch: Any) -> list[int]:
    """The samples of a batch in packed rows that are no repeats."""
    rows = batch.row[batch.mask] if "mask" in batch._fields else batch.row
    return [row for row in rows.reshape(-1).tolist() if row >= 0]
