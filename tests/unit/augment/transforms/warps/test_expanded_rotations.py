"""Rotations that make the image larger: sizes, what is seen, and what must follow."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import AugMix, CenterCrop, RandomRotation, Resize, compile_image
from stoker.augment.transforms.warps import expanded
from stoker.errors import ConfigError

HEIGHT, WIDTH = 24, 30
KEEP = CenterCrop((HEIGHT, WIDTH))


def draw(transforms, n=1):
    return compile_image(transforms).draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), 0, 0)


@pytest.mark.parametrize(
    ("degrees", "size"), [(0, (24, 30)), (90, (30, 24)), (180, (24, 30)), (45, (40, 40))]
)
def test_an_expanded_rotation_shows_all(degrees, size):
    turn = RandomRotation((degrees, degrees), expand=True)
    assert draw([KEEP, turn, CenterCrop(24)]).size == (24, 24)
    params = draw([KEEP, turn, Resize((50, 60))], n=3)
    corners = np.array([(0, 0, 1), (WIDTH, 0, 1), (0, HEIGHT, 1), (WIDTH, HEIGHT, 1)])
    seen = np.linalg.inv(params.warp.matrix[0]) @ corners.T
    assert (seen[:2] >= -1e-6).all()
    assert (seen[:2] <= np.array([[60], [50]]) + 1e-6).all()
    assert expanded(np.array([[HEIGHT], [WIDTH]]), np.array([degrees])).ravel().tolist() == list(size)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ([KEEP], [], "different sizes"),
        ([KEEP], [CenterCrop(40)], "a crop pads after a warp"),
        ([KEEP, AugMix()], [Resize((9, 9))], "AugMix"),
    ],
)
def test_an_expanded_image_is_refused_without_a_size_and_after_a_final_one(before, after, message):
    with pytest.raises(ConfigError, match=message):
        draw([*before, RandomRotation((90, 90), expand=True), *after])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"expand": True, "center": (1, 2)}, "center must be None where expand is True"),
        ({"expand": 1}, "expand must be True or False"),
    ],
)
def test_a_bad_argument_is_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        RandomRotation(9, **arguments)
