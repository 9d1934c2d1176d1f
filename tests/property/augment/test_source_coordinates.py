"""Boxes and keypoints that are mapped back to the source are the original ones, for any geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import augment
from stoker.augment.geometry import transform_boxes, transform_keypoints

LENGTHS = st.integers(20, 60)
SIZES = st.tuples(LENGTHS, LENGTHS)
UPRIGHT = st.one_of(
    st.builds(augment.Resize, SIZES),
    st.builds(augment.CenterCrop, SIZES),
    st.builds(augment.RandomResizedCrop, SIZES, st.just((0.3, 1.0))),
    st.builds(augment.RandomCrop, SIZES, st.integers(0, 9), st.just(True)),
    st.builds(augment.Pad, st.integers(0, 9)),
    st.builds(augment.RandomZoomOut, side_range=st.just((1.0, 2.0))),
    st.just(augment.RandomHorizontalFlip()),
    st.just(augment.RandomVerticalFlip()),
)
PADDED = st.builds(
    augment.Pad, st.integers(0, 9), padding_mode=st.sampled_from(["edge", "reflect", "symmetric"])
)
WARPS = st.one_of(
    st.builds(augment.RandomRotation, st.integers(0, 180)),
    st.builds(augment.RandomAffine, st.just(40), st.just((0.1, 0.2)), st.just((0.6, 1.5)), st.just(20)),
    st.builds(augment.RandomPerspective, st.just(0.5), st.just(1.0)),
)
CHAINS = st.tuples(st.lists(UPRIGHT, max_size=4), SIZES, st.none() | PADDED, st.lists(WARPS, max_size=2)).map(
    lambda drawn: [
        *drawn[0],
        augment.CenterCrop(drawn[1]),
        *([drawn[2]] if drawn[2] else []),
        *drawn[3],
        augment.RandomHorizontalFlip(),
    ]
)
SOURCES = st.lists(st.tuples(st.integers(30, 300), st.integers(30, 300)), min_size=1, max_size=3)


def _drawn(chain: Any, sources: Any, seed: int) -> tuple[Any, Any]:
    """Parameters, and a box of each image within the visible part of its source."""
    height, width = np.array(sources).T
    params = augment.compile_image(chain).draw(height, width, np.arange(len(sources)), seed, 0)
    low, high = params.region[:, 1::-1], params.region[:, :1:-1]
    return params, np.hstack((low + 0.3 * (high - low), low + 0.8 * (high - low)))


@given(CHAINS, SOURCES, st.integers(0, 99))
def test_a_box_that_is_seen_whole_is_mapped_back_to_the_source(chain: Any, sources: Any, seed: int) -> None:
    params, boxes = _drawn(chain, sources, seed)
    owner = np.arange(len(sources))
    moved, keep = transform_boxes(params, boxes, owner, min_visible=1 - 1e-9)
    matrices = params.to_source()
    if params.warp is None:
        assert keep.all() or params.empty is not None
        assert np.abs(augment.to_source(moved, matrices) - boxes)[keep].max(initial=0) < 1e-9
    else:  # the upright box around a turned one is larger
        back = augment.to_source(moved, matrices)[keep]
        assert (back[:, :2] < boxes[keep, :2] + 1e-6).all()
        assert (back[:, 2:] > boxes[keep, 2:] - 1e-6).all()


@given(CHAINS, SOURCES, st.integers(0, 99))
@settings(max_examples=100)
def test_a_keypoint_that_is_seen_is_mapped_back_to_the_source(chain: Any, sources: Any, seed: int) -> None:
    params, boxes = _drawn(chain, sources, seed)
    points = np.concatenate((boxes.reshape(-1, 2, 2), np.full((len(boxes), 2, 1), 2.0)), axis=2)
    moved = transform_keypoints(params, points, np.arange(len(sources)), swap=[1, 0])
    back = augment.keypoints_to_source(moved, params.to_source(), swap=[1, 0])
    seen = back[..., 2] > 0
    assert np.abs(back - points)[seen].max(initial=0) < 1e-9
