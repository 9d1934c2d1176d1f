"""Pad and RandomCrop: pixels against NumPy's padding, locations against torchvision's distribution."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import png

from stoker.augment import (
    AugMix,
    CenterCrop,
    Pad,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    compile_image,
)
from stoker.augment.geometry.annotations import transform_boxes, transform_keypoints, transform_mask
from stoker.augment.reference import render
from stoker.augment.state import MODES, continued
from stoker.errors import ConfigError
from stoker.pipeline.images.objects import draw_class_masks, output_boxes, output_keypoints

PIXELS = np.random.default_rng(0).integers(1, 256, (20, 30, 3), np.uint8)


def draw(transforms, n=1, height=20, width=30):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


def padded(pixels, left, top, right, bottom, fill=0):
    return np.pad(pixels, ((top, bottom), (left, right), (0, 0)), constant_values=fill)


@pytest.mark.parametrize(
    ("padding", "sides"),
    [(3, (3, 3, 3, 3)), ((2, 5), (2, 5, 2, 5)), ((1, 2, 3, 4), (1, 2, 3, 4)), (0, (0,) * 4)],
)
def test_pad_adds_pixels_on_each_side(padding, sides):
    expected = padded(PIXELS, *sides, fill=7)
    params = draw([Resize((20, 30)), Pad(padding, fill=7)])
    assert params.size == expected.shape[:2]
    np.testing.assert_array_equal(render(params, 0, PIXELS), expected)


def test_random_crop_with_padding_cuts_the_padded_image():
    pixels = padded(PIXELS, 4, 4, 4, 4)
    params = draw([RandomCrop((20, 30), padding=4), RandomHorizontalFlip(0)], 200)
    corners = set()
    for i in range(200):
        image = render(params, i, PIXELS)
        top, left = 4 + params.region[i, :2].astype(int) - params.dest[i, :2]
        corners.add((top, left))
        np.testing.assert_array_equal(image, pixels[top : top + 20, left : left + 30])
    assert {top for top, _ in corners} == {left for _, left in corners} == set(range(9))


def test_an_image_that_is_too_small_is_refused_or_padded_as_needed():
    with pytest.raises(ConfigError, match=r"size \(25, 25\) is larger than an image of 20 x 30"):
        draw([RandomCrop(25)])
    with pytest.raises(ConfigError, match=r"size \(25, 25\) is larger than an image of 24 x 24"):
        compile_image([Resize((24, 24)), RandomCrop(25)])
    params = draw([RandomCrop(25, pad_if_needed=True)], 500)
    # Five rows are missing, so five are added above and below: 30 rows for a crop of 25.
    top = params.region[:, 0].astype(int) - params.dest[:, 0] + 5
    assert set(top.tolist()) == set(range(6))
    left = params.region[:, 1].astype(int) - params.dest[:, 1]
    assert set(left.tolist()) == set(range(6))


HEIGHT, WIDTH = 13, 17
SMALL = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
KEEP = CenterCrop((HEIGHT, WIDTH))
every_mode = pytest.mark.parametrize("mode", MODES)


def is_part(image, whole):
    """Whether an image is a window of a larger one, pixel by pixel."""
    windows = np.lib.stride_tricks.sliding_window_view(whole, image.shape)
    return (windows == image).all(axis=(-3, -2, -1)).any()


def draw_small(*transforms, n=1):
    return compile_image(transforms).draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), 0, 0)


def continued_by_numpy(pixels, left, top, right, bottom, mode):
    return np.pad(pixels, ((top, bottom), (left, right), (0, 0))[: pixels.ndim], mode=mode)


@every_mode
@pytest.mark.parametrize("extent", [1, 2, 3, 8])
def test_padded_rows_continue_the_image_as_numpys_do(mode, extent):
    expected = np.pad(np.arange(extent), (20, 30), mode=mode)
    shown = continued(np.arange(-20, extent + 30)[None], np.array([[extent]]), mode)
    np.testing.assert_array_equal(shown[0], expected)


@every_mode
def test_crops_and_flips_may_follow_padding(mode):
    params = draw_small(
        KEEP,
        RandomHorizontalFlip(1),
        Pad((4, 3, 30, 20), padding_mode=mode),
        RandomHorizontalFlip(1),
        RandomCrop((15, 12)),
        RandomVerticalFlip(1),
        CenterCrop((9, 8)),
        n=20,
    )
    whole = continued_by_numpy(SMALL[:, ::-1], 4, 3, 30, 20, mode)[:, ::-1]
    for i in range(len(params)):
        assert is_part(render(params, i, SMALL), whole[::-1])


@every_mode
def test_padding_of_some_samples_leaves_the_others_as_they_are(mode):
    crop = RandomCrop((HEIGHT, WIDTH), padding=3, padding_mode=mode)
    for transform in (RandomApply([crop]), RandomChoice([crop, RandomVerticalFlip(0)])):
        params = draw_small(KEEP, transform, n=40)
        images = np.stack([render(params, i, SMALL) for i in range(40)])
        alone = (images == SMALL).all(axis=(1, 2, 3))
        assert 5 < alone.sum() < 35
        whole = continued_by_numpy(SMALL, 3, 3, 3, 3, mode)
        assert all(is_part(image, whole) for image in images)
    rarely = compile_image([KEEP, RandomApply([crop], 0.01)])
    assert rarely.needs == {"border"}


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([Pad(2, padding_mode="edge"), Resize((9, 9))], "a resize stands after padding_mode='edge'"),
        ([Pad(2, padding_mode="edge"), RandomResizedCrop(9)], "a resize stands after"),
        ([Pad(2, padding_mode="edge"), Pad(2)], "a crop that pads stands after"),
        ([Pad(2, padding_mode="edge"), Pad(2, padding_mode="edge")], "another such padding stands after"),
        ([Pad(2, padding_mode="edge"), RandomIoUCrop(), CenterCrop(9)], "RandomIoUCrop stands after"),
        ([RandomRotation(9), Pad(2, padding_mode="edge")], "an image is padded after a warp"),
        ([AugMix(), Pad(2, padding_mode="edge")], "AugMix"),
        (
            [RandomChoice([RandomCrop(9, 2, padding_mode=mode) for mode in ("edge", "reflect")])],
            "padding_mode='reflect' and 'edge'",
        ),
    ],
)
def test_impossible_compositions_are_refused(transforms, message):
    with pytest.raises(ConfigError, match=message):
        compile_image([CenterCrop(20), *transforms])


@every_mode
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_warp_is_of_the_padded_image(mode, interpolation):
    turn = RandomRotation((25, 25), interpolation, fill=77)
    params = draw_small(Resize((20, 30)), Pad((3, 9, 1, 4), padding_mode=mode), turn, CenterCrop((24, 18)))
    whole = continued_by_numpy(render(draw_small(Resize((20, 30))), 0, SMALL), 3, 9, 1, 4, mode)
    alone = compile_image([CenterCrop((33, 34)), turn, CenterCrop((24, 18))])
    alone = alone.draw(np.array([33]), np.array([34]), np.zeros(1, int), 0, 0)
    np.testing.assert_array_equal(render(params, 0, SMALL), render(alone, 0, whole))


ANNOTATED = [
    [KEEP, RandomHorizontalFlip(1), Pad((5, 6, 7, 8), padding_mode="reflect"), RandomVerticalFlip(1)],
    [
        RandomHorizontalFlip(1),
        RandomCrop((11, 12), padding=6, padding_mode="symmetric"),
        RandomHorizontalFlip(),
    ],
]


@pytest.mark.parametrize("transforms", ANNOTATED)
def test_objects_lie_as_in_padding_of_one_colour(transforms):
    n = 30
    params, expected = (
        draw_small(*transforms, n=n),
        draw_small(*map(_constant, transforms), n=n),
    )
    boxes, owner = np.tile(np.float32([2, 3, 9, 10]), (n, 1)), np.arange(n)
    points = np.tile(np.float32([[[4, 5, 2], [12, 2, 1]]]), (n, 1, 1))
    for move in (transform_boxes, output_boxes):
        found, keep = move(params, boxes, owner)
        true, kept = transform_boxes(expected, boxes, owner)
        np.testing.assert_array_equal(keep, kept)
        np.testing.assert_allclose(found[keep], true[kept], atol=1e-9)
    np.testing.assert_allclose(
        transform_keypoints(params, points, owner), transform_keypoints(expected, points, owner), atol=1e-9
    )
    np.testing.assert_allclose(
        output_keypoints(params, points, owner, ()), transform_keypoints(params, points, owner), atol=1e-9
    )


def _constant(transform):
    if isinstance(transform, Pad):
        return Pad(transform.padding)
    return RandomCrop(transform.size, transform.padding) if isinstance(transform, RandomCrop) else transform


@pytest.mark.parametrize("transforms", ANNOTATED)
def test_a_mask_of_classes_is_continued_as_the_image(transforms):
    mask = SMALL[..., 0]  # 255, the warp's fill, for what is ignored
    params = draw_small(*transforms, n=9)
    for i in range(9):
        np.testing.assert_array_equal(transform_mask(params, i, mask), render(params, i, SMALL)[..., 0])
    sizes = np.full(9, HEIGHT), np.full(9, WIDTH)
    out = np.zeros((9, *params.size), np.uint8)
    left = draw_class_masks(params, [png(mask)] * 9, *sizes, ignore=255, out=out)
    assert left == list(range(9))  # for the slower way, which knows borders
