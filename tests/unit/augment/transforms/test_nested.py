"""RandomApply, RandomChoice, RandomOrder: a sample is as if its own transforms alone were in the list."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Pad,
    RandomApply,
    RandomChoice,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomIoUCrop,
    RandomOrder,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    Resize,
    compile_image,
)
from stoker.augment.geometry.boxes import Objects
from stoker.augment.reference import execute
from stoker.errors import ConfigError

N = 40
PIXELS = np.random.default_rng(0).integers(0, 256, (50, 60, 3), np.uint8)


def draw(*transforms, n=N):
    return compile_image(transforms).draw(np.full(n, 50), np.full(n, 60), np.arange(n), 0, 0)


def run(*transforms, n=N):
    params = draw(*transforms, n=n)
    return np.stack([execute(params, i, PIXELS, "uint8") for i in range(n)])


FIXED = [
    RandomInvert(1),
    RandomGrayscale(1),
    RandomPosterize(2, 1),
    RandomSolarize(99, 1),
    RandomHorizontalFlip(1),
    RandomRotation((30, 30)),
    ColorJitter((1.5, 1.5), (1.4, 1.4)),
]
BEFORE = [CenterCrop(40), ColorJitter((0.8, 0.8))]
AFTER = [RandomVerticalFlip(1), RandomPosterize(5, 1), CenterCrop(32)]


@pytest.mark.parametrize("inner", [*([one] for one in FIXED), FIXED[:4], FIXED[3:], FIXED[::-1]])
def test_some_samples_have_all_transforms_and_the_others_none(inner):
    applied, left = run(*BEFORE, *inner, *AFTER, n=1)[0], run(*BEFORE, *AFTER, n=1)[0]
    assert (applied != left).any()
    outputs = run(*BEFORE, RandomApply(inner, 0.5), *AFTER)
    kinds = [
        (np.array_equal(output, applied), np.abs(output.astype(int) - left).max() <= 3) for output in outputs
    ]
    # If other samples are warped, samples without a warp are resampled by other code, to nearly the same.
    assert all(is_applied != is_left for is_applied, is_left in kinds)
    assert 8 < sum(is_applied for is_applied, _ in kinds) < 32


def test_one_of_a_choice_is_applied():
    expected = [run(*BEFORE, one, *AFTER, n=1)[0] for one in FIXED[:5]]
    outputs = run(*BEFORE, RandomChoice(FIXED[:5]), *AFTER, n=100)
    found = [[np.array_equal(output, one) for one in expected] for output in outputs]
    assert np.array(found).any(axis=1).all()
    assert np.array(found).sum(axis=0).min() > 5


def test_a_transform_of_weight_0_is_not_chosen():
    transform = RandomChoice([RandomInvert(1), RandomHorizontalFlip(1), RandomVerticalFlip(1)], [0, 1, 0])
    params = draw(CenterCrop(8), transform, n=500)
    assert params.flip.tolist() == [[True, False]] * 500
    np.testing.assert_array_equal(params.color, np.tile(np.eye(3, 4), (500, 1, 1)))


@pytest.mark.parametrize("kind", [RandomApply, RandomChoice])
def test_objects_are_needed_where_a_transform_within_uses_them(kind):
    within = [RandomHorizontalFlip(), RandomIoUCrop()]
    assert compile_image([kind(within), CenterCrop(9)]).uses_boxes


def test_a_warp_within_after_a_resize_within_is_refused():
    with pytest.raises(ConfigError, match=r"RandomApply: RandomRotation warps.*\nPut the transform"):
        compile_image([CenterCrop(40), RandomApply([Resize((20, 20)), RandomRotation(9)]), CenterCrop(20)])


@pytest.mark.parametrize("changes", [CenterCrop(20), Resize((50, 40)), RandomApply([CenterCrop(20)])])
def test_a_choice_between_a_warp_and_another_size_is_refused(changes):
    for choices in ([RandomRotation(9), changes], [changes, RandomApply([RandomRotation(9)])]):
        with pytest.raises(ConfigError, match="changes the size where another choice warps"):
            compile_image([CenterCrop(40), RandomChoice(choices), CenterCrop(9)])
    second = RandomChoice([RandomRotation(9), changes])
    compile_image([CenterCrop(40), RandomRotation(9), second, Resize((9, 9))])


def test_a_choice_between_a_warp_and_a_crop_of_the_same_size_is_executed():
    params = draw(CenterCrop(40), RandomChoice([RandomRotation((90, 90)), RandomResizedCrop(40)]), n=50)
    turned = (params.warp.matrix != np.eye(3)).any(axis=(1, 2))
    assert 10 < turned.sum() < 40
    assert ((params.region[:, 2:] - params.region[:, :2] < 40).any(axis=1) == ~turned).all()


@pytest.mark.parametrize("inner", [FIXED[:3], [FIXED[2], FIXED[4], FIXED[5]], [FIXED[6], FIXED[3]]])
def test_each_sample_has_one_of_all_orders(inner):
    orders = [run(*BEFORE, *order, n=1)[0].astype(int) for order in itertools.permutations(inner)]
    outputs = run(*BEFORE, RandomOrder(inner), n=120)
    distances = np.array([[np.abs(output - order).max() for order in orders] for output in outputs])
    assert (distances.min(axis=1) <= 3).all()
    seen = np.bincount(distances.argmin(axis=1), minlength=len(orders))
    kinds = {order.tobytes(): 0 for order in orders}
    for order, count in zip(orders, seen, strict=True):
        kinds[order.tobytes()] += count
    # Five standard deviations about the share of each order; orders with equal results count as one.
    share = 120 / len(kinds) if len(kinds) == len(orders) else 0
    assert min(kinds.values()) > share - 5 * np.sqrt(share)


def test_an_order_that_decides_the_size_is_refused():
    sizes = RandomOrder([Resize((20, 20)), RandomHorizontalFlip()])
    assert run(sizes, n=3).shape == (3, 3, 20, 20)
    for inner in ([Resize((20, 20)), Pad(2)], [Resize((20, 20)), RandomRotation(20)]):
        with pytest.raises(ConfigError, match="would change the size at different indices of the list"):
            compile_image([CenterCrop(40), RandomOrder(inner), CenterCrop(10)])


def test_objects_follow_their_images():
    plan = compile_image([RandomApply([RandomIoUCrop(trials=4)], 0.5), Resize((8, 8))])
    boxes = Objects(np.tile([10.0, 10, 30, 30], (N, 1)), np.arange(N))
    params = plan.draw(np.full(N, 50), np.full(N, 60), np.arange(N), 0, 0, objects=boxes)
    cut = (params.region != (0, 0, 50, 60)).any(axis=1)
    assert 5 < cut.sum() < 35
    assert np.array_equal(np.isfinite(params.window).all(axis=1), cut)
    assert ((params.window[cut, :2] < 30) & (params.window[cut, 2:] > 10)).all()
