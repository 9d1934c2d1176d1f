"""Letterbox has the geometry of Ultralytics' LetterBox, and pads with one colour."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from helpers.transforms.distributions import assert_same_distribution

from stoker.augment import (
    CenterCrop,
    Letterbox,
    Pad,
    RandomResize,
    RandomShortestSize,
    RandomZoomOut,
    Resize,
    ScaleJitter,
    compile_image,
)
from stoker.augment.geometry import transform_boxes
from stoker.augment.state import TransformState
from stoker.errors import ConfigError


def ultralytics(height, width, size, enlarge, center):
    """LetterBox.__call__ of ultralytics 8.3, data/augment.py: the new size, and the padding before it."""
    r = min(size[0] / height, size[1] / width)
    if not enlarge:
        r = min(r, 1.0)
    new_width, new_height = round(width * r), round(height * r)
    dw, dh = size[1] - new_width, size[0] - new_height
    top, left = (round(dh / 2 - 0.1), round(dw / 2 - 0.1)) if center else (0, 0)
    return new_height, new_width, top, left


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("enlarge", [True, False])
def test_the_geometry_is_that_of_ultralytics(enlarge, center):
    heights, widths = (a.reshape(-1) for a in np.meshgrid([7, 63, 480, 641], [9, 64, 333, 1280]))
    plan = compile_image([Letterbox((64, 96), enlarge=enlarge, center=center)])
    params = plan.draw(heights, widths, np.arange(len(heights)), 0, 0)
    whole = np.stack([heights * 0, heights * 0, widths, heights], axis=1)
    boxes, _ = transform_boxes(params, whole, np.arange(len(heights)))
    for box, height, width in zip(boxes, heights, widths, strict=True):
        new_height, new_width, top, left = ultralytics(height, width, (64, 96), enlarge, center)
        # A side of less than half a pixel becomes one pixel here.
        new_height, new_width = max(new_height, 1), max(new_width, 1)
        np.testing.assert_allclose(box, [left, top, left + new_width, top + new_height], atol=1e-9)


def test_all_padding_has_one_fill():
    assert compile_image([Letterbox(32)]).draw(*_one(10, 20)).fill.tolist() == [114] * 3
    assert compile_image([CenterCrop(32, fill=(1, 2, 3))]).draw(*_one(10, 20)).fill.tolist() == [1, 2, 3]
    assert CenterCrop(32).to_dict() == {"name": "CenterCrop", "size": [32, 32]}  # as in older states
    with pytest.raises(ConfigError, match="Use one fill in a list of transforms"):
        compile_image([Pad(3, fill=7), Letterbox(32)]).draw(*_one(10, 20))


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 8, "fill": 300}, {"size": 8, "enlarge": 1}])
def test_a_bad_argument_is_refused(wrong):
    with pytest.raises(ConfigError, match="Letterbox"):
        Letterbox(**wrong)


def test_a_resize_with_max_size_and_a_crop_have_the_geometry_of_a_letterbox():
    lists = [Resize(64, max_size=64), CenterCrop(64)], [Letterbox(64)]
    resized, letterboxed = (compile_image(transforms).draw(*_one(100, 50)) for transforms in lists)
    assert resized.dest.tolist() == letterboxed.dest.tolist()


def _one(height, width):
    return np.array([height]), np.array([width]), np.arange(1), 0, 0


THEIRS = np.load(Path(__file__).parents[3] / "data" / "torchvision-detection.npz")
HEIGHT, WIDTH = 100, 160
N = 4000


def decided(transform, n=N, height=HEIGHT, width=WIDTH):
    """The state of ``n`` images after a transform."""
    state = TransformState.of(np.full(n, height), np.full(n, width))
    transform.params(state, np.random.default_rng(0).random((n, transform.draws)))
    return state


@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("zoom-out", RandomZoomOut(p=1)),
        ("scale-jitter", ScaleJitter((300, 200))),
        ("shortest-size", RandomShortestSize((50, 75, 200), 240)),
    ],
)
def test_sizes_and_locations_are_distributed_as_torchvisions_own(name, transform):
    state = decided(transform)
    ours = np.concatenate((-state.geometry.start, state.size)) if name == "zoom-out" else state.size
    for values, theirs in zip(ours, THEIRS[name].T, strict=True):
        assert_same_distribution(values, theirs)


def torchvision_zoom_out(rng, low, high):
    factor = rng.uniform(low, high)
    width, height = int(WIDTH * factor), int(HEIGHT * factor)
    left, top = int((width - WIDTH) * rng.random()), int((height - HEIGHT) * rng.random())
    return -top, -left, height, width


def test_zooming_out_is_distributed_as_torchvisions_formula():
    state = decided(RandomZoomOut(7, (1.2, 3.0), p=1))
    rng = random.Random(0)
    expected = np.array([torchvision_zoom_out(rng, 1.2, 3.0) for _ in range(N)])
    for axis, values in enumerate((*state.geometry.start, *state.size)):
        assert_same_distribution(values, expected[:, axis])
    assert state.fill.tolist() == [7, 7, 7]


def test_zooming_out_leaves_images_in_the_share_of_the_probability():
    state = decided(RandomZoomOut(p=0.3))
    assert abs((state.size[0] > HEIGHT).mean() - 0.3) < 0.05
    assert (state.geometry.start[:, state.size[0] == HEIGHT] == 0).all()


def test_scale_jitter_is_distributed_as_torchvisions_formula():
    state = decided(ScaleJitter((300, 200), (0.5, 1.5)))
    rng = random.Random(0)
    factors = [min(200 / HEIGHT, 300 / WIDTH) * rng.uniform(0.5, 1.5) for _ in range(N)]
    assert_same_distribution(state.size[0], np.array([int(HEIGHT * r) for r in factors]))
    assert_same_distribution(state.size[1], np.array([int(WIDTH * r) for r in factors]))
    tiny = decided(ScaleJitter(20, (0.1, 0.1)), 3, height=1, width=1000)
    assert tiny.size.T.tolist() == [[1, 2]] * 3


def test_every_shortest_size_is_as_likely_and_the_longer_side_is_limited():
    state = decided(RandomShortestSize((50, 75, 200), max_size=240))
    sizes, counts = np.unique(state.size, axis=1, return_counts=True)
    assert sizes.T.tolist() == [[50, 80], [75, 120], [150, 240]]
    assert (np.abs(counts / N - 1 / 3) < 0.04).all()
    assert RandomShortestSize(9).min_size == (9,)


def test_random_resize_takes_every_size_below_the_largest():
    state = decided(RandomResize(20, 30))
    shorter, counts = np.unique(state.size[0], return_counts=True)
    assert shorter.tolist() == list(range(20, 30))
    assert counts.min() > 300
    assert (state.size[1] == (state.size[0] * 1.6).astype(int)).all()


@pytest.mark.parametrize("transform", [RandomZoomOut(), ScaleJitter(9), RandomResize(8, 9)])
def test_they_need_a_transform_that_gives_one_size(transform):
    with pytest.raises(ConfigError, match="different sizes"):
        compile_image([CenterCrop(99), transform])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomZoomOut(256), "fill must be"),
        (lambda: RandomZoomOut(side_range=(0.5, 2)), "side_range must be"),
        (lambda: RandomZoomOut(p=2), "p must be"),
        (lambda: ScaleJitter(0), "target_size must be"),
        (lambda: ScaleJitter(9, (0, 1)), "scale_range must be"),
        (lambda: RandomShortestSize(()), "min_size must be"),
        (lambda: RandomShortestSize(9, 0), "max_size must be"),
        (lambda: RandomResize(0, 9), "min_size must be"),
        (lambda: RandomResize(9, 9), "max_size must be"),
    ],
)
def test_a_bad_argument_is_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
