"""Parameters of any chain of transforms, on images of any size: they are what engines rely on."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import augment
from stoker.augment.geometry.annotations import transform_boxes, transform_mask
from stoker.augment.reference import execute, render
from stoker.augment.steps import Step

LENGTHS = st.integers(1, 40)
SIZES = st.one_of(LENGTHS, st.tuples(LENGTHS, LENGTHS))
INTERPOLATIONS = st.sampled_from(["nearest", "bilinear", "bicubic", "lanczos"])
GEOMETRY = st.one_of(
    st.builds(augment.Resize, SIZES, INTERPOLATIONS),
    LENGTHS.flatmap(lambda n: st.builds(augment.Resize, st.just(n), max_size=st.integers(n + 1, n + 50))),
    st.builds(augment.CenterCrop, SIZES),
    st.builds(augment.RandomResizedCrop, SIZES, interpolation=INTERPOLATIONS),
    st.builds(augment.Pad, st.integers(0, 9)),
    st.builds(augment.RandomCrop, SIZES, st.integers(0, 9), st.just(True)),
    st.just(augment.RandomHorizontalFlip()),
    st.just(augment.RandomVerticalFlip()),
)
WARPS = st.sampled_from(
    [
        augment.RandomRotation(180),
        augment.RandomAffine(90, (0.5, 0.5), (0.2, 5), (-50, 50, -50, 50)),
        augment.RandomPerspective(1.0, 1.0),
    ]
)
SINGLE_COLORS = st.sampled_from(
    [
        augment.ColorJitter(0.9, 0.9, 0.9, 0.5),
        augment.RandomPhotometricDistort(),
        augment.RandomGrayscale(0.5),
        augment.RandomInvert(),
        augment.RandomPosterize(2),
        augment.RandomSolarize(100),
        augment.RandomAutocontrast(),
        augment.RandomEqualize(),
        augment.GaussianBlur((5, 3)),
        augment.RandomAdjustSharpness(2.5),
    ]
)
POLICIES = st.sampled_from(
    [
        augment.RandAugment(3, 20),
        augment.TrivialAugmentWide(),
        augment.AutoAugment(),
        augment.AutoAugment("svhn"),
    ]
)
NESTED = st.recursive(
    st.one_of(SINGLE_COLORS, WARPS, POLICIES),
    lambda inner: st.one_of(
        st.builds(
            augment.RandomApply, st.lists(inner, min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 1.0])
        ),
        st.builds(augment.RandomChoice, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=4,
)
LAST = st.sampled_from(
    [[], [augment.AugMix()], [augment.RandomApply([augment.AugMix(5, 2, 1, 0.3, all_ops=False)])]]
)
CHAINS = st.lists(GEOMETRY, max_size=5).map(lambda chain: [*chain, augment.CenterCrop(16)])
SOURCES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=5)


def draw(chain, sources, samples, seed):
    height, width = np.array(sources).T
    return augment.compile_image(chain).draw(height, width, samples, seed, 0)


@given(CHAINS, SOURCES, st.integers(-5, 5))
@settings(max_examples=60)
def test_crops_lie_in_their_source_and_regions_in_their_crop(chain, sources, seed):
    params = draw(chain, sources, np.arange(len(sources)), seed)
    source = np.array(sources)
    crop, region, dest = params.crop, params.region, params.dest
    assert (crop[:, :2] >= 0).all()
    assert (crop[:, 2:] > 0).all()
    assert (crop[:, :2] + crop[:, 2:] <= source).all()
    assert (region[:, :2] >= crop[:, :2]).all()
    assert (region[:, 2:] > region[:, :2]).all()
    assert (region[:, 2:] <= crop[:, :2] + crop[:, 2:]).all()
    assert (dest[:, :2] >= 0).all()
    assert (dest[:, 2:] > 0).all()
    assert (dest[:, :2] + dest[:, 2:] <= params.size).all()


@given(CHAINS, SOURCES)
@settings(max_examples=30)
def test_every_chain_of_geometry_can_be_executed(chain, sources):
    params = draw(chain, sources, np.arange(len(sources)), 0)
    for i, (height, width) in enumerate(sources):
        image = render(params, i, np.full((height, width, 3), 200, np.uint8))
        assert image.shape == (16, 16, 3)
        assert set(np.unique(image)) <= {0, 200}


def assert_same_rows(first, i, second, k):
    """Row ``i`` of every array in the parameters of one batch is row ``k`` in those of another."""
    assert type(first) is type(second)
    if isinstance(first, tuple):
        assert len(first) == len(second)
        for pair in zip(first, second, strict=True):
            assert_same_rows(pair[0], i, pair[1], k)
    elif is_dataclass(first):
        applied = not isinstance(first, Step) or first.where[i]
        for field in fields(first) if applied else ():
            if field.name not in ("size", "fill", "canvas", "value"):
                assert_same_rows(getattr(first, field.name), i, getattr(second, field.name), k)
    elif isinstance(first, np.ndarray):
        np.testing.assert_array_equal(first[i], second[k])
    else:
        assert first == second


@given(CHAINS, st.lists(NESTED, max_size=3), LAST, SOURCES, st.data())
@settings(max_examples=40)
def test_parameters_of_a_sample_do_not_depend_on_its_batch(chain, more, last, sources, data):
    chain = [
        *chain,
        *more,
        augment.RandomHorizontalFlip(),
        augment.CenterCrop(12),
        *last,
        augment.RandomErasing(),
    ]
    together = draw(chain, sources, np.arange(len(sources)), 0)
    order = data.draw(st.permutations(range(len(sources))))
    rows = np.array(order[: data.draw(st.integers(1, len(sources)))])
    some = draw(chain, np.array(sources)[rows], rows, 0)
    for i, row in enumerate(rows.tolist()):
        assert_same_rows(some, i, together, row)


@given(CHAINS, st.lists(NESTED, max_size=5), LAST, SOURCES, st.integers(0, 9))
@settings(max_examples=40)
def test_any_chain_with_colours_can_be_executed_and_stays_in_range(chain, more, last, sources, seed):
    plan = augment.compile_image(
        [
            *chain,
            *more,
            augment.CenterCrop(12),
            *last,
            augment.RandomErasing(),
            augment.Normalize((0,) * 3, (1,) * 3),
        ]
    )
    height, width = np.array(sources).T
    params = plan.draw(height, width, np.arange(len(sources)), seed, 0)
    assert params.needs() == plan.needs
    for i, (h, w) in enumerate(sources):
        pixels = np.random.default_rng(i).integers(0, 256, (h, w, 3), np.uint8)
        image = execute(params, i, pixels)
        assert image.shape == (3, 12, 12)
        assert np.isfinite(image).all()
        assert np.abs(image).max() < 25  # brightness, contrast and saturation at most double, hue less
        mask = transform_mask(params, i, np.zeros((h, w), np.int32), ignore=-1)
        assert set(np.unique(mask)) <= {-1, 0}
    boxes = np.array([(0, 0, w, h) for h, w in sources])
    moved, keep = transform_boxes(params, boxes, np.arange(len(sources)))
    assert np.isfinite(moved).all()
    assert ((moved >= -1e-6) & (moved <= 12 + 1e-6)).all()
    assert (moved[keep, 2:] > moved[keep, :2]).all()
