"""Mosaic: where each pixel, box, keypoint and mask of a mosaic comes from."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import CutMix, Mosaic
from stoker.augment.batch import one_hot
from stoker.augment.geometry.boxes import convert_boxes
from stoker.augment.geometry.masks import mask_boxes
from stoker.errors import ConfigError

SIZE = (60, 80)
N = 6


def draw(n=N, seed=0, epoch=0, **arguments):
    return Mosaic(**arguments).draw(np.arange(n), SIZE, seed, epoch)


def coordinate_images(dtype=np.float32, n=N):
    """Images, NCHW, whose three channels are the sample, row and column of each pixel."""
    rows, columns = np.indices(SIZE) + 0.5
    image = np.stack([np.stack((np.full(SIZE, i), rows, columns)) for i in range(n)])
    return image.astype(dtype)


def test_tiles_meet_at_the_centre_and_cover_the_image():
    params = draw(100)
    covered = np.zeros((100, *SIZE), int)
    for i, tiles in enumerate(params.dest.tolist()):
        for top, left, height, width in tiles:
            covered[i, top : top + height, left : left + width] += 1
    assert (covered == 1).all()
    center = params.dest[:, 3, :2]
    assert (center >= (15, 20)).all()
    assert (center <= (45, 60)).all()
    assert center.std(axis=0).min() > 6


def test_windows_lie_within_their_images_at_the_given_scale():
    params = draw(200, scale=(0.6, 0.9))
    assert params.region.min() >= 0
    assert (params.region[..., 2:] <= np.array(SIZE) + 1e-9).all()
    scale = params.dest[..., 2:] / (params.region[..., 2:] - params.region[..., :2])
    np.testing.assert_allclose(scale[..., 0], scale[..., 1])
    assert scale.min() >= 0.6
    assert scale.max() <= 0.9 + 1e-9
    least = (params.dest[..., 2:] / SIZE).max(axis=-1)
    assert (scale[..., 0] >= least - 1e-9).all()


def test_partners_come_from_the_batch():
    params = draw(50)
    assert params.partner[:, 0].tolist() == list(range(50))
    others = params.partner[:, 1:]
    assert others.min() >= 0
    assert others.max() == 49
    assert len(np.unique(others)) > 40


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.uint8, 1.1), (np.float32, 0.1), (np.float16, 0.2)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pixels_come_from_where_the_parameters_say(dtype, tolerance, layout):
    params = draw()
    images = coordinate_images(dtype)
    given = images if layout == "NCHW" else np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    made = params.images(given, layout)
    assert made.dtype == dtype
    assert made.flags.c_contiguous
    made = made if layout == "NCHW" else made.transpose(0, 3, 1, 2)
    for i, t in np.ndindex(N, 4):
        top, left, height, width = params.dest[i, t].tolist()
        sample, rows, columns = made[i, :, top : top + height, left : left + width].astype(float)
        assert (sample == params.partner[i, t]).all()
        y0, x0, y1, x1 = params.region[i, t]
        expected_rows = y0 + (np.arange(height) + 0.5) * (y1 - y0) / height
        expected_columns = x0 + (np.arange(width) + 0.5) * (x1 - x0) / width
        # Away from the window's border, where the filter sees one side only.
        np.testing.assert_allclose(rows[2:-2, 0], expected_rows[2:-2], atol=tolerance)
        np.testing.assert_allclose(columns[0, 2:-2], expected_columns[2:-2], atol=tolerance)


def test_bfloat16_images_are_resampled_like_float32():
    params = draw()
    images = coordinate_images()
    bits = (images.view(np.uint32) >> 16).astype(np.uint16)
    made = params.images(bits)
    assert made.dtype == np.uint16
    values = (made.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(values, params.images(images), atol=0.5)


def test_images_stay_as_they_are_in_the_share_of_the_probability():
    params = draw(200, p=0.5)
    alone = (params.dest[:, 0] == (0, 0, *SIZE)).all(axis=1)
    assert 0.35 < alone.mean() < 0.65
    images = coordinate_images(n=200)
    np.testing.assert_array_equal(params.images(images)[alone], images[alone])
    segmentation = images[:, 1].astype(np.uint8)
    np.testing.assert_array_equal(params.segmentation(segmentation)[alone], segmentation[alone])
    boxes = np.tile([[3.0, 4, 50, 40]], (200, 1))
    moved = params.boxes(boxes, np.arange(200))
    at = np.isin(moved.owner, np.flatnonzero(alone))
    assert at.sum() == alone.sum()
    assert (moved.boxes[at] == boxes[0]).all()
    assert (moved.owner[at] == moved.origin[at]).all()


def test_labels_are_shares_of_area():
    params = draw()
    soft = params.labels(np.arange(N), N)
    assert soft.dtype == np.float32
    np.testing.assert_allclose(soft.sum(axis=1), 1, rtol=1e-6)
    made = params.images(coordinate_images())[:, 0]
    for i in range(N):
        np.testing.assert_allclose(soft[i], [(made[i] == k).mean() for k in range(N)], atol=1e-6)
    several = np.eye(N)[:, ::-1] + np.eye(N)
    np.testing.assert_allclose(
        params.labels(several, N), soft[:, ::-1] + soft, rtol=1e-6
    )  # of several labels, each in its share


def box_and_mask(i):
    """A random box in sample ``i``, and its mask."""
    rng = np.random.default_rng(i)
    low = rng.integers(5, (40, 30))
    box = np.concatenate((low, low + rng.integers(12, 25, 2))).astype(float)
    mask = np.zeros(SIZE, np.uint8)
    mask[int(box[1]) : int(box[3]), int(box[0]) : int(box[2])] = 1
    return box, mask


def test_objects_follow_their_pixels():
    n = 12
    params = draw(n, scale=(0.7, 1.0))
    boxes, masks = map(np.array, zip(*(box_and_mask(i) for i in range(n)), strict=True))
    images = np.zeros((n, 3, *SIZE), np.uint8)
    images[np.arange(n), :] = masks[:, None] * 255
    moved = params.boxes(boxes, np.arange(n), min_size=2)
    made = params.images(images)[:, 0]
    found = params.masks(masks, moved)
    assert len(moved.owner) > 20
    assert (np.diff(moved.owner) >= 0).all()
    for k, (i, t) in enumerate(zip(moved.owner, moved.tile, strict=True)):
        top, left, height, width = params.dest[i, t].tolist()
        assert moved.origin[k] == params.partner[i, t]
        shown = np.zeros(SIZE, bool)
        shown[top : top + height, left : left + width] = True
        bright = (made[i] > 127) & shown
        np.testing.assert_allclose(mask_boxes(bright[None])[0], moved.boxes[k], atol=1)
        np.testing.assert_allclose(mask_boxes(found[k : k + 1])[0], moved.boxes[k], atol=1)
        seen = np.prod(moved.boxes[k, 2:] - moved.boxes[k, :2])
        whole = np.prod(boxes[moved.origin[k], 2:] - boxes[moved.origin[k], :2])
        np.testing.assert_allclose(moved.area_scale[k], seen / whole)
    # What is bright is the box of some object.
    everything = params.boxes(boxes, np.arange(n))
    found = params.masks(masks, everything)
    for i in range(n):
        assert not (made[i][~found[everything.owner == i].any(axis=0)] > 200).any()


def test_boxes_are_dropped_by_visible_share_and_size_in_any_format():
    params = draw(30)
    boxes = np.tile([[10.0, 10, 60, 50]], (30, 1))
    everything = params.boxes(boxes, np.arange(30))
    scale = 1 / (params.region[..., 2:] - params.region[..., :2]) * params.dest[..., 2:]
    magnification = np.prod(scale, axis=-1)[everything.owner, everything.tile]
    visible = everything.area_scale / magnification
    some = params.boxes(convert_boxes(boxes, "XYXY", "XYWH"), np.arange(30), "XYWH", min_visible=0.5)
    assert len(some.owner) == (visible >= 0.5).sum()
    np.testing.assert_allclose(convert_boxes(some.boxes, "XYWH", "XYXY"), everything.boxes[visible >= 0.5])
    large = params.boxes(boxes, np.arange(30), min_size=20)
    extent = (everything.boxes[:, 2:] - everything.boxes[:, :2]).min(axis=1)
    assert len(large.owner) == (extent >= 20).sum()


def test_keypoints_follow_their_tiles():
    params = draw()
    boxes = np.tile([[2.0, 2, 78, 58]], (N, 1))
    keypoints = np.tile([[(40.0, 30, 2), (20, 50, 1), (70, 10, 0)]], (N, 1, 1))
    moved = params.boxes(boxes, np.arange(N))
    points = params.keypoints(keypoints, moved)
    assert points.shape == (len(moved.owner), 3, 3)
    made = params.images(coordinate_images())
    checked = 0
    for k, i in enumerate(moved.owner):
        assert points[k, 2].tolist() == [0, 0, 0]  # was not labelled
        for (x, y, v), original in zip(points[k], keypoints[0], strict=True):
            top, left, height, width = params.dest[i, moved.tile[k]]
            if v == 0 or not (left + 2 < x < left + width - 3 and top + 2 < y < top + height - 3):
                continue
            assert v == original[2]
            _, row, column = made[i, :, int(y), int(x)]
            np.testing.assert_allclose((column, row), original[:2], atol=1)
            checked += 1
    assert checked > 6


def test_segmentation_follows_the_image():
    params = draw()
    images = coordinate_images()
    masks = (images[:, 1] // 10 * 10 + images[:, 2] // 16).astype(np.int64)
    made = params.images(images)
    moved = params.segmentation(masks)
    assert moved.dtype == np.int64
    expected = (made[:, 1] // 10 * 10 + made[:, 2] // 16).astype(np.int64)
    assert (moved == expected).mean() > 0.93  # but for the borders, where rounding differs


def test_cutmix_replaces_the_same_box_of_a_mask():
    params = CutMix().draw(np.arange(N), SIZE, 0, 0)
    images = coordinate_images(np.float32)
    np.testing.assert_array_equal(params.segmentation(images[:, 0]), params.images(images)[:, 0])


def test_a_batch_without_objects_has_no_boxes_and_masks():
    moved = draw().boxes(np.empty((0, 4)), np.empty(0, int))
    assert moved.boxes.shape == (0, 4)
    assert len(moved.owner) == len(moved.area_scale) == 0
    assert draw().masks(np.empty((0, *SIZE), np.uint8), moved).shape == (0, *SIZE)
    assert len(draw(0)) == 0


def test_a_draw_is_keyed_by_seed_epoch_and_sample():
    base = draw(40).dest
    for other in (draw(40, seed=1), draw(40, epoch=1)):
        assert (other.dest != base).any(axis=(1, 2)).mean() > 0.9
    np.testing.assert_array_equal(Mosaic().draw(np.arange(40)[::-1], SIZE, 0, 0).dest[::-1], base)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 2}, "p must be"),
        ({"center": (0.5, 1.5)}, "center must be"),
        ({"scale": (0, 1)}, "scale must be"),
        ({"scale": (1, 0.5)}, "scale must be"),
    ],
)
def test_a_bad_argument_is_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Mosaic(**arguments)


def test_labels_of_another_shape_are_refused():
    with pytest.raises(ConfigError, match=r"labels must be \(N,\) integers or \(N, 3\); found"):
        one_hot(np.zeros((4, 2)), 3)
    with pytest.raises(ConfigError, match="found float64 of"):
        one_hot(np.ones(4), 3)


def test_class_masks_show_the_images_that_the_mosaic_shows():
    masks = np.arange(8, dtype=np.uint8)[:, None, None].repeat(20, 1).repeat(30, 2)
    params = Mosaic().draw(np.arange(8), (20, 30), 0, 0)
    images = params.images(masks[:, None].repeat(3, 1))
    np.testing.assert_array_equal(params.segmentation(masks), images[:, 0])
