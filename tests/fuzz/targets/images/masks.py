"""Files of masks: a batch, verify and a conversion find the same pixels in them, or a bad sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.images import encode
from mutations import mutate, pick, with_right_checksums
from PIL import Image

from stoker.augment import RandomHorizontalFlip, RandomResizedCrop, compile_image
from stoker.augment.geometry.annotations import transform_mask
from stoker.errors import SampleError
from stoker.formats.codecs.codec import MAX_PIXELS
from stoker.formats.conversion.image_objects import resize_geometry
from stoker.formats.conversion.mask_values import MaskRules, encode_mask
from stoker.formats.sources.image_files import SkippedError
from stoker.formats.verify import mask_problem
from stoker.pipeline.images.annotations import AnnotationConfig, AnnotationProcessor, MaskConfig, decode_mask

_SIZE = (21, 34)
_N = 4
_IGNORE = 255
_GEOMETRY = resize_geometry("none", 0, 0, _SIZE)


class _Masks:
    """The part of a dataset from which the processor reads masks."""

    def __init__(self) -> None:
        self.files: list[bytes] = []
        self.types: dict[str, str] = {}

    def mask(self, position: int) -> bytes:
        return self.files[position]

    def error(self, position: int, message: str, kind: type[SampleError] = SampleError) -> SampleError:
        return kind(message, record=position)


class _Sizes:
    """The part of samples that the processor reads."""

    height = np.full(_N, _SIZE[0])
    width = np.full(_N, _SIZE[1])


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with batches of four masks in every format of masks; accepted if one of them is drawn."""
    corpus = seeds()
    masks: Any = _Masks()
    config = AnnotationConfig(masks=MaskConfig("uint8", _IGNORE))
    processor = AnnotationProcessor(masks, config, num_threads=1)
    plan = compile_image([RandomResizedCrop((17, 19)), RandomHorizontalFlip()])
    sizes: Any = _Sizes()

    def attack(rng: np.random.Generator) -> bool:
        masks.files = [damaged(pick(corpus, rng), rng) for _ in range(_N)]
        positions = np.arange(_N)
        params = plan.draw(sizes.height, sizes.width, positions, int(rng.integers(0, 99)), 0)
        drawn = processor.start(positions, sizes, params, None)()
        assert drawn.masks is not None
        for i, file in enumerate(masks.files):
            check(file, i in drawn.errors)
            if i not in drawn.errors:
                expected = transform_mask(params, i, decode_mask(file, _SIZE, "uint8"), _IGNORE)
                np.testing.assert_array_equal(drawn.masks[i], expected)
        return len(drawn.errors) < _N

    return attack


def check(file: bytes, refused: bool) -> None:
    """Compare verify and a conversion with a batch that refused the mask, or did not."""
    try:
        values = decode_mask(file, _SIZE, "int64")
    except Exception:
        assert refused
        assert mask_problem(file, _SIZE), "verify finds nothing wrong with a mask that no loader reads"
        return
    try:
        stored = encode_mask(file, _SIZE, _GEOMETRY, MaskRules(padding=_IGNORE), MAX_PIXELS)
    except SkippedError:
        return
    assert mask_problem(stored, _SIZE) is None, "verify complains about a mask that a conversion wrote"
    if stored == file:
        np.testing.assert_array_equal(decode_mask(stored, _SIZE, "int64"), values)


def seeds() -> list[bytes]:
    """Masks in all modes and formats that are read."""
    classes = np.random.default_rng(0).integers(0, 5, _SIZE).astype(np.uint8)
    grey = Image.fromarray(classes)
    palette = grey.convert("P")
    wide = Image.fromarray(classes.astype(np.uint16) * 300)
    forms: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (grey, "PNG", {}),
        (grey, "PNG", {"compress_level": 0}),
        (palette, "PNG", {}),
        (palette, "PNG", {"bits": 4}),
        (palette, "PNG", {"transparency": 0}),
        (grey.convert("1"), "PNG", {}),
        (wide, "PNG", {}),
        (grey, "TIFF", {}),
        (wide, "TIFF", {}),
        (grey, "BMP", {}),
        (grey, "GIF", {}),
        (grey, "PPM", {}),
        (grey.convert("RGB"), "PNG", {}),
        (grey, "JPEG", {}),
    ]
    return [encode(image, form, **options) for image, form, options in forms]


def damaged(file: bytes, rng: np.random.Generator) -> bytes:
    """Return a file, mostly damaged; half of the damaged PNGs have right checksums."""
    if rng.random() < 0.2:
        return file
    result = mutate(file, rng, edits=3)
    return with_right_checksums(result) if rng.random() < 0.5 else result
