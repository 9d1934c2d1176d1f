"""Masks of patches: how many they hide, where, and that they are pure functions of their keys."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import BlockwiseMask, PatchMask, RandomMask
from stoker.augment.views import view_keys

KEYS = np.arange(400)
SIZE = (224, 192)


@pytest.mark.parametrize("mask", [RandomMask(16), BlockwiseMask(16), BlockwiseMask(16, least=4, p=1.0)])
def test_masks_depend_on_seed_epoch_and_key_alone(mask: PatchMask) -> None:
    drawn = mask.draw(KEYS, SIZE, 3, 1)
    assert drawn.shape == (400, 14, 12)
    assert np.array_equal(mask.draw(KEYS[::-3], SIZE, 3, 1), drawn[::-3])
    for other in (mask.draw(KEYS, SIZE, 4, 1), mask.draw(KEYS, SIZE, 3, 2)):
        assert (other != drawn).any()


def test_a_random_mask_keeps_as_many_patches_as_mae() -> None:
    drawn = RandomMask(16, ratio=0.75).draw(KEYS, (224, 224), 0, 0)
    assert (drawn.sum(axis=(1, 2)) == 196 - 49).all()
    assert np.abs(drawn.mean(axis=0) - 0.75).max() < 0.1, "each patch as often as any other"


def test_block_masks_hide_at_most_the_share_that_was_drawn() -> None:
    drawn = BlockwiseMask(16, ratio=(0.2, 0.4), p=0.5).draw(KEYS, (224, 224), 0, 0)
    shares = drawn.mean(axis=(1, 2))
    assert 0.4 < (shares > 0).mean() < 0.6
    assert shares.max() <= 0.4
    assert shares[shares > 0].mean() == pytest.approx(0.3, abs=0.02)
    # Neighbours of a hidden patch are hidden, as rectangles are: of independent patches 30% would be.
    assert (drawn[:, 1:] & drawn[:, :-1]).sum() / drawn[:, 1:].sum() > 0.8


def test_keys_of_a_view_depend_on_its_name_and_number() -> None:
    two, three = view_keys(KEYS, "large", 2), view_keys(KEYS, "large", 3)
    assert np.array_equal(two, three[:800])
    assert len(np.unique(np.concatenate((three, view_keys(KEYS, "small", 1))))) == 1600
