"""RandAugment, TrivialAugmentWide, AutoAugment and AugMix: what each operation does to the state.

How often each is drawn, and with which magnitude and sign, is tested in test_distributions.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import (
    AugMix,
    AutoAugment,
    CenterCrop,
    ColorJitter,
    Pad,
    RandAugment,
    RandomApply,
    RandomHorizontalFlip,
    RandomInvert,
    Resize,
    TrivialAugmentWide,
    compile_image,
)
from stoker.augment.reference import execute
from stoker.augment.steps import WeightedSum
from stoker.augment.transforms.base import DRAWS, dirichlet
from stoker.errors import ConfigError

HEIGHT, WIDTH = 30, 40
ROWS, COLUMNS = np.indices((HEIGHT, WIDTH))
PIXELS = np.stack((ROWS * 8, COLUMNS * 6, 255 - ROWS * 4 - COLUMNS * 3), axis=-1).astype(np.uint8)
KEEP = CenterCrop((HEIGHT, WIDTH))
POLICIES = [RandAugment(), RandAugment(3, 30), TrivialAugmentWide(), AutoAugment(), AutoAugment("cifar10")]


def draw(*transforms, n=1, seed=0):
    plan = compile_image([KEEP, *transforms])
    return plan.draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), seed, 0)


@pytest.mark.parametrize("transform", [*POLICIES, AugMix()], ids=repr)
def test_what_engines_must_execute_does_not_depend_on_what_was_drawn(transform):
    plan = compile_image([KEEP, ColorJitter(0.4), transform])
    steps = [type(step) for step in draw(ColorJitter(0.4), transform, n=50).steps]
    for n in range(3):
        params = draw(ColorJitter(0.4), transform, n=n)
        assert params.needs() == plan.needs
        assert [type(step) for step in params.steps] == steps


@pytest.mark.parametrize("make", [RandAugment, TrivialAugmentWide, AutoAugment, AugMix])
def test_the_fill_is_that_of_the_list(make):
    assert draw(make(fill=(1, 2, 3))).fill.tolist() == [1, 2, 3]
    plan = compile_image([Pad(1, fill=7), KEEP, make()])
    assert plan.draw(np.array([8]), np.array([8]), np.array([0]), 0, 0).fill.tolist() == [7, 7, 7]
    with pytest.raises(ConfigError, match="Use one fill"):
        compile_image([Pad(1, fill=7), KEEP, make(fill=8)])


def test_augmix_is_the_weighted_sum_of_its_chains():
    params = draw(RandomInvert(1), AugMix(10, 2, 2), n=6)
    mix = params.steps[-1]
    assert isinstance(mix, WeightedSum)
    assert mix.weights.shape == (6, 3)
    pixels = 255 - PIXELS
    for i in range(6):
        chains = []
        for chain in mix.chains:
            changed = pixels
            for step in chain:
                changed = step.run(i, changed)
            chains.append(changed.astype(float))
        shares = mix.weights[i].astype(float)
        expected = np.floor(shares[0] * pixels + shares[1] * chains[0] + shares[2] * chains[1] + 0.5)
        np.testing.assert_array_equal(execute(params, i, PIXELS, "uint8", "NHWC"), expected)


def test_chains_of_augmix_have_the_depth_that_was_drawn():
    mix = draw(AugMix(chain_depth=-1), n=2000).steps[0]
    kinds = np.array([[step.where for step in chain] for chain in mix.chains])
    depth = kinds.sum(axis=1)  # chains, samples; an operation is one step
    assert len(mix.chains) == 3
    assert set(np.unique(depth)) == {1, 2, 3}
    assert draw(AugMix(chain_depth=4)).needs() >= {"WeightedSum", "Distort", "Affine", "Sharpen"}
    assert draw(AugMix(all_ops=False)).needs() == {
        "WeightedSum",
        "Distort",
        "Posterize",
        "Solarize",
        "Autocontrast",
        "Equalize",
    }


def test_augmix_refers_to_the_size_of_the_output():
    compile_image([KEEP, AugMix(), RandomHorizontalFlip()])
    for transform in (Resize(8), CenterCrop(8)):
        with pytest.raises(ConfigError, match=r"stands after AugMix, .*\nPut AugMix after all crops"):
            compile_image([KEEP, AugMix(), transform, CenterCrop(8)])
        with pytest.raises(ConfigError, match="after AugMix"):
            compile_image([KEEP, RandomApply([AugMix()], 0.01), transform, CenterCrop(8)])


@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.0, 3.0])
def test_shares_have_the_moments_of_a_dirichlet_distribution(alpha):
    k, n = 3, 40_000
    shares = dirichlet(alpha, np.random.default_rng(0).random((n, k * DRAWS)))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    variance = (1 / k) * (1 - 1 / k) / (k * alpha + 1)
    assert np.abs(shares.mean(axis=0) - 1 / k).max() < 5 * np.sqrt(variance / n)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.03)
    covariance = -(1 / k**2) / (k * alpha + 1)
    np.testing.assert_allclose(np.cov(shares.T)[0, 1], covariance, rtol=0.06)
