"""Matrices of warps against torchvision's formulas, and their distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.transforms.distributions import assert_same_distribution

from stoker.augment import CenterCrop, RandomAffine, RandomPerspective, RandomRotation, compile_image

HEIGHT, WIDTH = 24, 30
KEEP = CenterCrop((HEIGHT, WIDTH))


def draw(transforms, n=1, seed=0):
    return compile_image(transforms).draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), seed, 0)


def sizes(n=1):
    return np.tile([[HEIGHT], [WIDTH]], (1, n))


def torchvision_inverse(angle, translate, scale, shear):
    """_get_inverse_affine_matrix about the centre, in coordinates relative to it: 2 x 3."""
    rot, sx, sy = (math.radians(x) for x in (angle, *shear))
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    m = np.array([[d, -b], [-c, a]]) / scale
    return np.column_stack((m, m @ -np.array(translate, float)))


def about_center(matrix):
    """The same in coordinates relative to the centre, as torchvision has it."""
    move = np.eye(3)
    move[:2, 2] = WIDTH / 2, HEIGHT / 2
    return (np.linalg.inv(move) @ matrix @ move)[:2]


@pytest.mark.parametrize("u", [(0.1, 0.2, 0.9, 0.3, 0.8, 0.6), (0.9, 0.5, 0.4, 0.99, 0.0, 0.1)])
def test_affine_is_torchvisions_formula(u):
    transform = RandomAffine((-20, 70), (0.2, 0.1), (0.5, 2.0), (-10, 30, -20, 5))
    translate = (round((2 * u[1] - 1) * 0.2 * WIDTH), round((2 * u[2] - 1) * 0.1 * HEIGHT))
    shear = (-10 + 40 * u[4], -20 + 25 * u[5])
    expected = torchvision_inverse(-20 + 90 * u[0], translate, 0.5 + 1.5 * u[3], shear)
    np.testing.assert_allclose(about_center(transform.matrix(sizes(), np.array([u]))[0]), expected, atol=1e-9)


def test_affine_without_options_only_rotates():
    matrix = RandomAffine((30, 30)).matrix(sizes(), np.full((1, 6), 0.7))[0]
    np.testing.assert_allclose(about_center(matrix), torchvision_inverse(30, (0, 0), 1, (0, 0)), atol=1e-12)


def test_one_shear_is_along_x():
    assert RandomAffine(0, shear=8) == RandomAffine(0, shear=(-8, 8)) == RandomAffine(0, shear=(-8, 8, 0, 0))


def test_a_rotation_turns_against_the_sense_of_affines():
    u = np.array([[0.8]])
    rotation = RandomRotation((10, 50)).matrix(sizes(), u)
    affine = RandomAffine((-42, -42)).matrix(sizes(), np.zeros((1, 6)))
    np.testing.assert_allclose(rotation, affine, atol=1e-12)


def test_the_centre_stays_where_it_is():
    u = np.random.default_rng(0).random((20, 6))
    for center in ((0, 0), (-7.5, 40)):
        for transform in (
            RandomRotation(180, center=center),
            RandomAffine(90, None, (0.5, 2), 40, center=center),
        ):
            matrix = transform.matrix(sizes(20), u)
            np.testing.assert_allclose(matrix @ (*center, 1), [(*center, 1)] * 20, atol=1e-9)
    assert RandomRotation(9, center=(WIDTH / 2, HEIGHT / 2)).matrix(sizes(), u[:1]).tolist() == (
        RandomRotation(9).matrix(sizes(), u[:1]).tolist()
    )


def test_perspective_takes_the_moved_corners_back_to_the_corners():
    height, width = 25, 31
    u = np.random.default_rng(0).random((50, 9))
    u[:, 0] = 0
    matrix = RandomPerspective(0.9, 1.0).matrix(np.tile([[height], [width]], (1, 50)), u)
    most = [int(0.9 * (n // 2)) + 1 for n in (height, width)]
    for m, draws in zip(matrix, u[:, 1:].reshape(-1, 4, 2), strict=True):
        for (bottom, right), (v, h) in zip([(0, 0), (0, 1), (1, 1), (1, 0)], draws, strict=True):
            row = int(v * most[0]) + (height - most[0] if bottom else 0)
            column = int(h * most[1]) + (width - most[1] if right else 0)
            x, y, w = m @ (column, row, 1)
            corner = (right * (width - 1), bottom * (height - 1))
            np.testing.assert_allclose((x / w, y / w), corner, atol=1e-6)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1)])
def test_perspective_of_a_line_changes_nothing(size):
    matrix = RandomPerspective(1.0, 1.0).matrix(np.array([size, size]).T, np.zeros((2, 9)))
    np.testing.assert_array_equal(matrix, [np.eye(3)] * 2)


def test_a_corner_that_passes_the_diagonal_changes_nothing():
    u = np.zeros((1, 9))
    u[0, 1:3] = 0.99  # top left to the centre and, as the others stay, not beyond the diagonal ...
    u[0, 3:9] = (0, 0.99, 0.99, 0.99, 0.99, 0)
    size = np.array([[21], [21]])
    assert (RandomPerspective(0.9, 1.0).matrix(size, u) != np.eye(3)).any()
    u[0, 4] = u[0, 7] = 0.2  # ... until top right and bottom left come inwards
    np.testing.assert_array_equal(RandomPerspective(0.9, 1.0).matrix(size, u)[0], np.eye(3))


def test_any_convex_quadrilateral_is_seen_whole():
    n, size = 20_000, 16
    u = np.random.default_rng(0).random((n, 9))
    matrix = RandomPerspective(1.0, 1.0).matrix(np.full((2, n), size), u)
    moved = np.linalg.inv(matrix) @ np.array([(0, 0, 1), (15, 0, 1), (15, 15, 1), (0, 15, 1)]).T
    back = matrix @ (moved / moved[:, 2:])
    # In front of the horizon, though the output's own corner may lie on it or behind.
    assert (back[:, 2] > 0).all()
    assert (matrix[:, 2, 2] < 0).any()
    assert np.abs(back[:, :2] / back[:, 2:] - [[[0, 15, 15, 0], [0, 0, 15, 15]]]).max() < 1e-6


def test_angles_and_translations_and_probabilities_are_uniform():
    n = 20_000
    turned = draw([KEEP, RandomRotation(40)], n).warp.matrix
    angles = np.degrees(np.arctan2(turned[:, 1, 0], turned[:, 0, 0]))
    assert_same_distribution(angles, np.linspace(-40, 40, 20 * n))
    moved = draw([KEEP, RandomAffine(0, translate=(0.1, 0.25))], n).warp.matrix
    assert np.unique(moved[:, 0, 2].round(6)).tolist() == list(range(-3, 4))
    assert np.unique(moved[:, 1, 2].round(6)).tolist() == list(range(-6, 7))
    same = (draw([KEEP, RandomPerspective(p=0.3)], n).warp.matrix == np.eye(3)).all(axis=(1, 2))
    assert abs(same.mean() - 0.7) < 0.02
