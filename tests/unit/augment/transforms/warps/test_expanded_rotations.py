"""Rotations that make the image larger: sizes, what is seen, and what must follow."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import AugMix, CenterCrop, RandomRotation, Resize, compile_image
from stoker.augment.transforms.warps.matrices import expanded
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
    params = draw([KEEP, turn, CenterCrop(24)])
    assert params.size == (24, 24)
    params = draw([KEEP, turn, Resize((50, 60))], n=3)
    corners = np.array([(0, 0, 1), (WIDTH, 0, 1), (0, HEIGHT, 1), (WIDTH, HEIGHT, 1)])
    seen = np.linalg.inv(params.warp.matrix[0]) @ corners.T
    assert (seen[:2] >= -1e-6).all()
    assert (seen[:2] <= np.array([[60], [50]]) + 1e-6).all()
    assert expanded(np.array([[HEIGHT], [WIDTH]]), np.array([degrees])).ravel().tolist() == list(size)


def test_expanded_images_need_a_size():
    with pytest.raises(ConfigError, match="different sizes"):
        compile_image([KEEP, RandomRotation(9, expand=True)])
    with pytest.raises(ConfigError, match="a crop pads after a warp"):
        draw([KEEP, RandomRotation((90, 90), expand=True), CenterCrop(30)])
    with pytest.raises(ConfigError, match="center must be None where expand is True"):
        RandomRotation(9, expand=True, center=(1, 2))
    with pytest.raises(ConfigError, match="expand must be True or False"):
        RandomRotation(9, expand=1)
    with pytest.raises(ConfigError, match="AugMix"):
        compile_image([KEEP, AugMix(), RandomRotation(9, expand=True), Resize((9, 9))])
