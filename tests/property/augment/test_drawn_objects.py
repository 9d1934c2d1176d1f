"""Boxes, masks and keypoints against pixels: a mark in the image moves to where its annotation moves.

The red channel of each image holds a bright rectangle, which has a box and a mask. Green and blue hold a
blob each, which are two keypoints. Engines execute random chains of geometry, and the tests look for the
marks in the pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.payloads import run_once, samples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import augment
from stoker.augment.geometry.annotations import (
    forward_matrix,
    mirrored,
    transform_boxes,
    transform_keypoints,
    transform_mask,
)
from stoker.augment.geometry.boxes import Objects
from stoker.augment.geometry.masks import encode_runs, transform_segments
from stoker.augment.resampling import apply_matrix
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Work
from stoker.pipeline.engines.registry import executes, make_engine

N = 3
HEIGHT, WIDTH = 110, 140
BLOB = 5
SWAP = [1, 0]
Boxes = Any

sides = st.integers(60, 90)
flips = st.builds(augment.RandomHorizontalFlip) | st.builds(augment.RandomVerticalFlip)
upright = st.one_of(
    flips,
    st.builds(augment.Resize, st.integers(60, 150)),
    st.builds(augment.CenterCrop, st.tuples(st.integers(50, 160), st.integers(50, 160))),
    st.builds(augment.Pad, st.integers(0, 20)),
    st.builds(augment.RandomZoomOut, side_range=st.just((1.0, 1.6))),
    st.builds(augment.RandomIoUCrop, sampler_options=st.just((0.0, 0.1, 2.0))),
    st.builds(augment.ScaleJitter, st.just(120), st.just((0.7, 1.5))),
    st.builds(augment.RandomShortestSize, st.just((80, 100, 130))),
)
settling = st.one_of(
    st.builds(augment.Resize, st.tuples(sides, sides)),
    st.builds(augment.RandomResizedCrop, st.tuples(sides, sides), st.just((0.4, 1.0))),
    st.builds(augment.RandomCrop, st.tuples(sides, sides), pad_if_needed=st.just(True)),
    st.builds(augment.CenterCrop, st.tuples(sides, sides)),
)
turning = st.one_of(
    st.builds(augment.RandomRotation, st.integers(0, 180)),
    st.builds(augment.RandomAffine, st.just(30), st.just((0.1, 0.2)), st.just((0.8, 1.3)), st.just(15)),
    st.builds(augment.RandomPerspective, st.sampled_from([0.2, 0.4]), st.just(1.0)),
)


@st.composite
def chains(draw: st.DrawFn) -> list[augment.Transform]:
    """Geometry before an image has its size, the size, and flips and perhaps a warp after it."""
    before = draw(st.lists(upright, max_size=3))
    after = draw(st.lists(flips, max_size=2))
    warp = draw(st.lists(turning, max_size=1))
    return [*before, draw(settling), *after, *warp, *draw(st.lists(flips, max_size=1))]


def scene(seed: int) -> tuple[Any, Boxes, Any]:
    """N images, (N, H, W, 3), the boxes of their rectangles, (N, 4), and their keypoints, (N, 2, 3)."""
    rng = np.random.default_rng(seed)
    low = rng.integers(8, (80, 60), (N, 2))
    high = np.minimum(low + rng.integers(25, 60, (N, 2)), (WIDTH - 4, HEIGHT - 4))
    center = rng.integers(15, (WIDTH - 15, HEIGHT - 15), (N, 2, 2))
    images = np.zeros((N, HEIGHT, WIDTH, 3), np.uint8)
    for image, (x0, y0), (x1, y1), points in zip(images, low, high, center, strict=True):
        image[y0:y1, x0:x1, 0] = 255
        for channel, (x, y) in enumerate(points.tolist(), 1):
            image[y - BLOB : y + BLOB, x - BLOB : x + BLOB, channel] = 255
    visible = np.full((N, 2, 1), 2)
    return images, np.concatenate((low, high), axis=1), np.concatenate((center, visible), axis=2)


def run(engine: str, images: Any, params: augment.ImageParams, folder: Path) -> Any:
    """The images that an engine makes, (N, H, W, 3) uint8."""
    path = folder / "shard"
    samples = samples_of([image.tobytes() for image in images], path, (HEIGHT, WIDTH), Codec.RAW)
    output, size = ImageFormat("uint8", "NHWC"), path.stat().st_size
    settings = EngineSettings([str(path)], [size], output, batch_size=N, max_pixels=10**7)
    result = run_once(make_engine(engine, settings), Work(samples, params))
    assert not result.status.any(), result.reason
    return np.asarray(result.images)


def around(bright: Any) -> Any:
    """XYXY of the pixels that are set."""
    rows, columns = np.nonzero(bright)
    return np.array((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))


def centroid(channel: Any) -> Any:
    rows, columns = np.indices(channel.shape) + 0.5
    return np.array(((columns * channel).sum(), (rows * channel).sum())) / channel.sum(dtype=float)


def draw_params(transforms: Sequence[augment.Transform], boxes: Boxes, seed: int) -> augment.ImageParams:
    objects = Objects(boxes.astype(np.float64), np.arange(N))
    plan = augment.compile_image(transforms)
    return plan.draw(np.full(N, HEIGHT), np.full(N, WIDTH), np.arange(N), seed, 0, objects=objects)


def shown_boxes(params: augment.ImageParams, boxes: Boxes) -> Boxes:
    """XYXY around what a warp shows of each box: it cuts at whole pixels of the source, boxes at the crop."""
    low, high = np.floor(params.region[:, :2])[:, ::-1], np.ceil(params.region[:, 2:])[:, ::-1]
    left, top, right, bottom = np.concatenate((boxes[:, :2].clip(low), boxes[:, 2:].clip(None, high)), 1).T
    quads = np.stack((left, top, right, top, right, bottom, left, bottom), axis=1).reshape(N, 4, 2)
    corners = apply_matrix(forward_matrix(params), quads.astype(float))
    return np.concatenate((corners.min(axis=1), corners.max(axis=1)), axis=1)


def check_boxes(params: augment.ImageParams, boxes: Boxes, images: Any) -> None:
    moved, keep = transform_boxes(params, boxes, np.arange(N))
    shown = moved if params.warp is None else shown_boxes(params, boxes)
    # A sharp tip of a turned rectangle covers no pixel by half: a trace of it must do.
    trace = 127 if params.warp is None else 8
    for i in range(N):
        red = images[i, ..., 0]
        if not keep[i] and params.window is None:
            assert not (red > trace).any()
        elif keep[i] and (moved[i, 2:] - moved[i, :2]).min() > 4:
            outwards = np.array((-1, -1, 1, 1))
            box, core, hull = (outwards * box for box in (moved[i], around(red > 127), around(red > trace)))
            assert (core - 1 <= np.maximum(box, outwards * shown[i])).all()
            assert (box <= hull + 1).all()


def check_masks(params: augment.ImageParams, boxes: Boxes, images: Any) -> None:
    moved, keep = transform_boxes(params, boxes, np.arange(N))
    left, top, right, bottom = boxes.T
    outlines = np.stack((left, top, right, top, right, bottom, left, bottom), axis=1).reshape(N, 4, 2)
    whole = np.zeros((N, HEIGHT, WIDTH), np.uint8)
    for mask, (x0, y0, x1, y1) in zip(whole, boxes.tolist(), strict=True):
        mask[y0:y1, x0:x1] = 1
    size = np.full(N, HEIGHT), np.full(N, WIDTH)
    polygons = transform_segments(params, np.arange(N), *size, polygons=[[outline] for outline in outlines])
    runs = transform_segments(params, np.arange(N), *size, runs=[encode_runs(mask) for mask in whole])
    for i in range(N):
        segmentation = transform_mask(params, i, whole[i], ignore=0)
        np.testing.assert_array_equal(runs[i], segmentation)
        perimeter = 2 * (moved[i, 2:] - moved[i, :2]).sum()
        for mask in (polygons[i], segmentation):
            if keep[i]:
                assert (mask != (images[i, ..., 0] > 127)).sum() <= 0.6 * perimeter + 4


def check_keypoints(params: augment.ImageParams, keypoints: Any, images: Any) -> None:
    moved = transform_keypoints(params, keypoints, np.arange(N), SWAP)
    reach = BLOB * np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)])
    turned = mirrored(params)
    for k in range(2):
        corners = transform_keypoints(params, keypoints[:, k, None] + reach, np.arange(N))
        for i in np.flatnonzero((corners[..., 2] > 0).all(axis=1)):
            point = moved[i, SWAP[k] if turned[i] else k]
            assert point[2] == 2
            np.testing.assert_allclose(point[:2], centroid(images[i, ..., 1 + k]), atol=1)


@settings(max_examples=settings().max_examples // 2)
@given(chain=chains(), seed=st.integers(0, 1000))
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_boxes_masks_and_keypoints_lie_on_the_marks_in_the_pixels(
    engine: str, chain: list[augment.Transform], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    images, boxes, keypoints = scene(seed)
    params = draw_params(chain, boxes, seed)
    if not executes(engine, params.needs()):
        return
    transformed = run(engine, images, params, tmp_path_factory.getbasetemp())
    check_boxes(params, boxes, transformed)
    check_masks(params, boxes, transformed)
    check_keypoints(params, keypoints, transformed)


def test_erasing_moves_no_box_and_no_keypoint(tmp_path: Path) -> None:
    images, boxes, keypoints = scene(0)
    plain = draw_params([augment.Resize((80, 90))], boxes, 0)
    erased = draw_params([augment.Resize((80, 90)), augment.RandomErasing(1, (0.3, 0.5), value=9)], boxes, 0)
    for function, labels in ((transform_boxes, boxes), (transform_keypoints, keypoints)):
        for a, b in zip(*(function(p, labels, np.arange(N)) for p in (plain, erased)), strict=True):
            np.testing.assert_array_equal(a, b)
    changed = run("reference", images, erased, tmp_path) != run("reference", images, plain, tmp_path)
    assert changed.any(axis=(1, 2, 3)).all()
