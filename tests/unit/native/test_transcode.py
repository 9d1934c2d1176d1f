"""Resizing and re-encoding of images by the C++ module."""

import io
from typing import Any

import numpy as np
import pytest
from helpers.images import encode, smooth
from PIL import Image, ImageOps

from stoker import _native

LIMIT = 10**7


class TestResize:
    @pytest.mark.parametrize("size", [(1, 1), (7, 90), (33, 20), (300, 5)])
    @pytest.mark.parametrize("box", [None, (0.0, 0.0, 40.0, 60.0), (3.25, 1.5, 37.75, 20.125)])
    def test_within_one_level_of_pillow(self, size: tuple[int, int], box: Any) -> None:
        image = smooth(40, 60)
        y0, x0, y1, x1 = box or (0, 0, 40, 60)
        expected = np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR, (x0, y0, x1, y1)), np.int64)
        result = _native.resize(np.asarray(image), size, box)
        assert np.abs(result - expected).max() <= 1

    @pytest.mark.parametrize("size", [20000, 100000])
    def test_large_reductions_are_within_one_level_of_pillow(self, size: int) -> None:
        """The rounding errors of so many weights are small, but add up."""
        pixels = np.random.default_rng(0).integers(0, 2, (size, 2, 3), np.uint8) * np.uint8(255)
        expected = Image.fromarray(pixels).resize((2, 15), Image.Resampling.BILINEAR)
        found = _native.resize(pixels, (15, 2)).astype(int)
        assert np.abs(found - np.asarray(expected, np.int64)).max() <= 1

    @pytest.mark.parametrize(
        "box", [(0, 0, 41, 60), (-1, 0, 40, 60), (5, 0, 5, 60), (0, float("nan"), 40, 60)]
    )
    def test_boxes_outside_of_the_image_are_refused(self, box: Any) -> None:
        with pytest.raises(ValueError, match="box"):
            _native.resize(np.asarray(smooth(40, 60)), (5, 5), box)

    @pytest.mark.parametrize("size", [(0, 5), (5, -1), (1 << 17, 5)])
    def test_impossible_sizes_are_refused(self, size: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="size"):
            _native.resize(np.asarray(smooth(40, 60)), size)


