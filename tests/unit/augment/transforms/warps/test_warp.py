"""Warps: their matrices against torchvision's formulas, their pixels against Pillow's and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from stoker.augment import (
    CenterCrop,
    Pad,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    compile_image,
)
from stoker.augment.reference import render
from stoker.augment.resampling import resample
from stoker.errors import ConfigError

HEIGHT, WIDTH = 24, 30
BLACK = (0, 0, 0)
# Smooth, so that a difference in rounding changes no pixel by much.
ROWS, COLUMNS = np.indices((HEIGHT, WIDTH))
PIXELS = np.stack((ROWS * 8, COLUMNS * 7, 255 - ROWS * 4 - COLUMNS * 4), axis=-1).astype(np.uint8)
KEEP = CenterCrop((HEIGHT, WIDTH))


def draw(transforms, n=1, seed=0):
    return compile_image(transforms).draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), seed, 0)


def run(*transforms):
    return render(draw([KEEP, *transforms]), 0, PIXELS)


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_quarter_turns_are_exact(quarters):
    square = PIXELS[:, :HEIGHT]
    plan = compile_image([CenterCrop(HEIGHT), RandomRotation((90 * quarters, 90 * quarters))])
    params = plan.draw(np.array([HEIGHT]), np.array([HEIGHT]), np.array([0]), 0, 0)
    np.testing.assert_array_equal(render(params, 0, square), np.rot90(square, quarters))


def test_a_shift_by_whole_pixels_copies_and_leaves_black():
    matrix = np.array([[1.0, 0, -3], [0, 1, 2], [0, 0, 1]])
    output = resample(PIXELS, matrix, (HEIGHT, WIDTH), BLACK)
    np.testing.assert_array_equal(output[:-2, 3:], PIXELS[2:, :-3])
    assert not output[-2:].any()
    assert not output[:, :3].any()


def test_half_a_pixel_of_the_border_is_half_filled():
    matrix = np.array([[1.0, 0, -0.5], [0, 1, 0], [0, 0, 1]])
    output = resample(np.full((2, 2, 3), 100, np.uint8), matrix, (2, 4), (0, 50, 200))
    assert output[0].tolist() == [[50, 75, 150], [100, 100, 100], [50, 75, 150], [0, 50, 200]]


@pytest.mark.parametrize(
    "warp",
    [
        lambda fill: RandomRotation((40, 40), fill=fill),
        lambda fill: RandomAffine((40, 40), fill=fill),
        lambda fill: RandomPerspective(0.9, 1, fill=fill),
    ],
)
def test_a_warp_fills_outside_of_the_image(warp):
    white = np.full_like(PIXELS, 255)
    plain, filled = (render(draw([KEEP, warp(fill)]), 0, white) for fill in (None, [9, 200, 30]))
    assert (plain == 0).all(axis=-1).any()
    np.testing.assert_array_equal((plain == 0).all(axis=-1), (filled == (9, 200, 30)).all(axis=-1))
    np.testing.assert_array_equal((plain == 255).all(axis=-1), (filled == 255).all(axis=-1))


def test_all_that_is_padded_has_one_fill():
    assert draw([KEEP, Pad(2, fill=7), TURN, RandomPerspective(fill=7), KEEP]).fill.tolist() == [7, 7, 7]
    with pytest.raises(ConfigError, match=r"fill \(8, 8, 8\) after a fill \(7, 7, 7\)\nUse one fill"):
        draw([KEEP, Pad(2, fill=7), RandomRotation(5, fill=8)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("transform", [RandomRotation(180), RandomAffine(30, (0.1, 0.1), (1.0, 1.6))])
def test_pillow_agrees_inside(transform, seed):
    matrix = draw([KEEP, transform], seed=seed).warp.matrix[0]
    ours = resample(PIXELS, matrix, (HEIGHT, WIDTH), BLACK).astype(int)
    image = Image.fromarray(PIXELS)
    theirs = image.transform((WIDTH, HEIGHT), Image.Transform.AFFINE, matrix[:2].ravel().tolist(), 2)
    x, y = np.einsum("ij,jhw->ihw", matrix[:2], np.stack((COLUMNS + 0.5, ROWS + 0.5, np.ones_like(ROWS))))
    inside = (x > 1) & (x < WIDTH - 1) & (y > 1) & (y < HEIGHT - 1)
    assert inside.sum() > 50
    assert np.abs(ours - np.array(theirs))[inside].max() <= 1


def test_pillow_agrees_on_perspective():
    matrix = draw([KEEP, RandomPerspective(0.4, 1.0)]).warp.matrix[0]
    ours = resample(PIXELS, matrix, (HEIGHT, WIDTH), BLACK).astype(int)
    data = (matrix / matrix[2, 2]).ravel()[:8].tolist()
    theirs = Image.fromarray(PIXELS).transform((WIDTH, HEIGHT), Image.Transform.PERSPECTIVE, data, 2)
    x, y, w = np.einsum("ij,jhw->ihw", matrix, np.stack((COLUMNS + 0.5, ROWS + 0.5, np.ones_like(ROWS))))
    inside = (x / w > 2) & (x / w < WIDTH - 2) & (y / w > 2) & (y / w < HEIGHT - 2)
    assert inside.sum() > 50
    # A filter wider than a pixel moves the levels of a slope by a little.
    assert np.abs(ours - np.array(theirs))[inside].max() <= 2


TURN = RandomRotation((25, 25))


def test_flips_and_crops_after_a_warp_change_the_warped_image():
    turned = run(TURN)
    np.testing.assert_array_equal(run(TURN, RandomHorizontalFlip(1)), turned[:, ::-1])
    np.testing.assert_array_equal(run(TURN, RandomVerticalFlip(1)), turned[::-1])
    np.testing.assert_array_equal(run(TURN, CenterCrop((10, 12))), turned[7:17, 9:21])
    both = run(TURN, RandomHorizontalFlip(1), CenterCrop((11, 13)))
    np.testing.assert_array_equal(both, turned[:, ::-1][6:17, 8:21])


def test_a_warp_after_a_flip_turns_the_mirrored_image():
    mirrored = np.ascontiguousarray(PIXELS[:, ::-1])
    expected = render(draw([KEEP, TURN]), 0, mirrored)
    np.testing.assert_array_equal(run(RandomHorizontalFlip(1), TURN), expected)


def test_opposite_warps_cancel():
    np.testing.assert_array_equal(run(TURN, RandomRotation((-25, -25))), PIXELS)


def test_a_resize_after_a_warp_resizes_the_warped_image():
    turned = run(TURN)
    doubled = Image.fromarray(turned).resize((2 * WIDTH, 2 * HEIGHT), 2)
    difference = run(TURN, Resize((2 * HEIGHT, 2 * WIDTH))).astype(int) - np.array(doubled)
    # Interpolating once is sharper than twice, but hardly so in a smooth image away from its border.
    assert np.abs(difference[16:-16, 20:-20]).max() <= 2


def test_the_canvas_is_the_image_before_the_first_warp():
    params = draw([Resize((40, 50)), TURN, RandomResizedCrop(16), RandomRotation(10)])
    assert params.needs() == {"warp"}
    assert (params.warp.canvas, params.size) == ((40, 50), (16, 16))
    assert params.dest[0].tolist() == [0, 0, 40, 50]
    assert params.warp.matrix.shape == (1, 3, 3)


def test_images_of_different_sizes_cannot_be_warped():
    with pytest.raises(ConfigError, match="Add CenterCrop"):
        compile_image([TURN, CenterCrop(8)])


def test_padding_after_a_warp_is_refused_when_compiling():
    with pytest.raises(ConfigError, match="pads after a warp\nMove the padding before"):
        compile_image([CenterCrop(8), TURN, CenterCrop(9)])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: RandomRotation(-5), "degrees"),
        (lambda: RandomRotation((5, -5)), "degrees"),
        (lambda: RandomAffine(0, translate=(0.1, 1.1)), "translate"),
        (lambda: RandomAffine(0, translate=0.1), "translate"),
        (lambda: RandomAffine(0, scale=(0, 1)), "scale"),
        (lambda: RandomAffine(0, shear=90), "shear"),
        (lambda: RandomAffine(0, shear=(0, 1, 2)), "shear"),
        (lambda: RandomAffine(0, shear=(0, 1, 2, 1)), "shear"),
        (lambda: RandomRotation(5, center=3), "center"),
        (lambda: RandomRotation(5, center=(3, math.nan)), "center"),
        (lambda: RandomAffine(5, center=(3, 4, 5)), "center"),
        (lambda: RandomRotation(5, fill=256), "fill"),
        (lambda: RandomAffine(5, fill=(1, 2)), "fill"),
        (lambda: RandomPerspective(fill=-1), "fill"),
        (lambda: RandomPerspective(1.5), "distortion_scale"),
        (lambda: RandomPerspective(p=-1), "p"),
    ],
)
def test_a_bad_argument_is_named(make, name):
    with pytest.raises(ConfigError, match=rf"\w+: {name} must be .*; found "):
        make()
