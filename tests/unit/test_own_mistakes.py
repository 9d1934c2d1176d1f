"""Mistakes in a transform of one's own are refused by name, not seen in pictures alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from stoker.augment import CenterCrop, RandomApply, Resize, Transform, compile_image
from stoker.errors import ConfigError


def draw(*transforms, n=40):
    plan = compile_image(transforms)
    return plan.draw(np.full(n, 24), np.full(n, 30), np.arange(n), 0, 0)


@dataclass(frozen=True)
class Half(Transform):
    """Takes a quarter of the image and does not say so."""

    def params(self, frame, u):
        frame.crop(frame.size // 4, frame.size // 2)


@dataclass(frozen=True)
class SometimesSmaller(Transform):
    draws: ClassVar[int] = 1

    def params(self, frame, u):
        frame.resize(np.where(u[:, 0] < 0.5, 20, 16)[None].repeat(2, axis=0))


@dataclass(frozen=True)
class Promise(Transform):
    def params(self, frame, u):
        pass

    def output_size(self, size):
        return 5, 6


@pytest.mark.parametrize(
    ("transforms", "said"),
    [
        ([CenterCrop(20), Half()], r"^Half\(\) made an image 10 x 10 .* its output_size says 20 x 20"),
        ([CenterCrop(20), Half(), CenterCrop(20)], r"^Half\(\) made an image 10 x 10 "),
        ([CenterCrop(20), RandomApply([Half()], 1)], r"^RandomApply\(.*Half\(\).* made an image 10 x 10 "),
        ([CenterCrop(20), SometimesSmaller()], r"^SometimesSmaller\(\) made an image 16 x 16 "),
        ([Resize((20, 20)), Promise()], r"^Promise\(\) made an image 20 x 20 .* says 5 x 6"),
    ],
)
def test_a_size_that_output_size_does_not_say(transforms, said):
    with pytest.raises(ConfigError, match=said):
        draw(*transforms)


def test_any_size_will_do_where_the_next_one_makes_it_the_same_again():
    assert draw(Half(), CenterCrop(20)).size == (20, 20)
