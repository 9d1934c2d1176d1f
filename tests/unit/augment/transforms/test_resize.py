"""Resizes: sizes against torchvision's formulas and draws, and Letterbox against Ultralytics'."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers.transforms import assert_same_distribution

from stoker.augment import (
    Letterbox,
    RandomResize,
    RandomShortestSize,
    RandomZoomOut,
    Resize,
    ScaleJitter,
    compile_image,
)
from stoker.augment.geometry import transform_boxes
from stoker.augment.state import TransformState


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


SIZES = [(1, 1), (1, 7), (7, 1), (300, 500), (500, 300), (333, 500), (257, 256), (255, 256), (4000, 31)]


def torchvision_resized(height, width, size, max_size):
    short, long = min(height, width), max(height, width)
    if size is None:
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size, int(size * long / short)
    if size and max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    new_short = max(new_short, 1)
    return (new_short, new_long) if height <= width else (new_long, new_short)


@pytest.mark.parametrize(
    ("size", "max_size"),
    [*product([1, 32, 224], [None, 225, 330, 1000]), (None, 1), (None, 224), (None, 1000)],
)
def test_resize_by_the_shorter_side_or_the_longer_one(size, max_size):
    state = TransformState.of(*np.array(SIZES).T)
    Resize(size, max_size=max_size).params(state, np.zeros((len(SIZES), 0)))
    assert state.size.T.tolist() == [list(torchvision_resized(h, w, size, max_size)) for h, w in SIZES]
    for h, w in SIZES:
        assert Resize(size, max_size=max_size).output_size((h, w)) == torchvision_resized(
            h, w, size, max_size
        )
