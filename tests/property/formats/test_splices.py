"""Splices of JPEGs: a crop has the pixels of the whole image, for all sizes, samplings and crops."""

from __future__ import annotations

import io

import numpy as np
from helpers.images import encode
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker import _native

MODES = {"4:4:4": "RGB", "4:2:2": "RGB", "4:2:0": "RGB", "grey": "L", "cmyk": "CMYK"}


@st.composite
def crops(draw: st.DrawFn) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    height, width = draw(st.integers(1, 150)), draw(st.integers(1, 220))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return (height, width), (
        top,
        left,
        draw(st.integers(1, height - top)),
        draw(st.integers(1, width - left)),
    )


@settings(max_examples=100)
@given(crops(), st.sampled_from(list(MODES)), st.sampled_from([20, 75, 100]), st.integers(0, 99))
def test_a_crop_of_a_splice_is_that_of_the_image(
    sizes: tuple[tuple[int, int], tuple[int, int, int, int]], sampling: str, quality: int, seed: int
) -> None:
    (height, width), (top, left, h, w) = sizes
    image = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))
    options = {"subsampling": sampling} if MODES[sampling] == "RGB" else {}
    data = _native.mark_restarts(encode(image.convert(MODES[sampling]), quality=quality, **options))[0]
    assert data is not None
    bands = _native.make_bands(data)
    assert _native.bands_match(data, bands)
    spliced = _native.splice(data, bands, (top, left, h, w))
    if spliced is None:  # the crop needs every interval
        return
    jpeg, above, before, _ = spliced
    assert len(jpeg) < len(data)
    whole, part = (np.asarray(Image.open(io.BytesIO(one))) for one in (data, jpeg))
    np.testing.assert_array_equal(
        part[top - above :, left - before :][:h, :w], whole[top : top + h, left : left + w]
    )
