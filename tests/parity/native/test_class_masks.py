"""Masks of classes decoded and drawn in C++: against Pillow and the reference, and bytes of no mask."""

from __future__ import annotations

import io
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.images import png as encode_png
from helpers.payloads import chunk, filtered, png_file
from helpers.transforms import HEIGHT, WIDTH, chains, draw
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.augment import CenterCrop, ImageParams, Resize, compile_image
from stoker.augment.geometry.annotations import shown, transform_mask
from stoker.pipeline.images.objects import draw_class_masks

Mask = npt.NDArray[np.uint8]
GREY = (8, 0, 0, 0, 0)


def png_of_stream(
    mask: Mask, stream: bytes, *, pieces: int = 1, before: bytes = b"", form: tuple[int, ...] = GREY
) -> bytes:
    """A PNG of a mask from its compressed rows."""
    parts = [stream[len(stream) * k // pieces : len(stream) * (k + 1) // pieces] for k in range(pieces)]
    return png_file(*mask.shape, *parts, form=form, before=before)


def compressed(data: bytes, level: int, strategy: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
    return compressor.compress(data) + compressor.flush()


def blobs(seed: int, height: int = HEIGHT, width: int = WIDTH) -> Mask:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 5 + 1, width // 9 + 1), np.uint8)
    mask = np.kron(coarse, np.ones((5, 9), np.uint8))[:height, :width]
    return np.where(rng.random(mask.shape) < 0.02, rng.integers(0, 256, mask.shape), mask).astype(np.uint8)


def plain(height: int, width: int) -> ImageParams:
    """One image as it is."""
    return compile_image([Resize((height, width))]).draw(
        np.array([height]), np.array([width]), np.array([0]), 0, 0
    )


def drawn(
    params: ImageParams, files: list[bytes], height: int = HEIGHT, width: int = WIDTH
) -> tuple[Mask, list[int]]:
    """The masks that C++ draws, and the numbers of the files that it leaves to Pillow."""
    out = np.full((len(files), *params.size), 99, np.uint8)
    sizes = np.full(len(files), height), np.full(len(files), width)
    return out, draw_class_masks(params, files, *sizes, ignore=200, out=out)


@chains
def test_masks_of_classes_are_those_of_the_reference(chain: list[Any]) -> None:
    masks = [blobs(seed) for seed in range(8)]
    params = draw(chain, 8)
    out, undecoded = drawn(params, [encode_png(mask) for mask in masks])
    assert undecoded == []
    for i, mask in enumerate(masks):
        np.testing.assert_array_equal(out[i], transform_mask(params, i, mask, 200))


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, None])
@pytest.mark.parametrize("strategy", [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_every_filter_and_kind_of_block_is_decoded(kind: int | None, strategy: int, level: int) -> None:
    height, width = 130, 260
    params = plain(height, width)
    mask = blobs(1, height, width)
    filters = np.arange(height) % 5 if kind is None else np.full(height, kind)
    stream = compressed(filtered(mask, filters), level, strategy)
    for pieces in (1, 3, 50):
        file = png_of_stream(mask, stream, pieces=pieces, before=chunk(b"tEXt", b"Title\0a mask"))
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(file))), mask)
        out, undecoded = drawn(params, [file], height, width)
        assert undecoded == []
        np.testing.assert_array_equal(out[0], mask)


def test_noise_of_all_sizes_is_decoded() -> None:
    rng = np.random.default_rng(2)
    for height, width in ((1, 1), (1, 300), (300, 1), (64, 64), (65, 127)):
        mask = rng.integers(0, 256, (height, width), np.uint8)
        params = plain(height, width)
        out, undecoded = drawn(params, [encode_png(mask)], height, width)
        assert undecoded == []
        np.testing.assert_array_equal(out[0], mask)


def test_files_of_other_kinds_are_left_to_pillow() -> None:
    mask = blobs(0)
    stream = compressed(filtered(mask, np.zeros(HEIGHT, np.int64)), 6, zlib.Z_DEFAULT_STRATEGY)
    good = png_of_stream(mask, stream)
    files = {
        "nothing": b"",
        "a JPEG": b"\xff\xd8\xff\xe0" + good,
        "another size": png_of_stream(mask[1:], stream),
        "16 bits": png_of_stream(mask, stream, form=(16, 0, 0, 0, 0)),
        "a palette": png_of_stream(mask, stream, form=(8, 3, 0, 0, 0)),
        "interlaced": png_of_stream(mask, stream, form=(8, 0, 0, 0, 1)),
        "an animation": png_of_stream(mask, stream, before=chunk(b"acTL", bytes(8))),
        "no pixels": png_of_stream(mask, b""),
        "few pixels": png_of_stream(mask, stream[: len(stream) // 2]),
        "no filter": png_of_stream(mask, compressed(b"\x05" * HEIGHT * (WIDTH + 1), 6, 0)),
        "a dictionary": png_of_stream(mask, b"\x78\xbb" + stream[2:]),
        "a chunk beyond the end": good[:33] + b"\xff\xff\xff\xff" + good[37:],
        "no end": good[:-12],
    }
    params = draw([Resize((HEIGHT, WIDTH))], len(files) + 1)
    out, undecoded = drawn(params, [*files.values(), good])
    assert undecoded == list(range(len(files)))
    assert (out[:-1] == 99).all()
    np.testing.assert_array_equal(out[-1], mask)


def test_a_file_with_any_damaged_byte_is_left_to_pillow() -> None:
    mask = blobs(0)
    good = png_of_stream(mask, compressed(filtered(mask, np.arange(HEIGHT) % 5), 6, 0))
    files = []
    for at in range(len(good)):
        file = bytearray(good)
        file[at] ^= 1 + at % 255
        files.append(bytes(file))
    _, undecoded = drawn(draw([Resize((HEIGHT, WIDTH))], len(files)), files)
    assert undecoded == list(range(len(files)))


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_streams_are_decoded_as_by_zlib_or_left_to_pillow(data: st.DataObject) -> None:
    mask = blobs(data.draw(st.integers(0, 3)))
    rows = filtered(mask, np.full(HEIGHT, data.draw(st.integers(0, 4))))
    stream = bytearray(compressed(rows, data.draw(st.integers(0, 9)), data.draw(st.integers(0, 4))))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    params = draw([Resize((HEIGHT, WIDTH))])
    out, undecoded = drawn(params, [png_of_stream(mask, bytes(stream))])
    if undecoded:
        return
    decompressed = zlib.decompress(bytes(stream))
    assert len(decompressed) == len(rows)
    expected = np.asarray(Image.open(io.BytesIO(png_of_stream(mask, zlib.compress(decompressed)))))
    np.testing.assert_array_equal(out[0], expected)


def test_a_stream_with_too_few_or_too_many_rows_is_left_to_pillow() -> None:
    mask = blobs(0)
    rows = filtered(mask, np.full(HEIGHT, 2))
    params = draw([CenterCrop((10, 10))])  # needs rows 15 to 24 alone
    for stream in (rows[: (WIDTH + 1) * 30], rows + rows[: WIDTH + 1]):
        _, undecoded = drawn(params, [png_of_stream(mask, compressed(stream, 6, 0))])
        assert undecoded == [0]


def test_the_mask_of_an_image_of_padding_alone_is_ignored_everywhere() -> None:
    params = replace(draw([Resize((5, 6))]), empty=np.ones(1, bool))
    assert not shown(params).any()
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    out, undecoded = drawn(
        params, [png_of_stream(mask, compressed(filtered(mask, np.zeros(HEIGHT, np.int64)), 6, 0))]
    )
    assert undecoded == []
    assert (out == 200).all()
