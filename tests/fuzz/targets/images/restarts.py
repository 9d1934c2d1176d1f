"""JPEGs to which restart markers are added, and splices of these: all show the pixels of their source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.images import decode_in_cpp, encode
from mutations import mutate, pick
from PIL import Image

from stoker import _native

_MAX_PIXELS = 1 << 20


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with damaged JPEGs, and with damaged bands."""
    sources = [encoded(seed) for seed in range(12)]

    def attack(rng: np.random.Generator) -> bool:
        data = pick(sources, rng)
        if rng.random() < 0.6:
            data = mutate(data, rng)
        crop = tuple(rng.integers(-2, 60, 4).tolist())
        _native.splice(data, damaged(_native.make_bands(data), rng), crop, verify=False)
        marked, reason, _ = _native.mark_restarts(data)
        if marked is None:
            assert reason
            return False
        bands = _native.make_bands(marked)
        assert _native.bands_match(marked, bands)
        pixels = decode(data)
        if pixels is None:  # too many pixels, or unknown colours
            return False
        np.testing.assert_array_equal(decode(marked), pixels)
        spliced = _native.splice(marked, bands, crop)
        if spliced is not None:
            jpeg, above, before, _ = spliced
            (top, left, height, width), part = crop, decode(jpeg)
            assert part is not None
            if _native.probe(marked)[3] == 1:
                shown = part[top - above :, left - before :][:height, :width]
                np.testing.assert_array_equal(shown, pixels[top : top + height, left : left + width])
        return True

    return attack


def encoded(seed: int) -> bytes:
    """Return a JPEG; some are progressive, some have restart markers."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 256, (20, 30, 3), np.uint8)
    image = Image.fromarray(noise).resize((64 + seed, 40 + 3 * seed), Image.Resampling.BICUBIC)
    options: dict[str, Any] = {
        "subsampling": seed % 3,
        "progressive": seed % 4 == 1,
        "quality": 60 + 3 * seed,
    }
    data = encode(image.convert("L") if seed == 5 else image, **options)
    marked = _native.mark_restarts(data)[0] if seed % 4 == 2 else None
    return marked or data


def damaged(bands: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return bands with some wrong numbers."""
    changed = bands.copy() if len(bands) else np.zeros(6, np.uint32)
    for _ in range(int(rng.integers(0, 3))):
        changed[rng.integers(0, len(changed))] = rng.integers(0, 5000)
    return changed


def decode(data: bytes) -> np.ndarray | None:
    """Return the pixels, (H, W, 3), or None if the image is not decoded."""
    try:
        return decode_in_cpp(data, _MAX_PIXELS)
    except ValueError:
        return None