class TestTranscode:
    SIZES = [  # noqa: RUF012 - a table, not state
        ("none", 9, 9, (60, 100)),
        ("shorter", 30, 30, (30, 50)),
        ("shorter", 200, 200, (60, 100)),
        ("longer", 50, 50, (30, 50)),
        ("longer", 200, 200, (60, 100)),
        ("squash", 20, 31, (20, 31)),
        ("squash", 120, 31, (120, 31)),
        ("crop", 40, 40, (40, 40)),
        ("fill", 50, 50, (50, 50)),
    ]

    @pytest.mark.parametrize(("mode", "height", "width", "expected"), SIZES)
    @pytest.mark.parametrize("encoding", ["jpeg", "raw"])
    def test_each_mode_gives_its_size(
        self, mode: str, height: int, width: int, expected: tuple[int, int], encoding: str
    ) -> None:
        data = encode(smooth(60, 100))
        payload, h, w = _native.transcode(data, mode, height, width, encoding, 90, "420", LIMIT)
        assert (h, w) == expected
        if encoding == "raw":
            assert len(payload) == h * w * 3
        else:
            assert Image.open(io.BytesIO(payload)).size == (w, h)

    def test_torchvision_rounds_the_other_side_down(self) -> None:
        data = encode(smooth(64, 101))
        assert _native.transcode(data, "shorter", 50, 50, "raw", 90, "420", LIMIT)[1:] == (50, 78)

    def test_crop_is_the_centre_of_the_covering_size(self) -> None:
        image = smooth(60, 100)
        raw, _, _ = _native.transcode_pixels(np.asarray(image), "crop", 45, 45, "raw", 90, "444", LIMIT)
        whole = image.resize((75, 45), Image.Resampling.BILINEAR).crop((15, 0, 60, 45))
        difference = np.frombuffer(raw, np.uint8).reshape(45, 45, 3) - np.asarray(whole, np.int64)
        assert np.abs(difference).max() <= 1

    @pytest.mark.parametrize("tall", [False, True])
    def test_crop_of_a_thin_image_to_a_long_output_is_its_centre(self, tall: bool) -> None:
        """The covering size has more pixels along the longer side than 2^31."""
        pixels = np.zeros((1, 40_001, 3), np.uint8)
        pixels[0, 20_000] = 255
        source, size = (pixels.transpose(1, 0, 2).copy(), (1, 65500)) if tall else (pixels, (65500, 1))
        raw, h, w = _native.transcode_pixels(source, "crop", *size, "raw", 90, "444", LIMIT)
        assert (h, w) == size
        assert set(raw) == {255}

    def test_fill_is_centred_on_black(self) -> None:
        data = encode(Image.new("RGB", (100, 60), (255, 255, 255)))
        raw, _, _ = _native.transcode(data, "fill", 50, 50, "raw", 90, "444", LIMIT)
        rows = np.frombuffer(raw, np.uint8).reshape(50, 50, 3).mean(axis=(1, 2))
        assert rows.tolist() == [0] * 10 + [255] * 30 + [0] * 10

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_the_orientation_of_exif_is_applied(self, orientation: int) -> None:
        data = encode(smooth(20, 30), orientation=orientation, quality=95)
        raw, h, w = _native.transcode(data, "none", 0, 0, "raw", 90, "444", LIMIT)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))), np.int64)
        assert np.abs(np.frombuffer(raw, np.uint8).reshape(h, w, 3) - expected).max() <= 1

    @pytest.mark.parametrize(("subsampling", "factors"), [("444", 0x11), ("422", 0x21), ("420", 0x22)])
    def test_a_jpeg_has_the_requested_subsampling_and_quality(self, subsampling: str, factors: int) -> None:
        data = encode(smooth(60, 100))
        sizes = []
        for quality in (20, 90):
            payload, _, _ = _native.transcode(data, "none", 0, 0, "jpeg", quality, subsampling, LIMIT)
            frame = payload.index(b"\xff\xc0")
            assert payload[frame + 11] == factors
            sizes.append(len(payload))
        assert sizes[0] < sizes[1]

    def test_pixels_and_jpegs_give_the_same_sizes_and_almost_the_same_pixels(self) -> None:
        image = smooth(60, 100)
        pixels = np.asarray(image)
        data = encode(image, quality=100, subsampling="4:4:4")
        for mode in ("none", "shorter", "squash", "crop", "fill"):
            from_pixels = _native.transcode_pixels(pixels, mode, 40, 40, "raw", 90, "444", LIMIT)
            from_jpeg = _native.transcode(data, mode, 40, 40, "raw", 90, "444", LIMIT)
            assert from_pixels[1:] == from_jpeg[1:]
            a, b = (
                np.frombuffer(result[0], np.uint8).astype(np.int64) for result in (from_pixels, from_jpeg)
            )
            assert np.abs(a - b).max() <= 6

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"mode": "stretch"}, "mode must be one of none, shorter"),
            ({"encoding": "png"}, "encoding must be one of jpeg, raw"),
            ({"subsampling": "411"}, "subsampling must be"),
            ({"quality": 0}, "quality"),
            ({"height": 0}, "height and width"),
            ({"max_pixels": 5999}, "max_pixels"),
            ({"data": b"no image"}, "JPEG"),
        ],
    )
    def test_bad_arguments_and_images_are_named(self, change: dict[str, Any], message: str) -> None:
        arguments: dict[str, Any] = {
            "data": encode(smooth(60, 100)),
            "mode": "squash",
            "height": 10,
            "width": 10,
            "encoding": "jpeg",
            "quality": 90,
            "subsampling": "420",
            "max_pixels": 6000,
        }
        assert _native.transcode(**arguments)[1:] == (10, 10)
        with pytest.raises(ValueError, match=message):
            _native.transcode(**{**arguments, **change})
