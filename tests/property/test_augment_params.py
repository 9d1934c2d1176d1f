"""Any chain of transforms on images of any size gives parameters within the contract of engines."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Normalize,
    Pad,
    RandomAffine,
    RandomAutocontrast,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomPerspective,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    Resize,
    compile_image,
)
from stoker.augment.geometry import transform_boxes, transform_mask
from stoker.augment.reference import execute, render

LENGTHS = st.integers(1, 40)
SIZES = st.one_of(LENGTHS, st.tuples(LENGTHS, LENGTHS))
GEOMETRY = st.one_of(
    st.builds(Resize, SIZES),
    LENGTHS.flatmap(lambda n: st.builds(Resize, st.just(n), st.integers(n + 1, n + 50))),
    st.builds(CenterCrop, SIZES),
    st.builds(RandomResizedCrop, SIZES),
    st.builds(Pad, st.integers(0, 9)),
    st.builds(RandomCrop, SIZES, st.integers(0, 9), st.just(True)),
    st.just(RandomHorizontalFlip()),
    st.just(RandomVerticalFlip()),
)
WARPS = st.sampled_from(
    [
        RandomRotation(180),
        RandomAffine(90, (0.5, 0.5), (0.2, 5), (-50, 50, -50, 50)),
        RandomPerspective(1.0, 1.0),
    ]
)
COLORS = st.sampled_from(
    [
        ColorJitter(0.9, 0.9, 0.9, 0.5),
        RandomPhotometricDistort(),
        RandomGrayscale(0.5),
        RandomInvert(),
        RandomPosterize(2),
        RandomSolarize(100),
        RandomAutocontrast(),
        RandomEqualize(),
    ]
)
CHAINS = st.lists(GEOMETRY, max_size=5).map(lambda chain: [*chain, CenterCrop(16)])
SOURCES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=5)


def draw(chain, sources, samples, seed):
    height, width = np.array(sources).T
    return compile_image(chain).draw(height, width, samples, seed, 0)


@given(CHAINS, SOURCES, st.integers(-5, 5))
@settings(max_examples=150, deadline=None)
def test_rectangles_lie_within_each_other(chain, sources, seed):
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
@settings(max_examples=40, deadline=None)
def test_every_chain_can_be_executed(chain, sources):
    params = draw(chain, sources, np.arange(len(sources)), 0)
    for i, (height, width) in enumerate(sources):
        image = render(params, i, np.full((height, width, 3), 200, np.uint8))
        assert image.shape == (16, 16, 3)
        assert set(np.unique(image)) <= {0, 200}


@given(CHAINS, SOURCES, st.data())
@settings(max_examples=50, deadline=None)
def test_a_sample_does_not_depend_on_its_company(chain, sources, data):
    together = draw(chain, sources, np.arange(len(sources)), 0)
    i = data.draw(st.integers(0, len(sources) - 1))
    alone = draw(chain, sources[i : i + 1], np.array([i]), 0)
    for name in ("crop", "region", "dest", "flip", "color"):
        np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[i])


@given(CHAINS, st.lists(st.one_of(WARPS, COLORS), max_size=6), SOURCES, st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_any_mixture_can_be_executed_and_stays_in_range(chain, more, sources, seed):
    plan = compile_image([*chain, *more, CenterCrop(12), RandomErasing(), Normalize((0,) * 3, (1,) * 3)])
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
