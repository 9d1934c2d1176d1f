"""States: samples that are taken out and put back change, and the others do not."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from stoker.augment.geometry.boxes import Objects
from stoker.augment.state import TransformState
from stoker.augment.steps import Equalize, Solarize
from stoker.errors import ConfigError

N = 5
ROWS = np.array([3, 1])


def state(*, warped=False):
    made = TransformState.of(
        np.arange(40, 45), np.arange(50, 55), Objects(np.ones((4, 4)), np.array([0, 1, 3, 3]))
    )
    made.crop(np.full((2, N), 2), np.full((2, 1), 30))
    made.color.linear(2 * np.eye(3))
    if warped:
        made.distort(np.tile(np.diag((1.0, 2, 1)), (N, 1, 1)))
    return made


def assert_equal(one, other):
    for name in ("geometry", "padding", "warp", "color", "objects"):
        part, as_expected = getattr(one, name), getattr(other, name)
        for field in fields(part) if part is not None else ():
            if field.name not in ("in_source", "steps"):
                np.testing.assert_equal(
                    getattr(part, field.name), getattr(as_expected, field.name), field.name
                )
    np.testing.assert_equal(one.fill, other.fill)


@pytest.mark.parametrize("warped", [False, True])
@pytest.mark.parametrize("rows", [ROWS, np.arange(N), np.array([], np.int64)])
def test_samples_that_are_put_back_unchanged_change_nothing(warped, rows):
    whole = state(warped=warped)
    whole.put(rows, whole.take(rows))
    assert_equal(whole, state(warped=warped))


def test_changes_reach_the_samples_that_were_taken():
    whole, taken = state(), state().take(ROWS)
    taken.mirror(np.array([True, False]), 1)
    taken.crop(np.array([[1, 2], [3, 4]]), np.full((2, 1), 9))
    taken.color.affine(np.column_stack((np.eye(3), np.ones(3))))
    whole.put(ROWS, taken)
    assert whole.geometry.flip.tolist() == [[False] * 5, [False, False, False, True, False]]
    assert whole.size[0].tolist() == [30, 9, 30, 9, 30]
    np.testing.assert_array_equal(whole.color.matrix[:, 0, 3], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(whole.geometry.start[:, 1], [2 + 2, 2 + 4])
    left = np.array([0, 2, 4])
    assert_equal(whole.take(left), state().take(left))


def test_a_warp_of_some_leaves_the_others_as_they_are():
    whole, taken = state(), state().take(ROWS)
    taken.distort(np.tile(np.diag((3.0, 1, 1)), (2, 1, 1)), perspective=True)
    whole.put(ROWS, taken)
    np.testing.assert_array_equal(whole.warp.matrix[:, 0, 0], [1, 3, 1, 3, 1])
    assert whole.warp.canvas.tolist() == [[30] * 5] * 2
    assert whole.warp.perspective


@pytest.mark.parametrize(
    "change",
    [
        lambda fixed: fixed.crop(np.zeros((2, 1)), np.full((2, 1), 9)),
        lambda fixed: fixed.resize(np.full((2, 1), 9)),
        lambda fixed: fixed.pad("edge", 1, 1),
        lambda fixed: fixed.show_around_center(np.full((2, N), 9)),
    ],
)
def test_no_size_changes_once_it_is_fixed(change):
    whole, taken = state(warped=True), state(warped=True).take(ROWS)
    taken.fix_size("AugMix")
    whole.put(ROWS, taken)
    with pytest.raises(ConfigError, match="AugMix"):
        change(whole)


def test_widened_images_have_the_same_centre():
    whole = TransformState.of(np.array([30]), np.array([40]))
    whole.distort(np.eye(3)[None])
    whole.show_around_center(np.array([[33], [45]]))
    np.testing.assert_array_equal(whole.warp.matrix[0] @ (22.5, 16.5, 1), [20, 15, 1])


@pytest.mark.parametrize("origin", [-1, 4])
def test_a_crop_after_a_warp_or_a_continued_border_stays_within_the_image(origin):
    warped, continued = (TransformState.of(np.array([7]), np.array([8])) for _ in range(2))
    warped.distort(np.eye(3)[None])
    continued.pad("edge", 0, 0)
    for whole in (warped, continued):
        with pytest.raises(ConfigError, match=r"a crop (pads|that pads stands) after"):
            whole.crop(np.array([[0], [origin]]), np.full((2, 1), 5))


def test_given_arrays_are_not_changed():
    whole, taken, matrix = state(), state().take(ROWS), np.tile(np.diag((1.0, 2, 1)), (N, 1, 1))
    whole.distort(matrix)
    taken.distort(3 * matrix[ROWS])
    whole.put(ROWS, taken)
    assert (matrix == np.diag((1, 2, 1))).all()


@pytest.mark.parametrize("warped", [False, True])
def test_a_warp_of_another_size_than_the_others_have_is_refused(warped):
    whole, taken = state(), state().take(ROWS)
    taken.resize(np.full((2, 1), 20))
    (taken if warped else whole).distort(np.tile(np.eye(3), (2 if warped else N, 1, 1)))
    with pytest.raises(ConfigError, match="warped in another size"):
        whole.put(ROWS, taken)


def test_steps_apply_to_the_samples_that_were_taken():
    whole = state()
    whole.add_steps(Equalize(np.ones(N, bool)))
    taken = whole.take(ROWS)
    assert taken.color.steps == []
    taken.add_steps(Solarize(np.array([True, False]), np.array([7, 8], np.int16)))
    whole.put(ROWS, taken)
    colours, equalize, again, solarize = whole.color.steps
    assert colours.where.all()
    assert equalize.where.all()
    assert not again.where.any()
    assert solarize.where.tolist() == [False, False, False, True, False]
    assert solarize.threshold.tolist() == [0, 8, 0, 7, 0]


def test_objects_are_taken_with_their_images():
    assert state().take(ROWS).objects.in_source.owner.tolist() == [1, 0, 0]


def test_conditions_on_objects_are_put_back():
    whole, taken = state(), state().take(ROWS)
    taken.objects.restrict(np.array([True, True]), taken.geometry)
    whole.put(ROWS, taken)
    assert whole.objects.restricted
    assert whole.objects.window_start[0].tolist() == [-np.inf, 2, -np.inf, 2, -np.inf]
    assert whole.objects.window_stop[1].tolist() == [np.inf, 32, np.inf, 32, np.inf]


def test_a_fill_holds_for_all():
    whole, taken = state(), state().take(ROWS)
    taken.use_fill((1, 2, 3))
    whole.put(ROWS, taken)
    assert whole.fill.tolist() == [1, 2, 3]
    other = state().take(ROWS)
    other.use_fill((3, 2, 1))
    with pytest.raises(ConfigError, match="Use one fill"):
        whole.put(ROWS, other)
