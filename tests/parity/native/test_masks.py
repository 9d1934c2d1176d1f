"""Masks of objects drawn in C++ against the reference of ``stoker.augment``, pixel for pixel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.transforms import HEIGHT, WIDTH, chains, draw
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.augment import ImageParams, Resize
from stoker.augment.geometry.masks import encode_runs, transform_segments
from stoker.augment.params import Warp
from stoker.errors import ConfigError
from stoker.pipeline.images.objects import MaskMemory, bad_polygons, bad_runs, draw_segments

Mask = npt.NDArray[np.uint8]
OWNER = np.zeros(1, np.int64)
"""One object, of image 0."""
NO_RUNS = np.zeros(0, np.uint32)
SIZE = np.array([HEIGHT]), np.array([WIDTH])
WHITE = np.zeros((HEIGHT, WIDTH), np.uint8)


def both(params: ImageParams, owner: npt.NDArray[np.int64], **objects: Any) -> Mask:
    """The masks, after a check that both sides draw the same."""
    sizes = np.full(len(params), HEIGHT), np.full(len(params), WIDTH)
    drawn = draw_segments(params, owner, *sizes, **objects)
    np.testing.assert_array_equal(drawn, transform_segments(params, owner, *sizes, **objects))
    return drawn


# Corners of pixels, centres of pixels, borders and points far outside are where rounding and clipping decide.
coordinate = st.one_of(
    st.integers(-10, 90).map(lambda x: x / 2),
    st.floats(-100, 200, width=32),
    st.sampled_from([0.0, HEIGHT, WIDTH, 1e-30, -1e30, 3e38]),
)
polygon = st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=9).map(
    lambda points: np.array(points, np.float32)
)


@chains
@settings(max_examples=40)
@given(objects=st.lists(st.lists(polygon, max_size=3), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_polygons_are_drawn_as_the_reference_draws_them(
    chain: list[Any], objects: list[Any], seed: int
) -> None:
    both(draw(chain, 2, seed), np.sort(np.arange(len(objects)) % 2), polygons=objects)


def star(points: int, radius: float, center: Any) -> npt.NDArray[np.float32]:
    """A polygon that crosses itself where ``points`` is odd and above 3."""
    angle = 2 * np.pi * np.arange(points) * (points // 2) / points
    return (np.stack((np.cos(angle), np.sin(angle)), axis=1) * radius + center).astype(np.float32)


@chains
def test_many_objects_of_many_images_are_drawn_as_the_reference_draws_them(chain: list[Any]) -> None:
    rng = np.random.default_rng(0)
    owner = np.sort(rng.integers(0, 6, 60))
    sizes, radii, centers = rng.integers(3, 40, 60), rng.uniform(1, 50, 60), rng.uniform(0, 60, (60, 2))
    stars = list(map(star, sizes.tolist(), radii, centers))
    objects = [stars[k : k + k % 3] for k in range(60)]
    params = draw(chain, 6)
    assert both(params, owner, polygons=objects).any()
    runs = [encode_runs(rng.random((HEIGHT, WIDTH)) < rng.random()) if k % 3 else NO_RUNS for k in range(60)]
    both(params, owner, runs=runs)
    both(params, owner, runs=runs, polygons=objects)
    assert not both(params, owner).any()


@chains
@settings(max_examples=15)
@given(data=st.data())
def test_run_lengths_are_drawn_as_the_reference_draws_them(chain: list[Any], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, HEIGHT * WIDTH), max_size=20).map(sorted))
    runs = np.diff([0, *cuts, HEIGHT * WIDTH]).astype(np.uint32)  # some of length 0
    both(draw(chain, 1, data.draw(st.integers(0, 99))), OWNER, runs=[runs])


def test_a_polygon_that_reaches_the_horizon_is_not_drawn() -> None:
    plain = draw([Resize((HEIGHT, WIDTH))])
    square = np.array([(0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)], np.float32)
    for slope, seen in ((0.0, True), (0.01, True), (1 / WIDTH, False), (0.1, False)):
        # The divisor is 1 - slope * x in the source, so it is 0 or less at the right side.
        inverse = np.eye(3)
        inverse[2, 0] = -slope
        matrix = np.linalg.inv(inverse)[None]
        params = replace(plain, warp=Warp(matrix, plain.size, perspective=True))
        assert both(params, OWNER, polygons=[[square]]).any() == seen


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite_are_refused(value: float) -> None:
    params, polygon = draw([Resize((9, 9))]), np.array([(1, 1), (5, 1), (value, 9)], np.float32)
    with pytest.raises(ValueError, match="finite"):
        draw_segments(params, OWNER, *SIZE, polygons=[[polygon]])
    with pytest.raises(ConfigError, match="finite"):
        transform_segments(params, OWNER, *SIZE, polygons=[[polygon]])
    good = np.ones((3, 2), np.float32)
    assert bad_polygons([[good], [], [good, polygon], [polygon]]).tolist() == [2, 3]
    assert not len(bad_polygons([[good], []]))


def test_run_lengths_of_another_size_are_refused() -> None:
    runs = [np.array([1, 2], np.uint32), NO_RUNS, np.array([4], np.uint32)]
    assert bad_runs(runs, np.array([3, 9, 9])).tolist() == [2]
    assert not len(bad_runs(runs[1:2], np.array([5])))
    assert not len(bad_runs([], np.array([5])))
    for wrong in (runs[0], np.array([2**32 - 1] * 3, np.uint32)):
        with pytest.raises(ValueError, match="must sum to the pixels"):
            draw_segments(draw([Resize((9, 9))]), OWNER, *SIZE, runs=[wrong])


def test_memory_of_dropped_masks_is_used_again_and_cleared() -> None:
    memory, params = MaskMemory(), draw([Resize((9, 300))])
    everything = np.array([(0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)], np.float32)
    full = draw_segments(params, OWNER, *SIZE, polygons=[[everything]], memory=memory)
    assert full.all()
    address = full.ctypes.data
    del full
    again = draw_segments(params, np.zeros(2, np.int64), *SIZE, memory=memory)
    assert again.ctypes.data == address
    assert not again.any()
    assert memory.empty(0, (9, 300)).shape == (0, 9, 300)


def test_an_image_of_padding_alone_shows_nothing() -> None:
    params = replace(draw([Resize((5, 6))]), empty=np.ones(1, bool))
    full = [encode_runs(np.ones((HEIGHT, WIDTH)))]
    assert not both(params, OWNER, runs=full, polygons=[[star(5, 30, (20, 20))]]).any()
