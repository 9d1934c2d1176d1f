"""Objects and masks of a resized image follow its pixels."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.data.pictures import png
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.formats.conversion.images.encode_image import encode_image
from stoker.formats.conversion.images.image_objects import fit_objects
from stoker.formats.conversion.images.resize_geometry import resize_geometry, resize_mask, resize_objects
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.dataset.annotations import Annotations, mask_of_runs, runs_of_mask

MODES: list[tuple[Any, int, int]] = [
    ("shorter", 40, 40),
    ("longer", 64, 64),
    ("squash", 50, 90),
    ("crop", 48, 48),
    ("crop", 90, 40),
    ("fill", 64, 64),
    ("fill", 33, 90),
    ("crop", 200, 300),
    ("fill", 200, 300),
]
SIZES = [(80, 120), (121, 77), (60, 60)]


def make_objects(boxes: Any, **more: Any) -> Annotations:
    """Objects of one image."""
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    m = len(boxes)
    return Annotations(
        owner=np.zeros(m, np.int64),
        boxes=boxes,
        labels=np.zeros(m, np.int64),
        crowd=np.zeros(m, bool),
        area=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
        id=np.arange(m),
        **more,
    )


def encode_resized(pixels: np.ndarray[Any, Any], mode: Any, height: int, width: int) -> np.ndarray[Any, Any]:
    options = ConvertOptions(mode=mode, height=height, width=width, encoding="raw", shards=1)
    image = encode_image(png(pixels), options)
    return np.frombuffer(image.payload, np.uint8).reshape(image.height, image.width, 3)


@pytest.mark.parametrize(("mode", "height", "width"), MODES)
@pytest.mark.parametrize("size", SIZES)
def test_boxes_polygons_keypoints_and_runs_follow_the_pixels(
    size: tuple[int, int], mode: Any, height: int, width: int
) -> None:
    h, w = size
    left, top, right, bottom = w // 2 - 20, h // 2 - 15, w // 2 + 10, h // 2 + 21
    pixels = np.zeros((h, w, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    out = encode_resized(pixels, mode, height, width)
    geometry = resize_geometry(mode, height, width, size)
    assert geometry.size == out.shape[:2]
    rows, columns = (np.flatnonzero((out[..., 0] > 127).any(axis=axis)) for axis in (1, 0))
    seen = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    corners = np.array([[left, top], [right, top], [right, bottom]], np.float32)
    points = np.concatenate((corners, [[2], [0], [1]]), axis=1, dtype=np.float32)[None]
    mask = pixels[..., 0] > 0
    before = make_objects(
        [[left, top, right, bottom]], keypoints=points, polygons=[[corners]], runs=[runs_of_mask(mask)]
    )
    after, dropped = fit_objects(before, size, geometry, relative=False)
    assert not dropped
    np.testing.assert_allclose(after.boxes[0], seen, atol=1)
    assert after.polygons is not None
    assert after.keypoints is not None
    moved = after.polygons[0][0]
    box = [moved[0, 0], moved[0, 1], moved[2, 0], moved[2, 1]]
    np.testing.assert_allclose(after.boxes[0], np.clip(box, 0, geometry.size[::-1] * 2), rtol=1e-6)
    assert after.keypoints[0, 1, 2] == 0
    inside = ((moved >= 0) & (moved <= geometry.size[::-1])).all(axis=1)
    assert (after.keypoints[0, :, 2] > 0).tolist() == [inside[0], False, inside[2]]
    for i in (0, 2) if inside[[0, 2]].all() else ():
        np.testing.assert_array_equal(after.keypoints[0, i, :2], moved[i])
    assert after.runs is not None
    drawn = mask_of_runs(after.runs[0], *geometry.size)
    np.testing.assert_array_equal(drawn, resize_mask(mask, geometry, 0))
    assert (drawn ^ (out[..., 0] > 127)).mean() < 0.02
    np.testing.assert_allclose(after.area[0], np.prod(after.boxes[0, 2:] - after.boxes[0, :2]), rtol=1e-4)


@pytest.mark.parametrize(("mode", "height", "width"), MODES)
@pytest.mark.parametrize("size", SIZES)
def test_a_resized_mask_has_no_new_values(size: tuple[int, int], mode: Any, height: int, width: int) -> None:
    mask = np.random.default_rng(0).choice(np.array([3, 7, 200], np.uint8), size)
    geometry = resize_geometry(mode, height, width, size)
    out = resize_mask(mask, geometry, 255)
    assert out.shape == geometry.size
    assert out.dtype == np.uint8
    top, left, inner_height, inner_width = geometry.dest
    inner = out[top : top + inner_height, left : left + inner_width]
    assert set(np.unique(inner)) <= {3, 7, 200}
    assert (out == 255).sum() == out.size - inner.size
    # Three pixels are compared with exact fractions.
    scale_y = (Fraction(geometry.region[2]) - Fraction(geometry.region[0])) / inner_height
    scale_x = (Fraction(geometry.region[3]) - Fraction(geometry.region[1])) / inner_width
    for y, x in [(0, 0), (inner_height - 1, inner_width - 1), (inner_height // 3, inner_width // 2)]:
        row = Fraction(geometry.region[0]) + (y + Fraction(1, 2)) * scale_y
        column = Fraction(geometry.region[1]) + (x + Fraction(1, 2)) * scale_x
        near = Fraction(1, 1 << 40)  # on an edge, either pixel is the nearest
        assert (
            inner[y, x]
            in mask[int(row - near) : int(row + near) + 1, int(column - near) : int(column + near) + 1]
        )


SIDE = st.integers(1, 90)


@given(st.sampled_from(["shorter", "longer", "squash", "crop", "fill"]), SIDE, SIDE, SIDE, SIDE)
@example("crop", 20, 90, 5, 10)  # where sides of half a pixel are rounded
@example("fill", 30, 80, 21, 20)
def test_the_geometry_is_that_of_the_resized_pixels(
    mode: Any, h: int, w: int, height: int, width: int
) -> None:
    if mode in ("shorter", "longer"):
        width = height
    pixels = np.zeros((h, w, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = 2 * np.arange(w), 2 * np.arange(h)[:, None]
    out = encode_resized(pixels, mode, height, width)
    geometry = resize_geometry(mode, height, width, (h, w))
    assert geometry.size == out.shape[:2]
    top, left, inner_height, inner_width = geometry.dest
    assert 0 <= top <= top + inner_height <= out.shape[0]
    assert 0 <= left <= left + inner_width <= out.shape[1]
    assert resize_mask(np.zeros((h, w), np.uint8), geometry, 1).shape == out.shape[:2]
    # The values of a ramp show which pixel of the source each comes from.
    inner = out[top : top + inner_height, left : left + inner_width]
    for axis, number, size, values in (
        (1, inner_width, w, inner[..., 0]),
        (0, inner_height, h, inner[..., 1]),
    ):
        start, scale = geometry.region[axis], 1 / geometry.scale[1 - axis]
        centers = start + (np.arange(number) + 0.5) * scale
        whole = np.minimum(centers, size - centers) >= max(scale, 1)
        expected = np.broadcast_to(np.expand_dims(2 * centers - 1, 1 - axis), values.shape)
        np.testing.assert_allclose(values.compress(whole, axis), expected.compress(whole, axis), atol=1.5)


def test_objects_are_clipped_to_the_crop_and_those_outside_are_dropped() -> None:
    geometry = resize_geometry("crop", 50, 50, (50, 150))
    assert geometry.region == (0, 50, 50, 100)
    before = make_objects([[0, 0, 40, 40], [30, 10, 70, 20], [60, 10, 70, 20]])
    after, dropped = fit_objects(before, (50, 150), geometry, relative=False)
    assert after.boxes.tolist() == [[0, 10, 20, 20], [10, 10, 20, 20]]
    assert after.area.tolist() == [200, 100]
    assert [(drop.object, drop.reason, drop.broken) for drop in dropped] == [
        (0, "object outside the crop", False)
    ]


def test_objects_of_polygons_and_of_run_lengths_are_resized_together() -> None:
    mask = np.zeros((20, 30), bool)
    mask[5:10, 5:10] = True
    corners = np.array([[1, 1], [3, 1], [3, 3]], np.float32)
    runs = [np.zeros(0, np.uint32), runs_of_mask(mask)]
    before = make_objects([[1, 1, 3, 3], [5, 5, 10, 10]], polygons=[[corners], []], runs=runs)
    after = resize_objects(before, resize_geometry("squash", 40, 60, (20, 30)), (20, 30))
    assert after.runs is not None
    assert [mask_of_runs(of_object, 40, 60).sum() if len(of_object) else 0 for of_object in after.runs] == [
        0,
        100,
    ]


def test_objects_of_unresized_images_do_not_change() -> None:
    before = make_objects([[1, 2, 3, 4]])
    for mode in ("none", "shorter"):
        geometry = resize_geometry(mode, 90, 90, (20, 30))  # type: ignore[arg-type]  # both are modes
        assert geometry.is_identity
        assert resize_objects(before, geometry, (20, 30)) is before


def test_coordinates_as_shares_of_the_image_become_pixels() -> None:
    whole, resized = (resize_geometry(mode, 40, 30, (20, 60)) for mode in ("none", "squash"))
    polygon = np.array([[0.5, 0.5], [1, 0.5], [1, 1]], np.float32)
    before = make_objects([[0.25, 0.5, 0.75, 1]], polygons=[[polygon]])
    after, _ = fit_objects(before, (20, 60), whole, relative=True)
    assert after.boxes.tolist() == [[15, 10, 45, 20]]
    assert after.area.tolist() == [300]
    assert after.polygons is not None
    assert after.polygons[0][0].tolist() == [[30, 10], [60, 10], [60, 20]]
    after, _ = fit_objects(before, (20, 60), resized, relative=True)
    assert after.boxes.tolist() == [[7.5, 20, 22.5, 40]]
