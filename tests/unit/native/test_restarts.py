"""Bands and splices of JPEGs with restart markers."""

from typing import Any

import numpy as np
import pytest
from helpers.images import decode, encode
from helpers.payloads import restart_interval, segments
from PIL import Image

from stoker import _native


def encoded(height: int, width: int, subsampling: str = "4:2:0", **options: Any) -> bytes:
    """Return a JPEG with restart markers of smooth noise."""
    noise = np.random.default_rng(height * width).integers(
        0, 256, (height // 3 + 2, width // 3 + 2, 3), np.uint8
    )
    image = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)
    marked = _native.mark_restarts(encode(image, subsampling=subsampling, **options))[0]
    assert marked is not None
    return marked


def with_change(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


LARGE = encoded(300, 400, quality=97)
BANDS = _native.make_bands(LARGE)


class TestBands:
    def test_bands_follow_each_other_and_begin_with_intervals(self) -> None:
        starts = BANDS[::2].tolist()
        assert starts[0] == 0
        scan = len(LARGE) - len(segments(LARGE)[-1][1])
        assert starts[1] == scan
        assert starts == sorted(set(starts))
        assert len(starts) >= 5
        for start in starts[2:]:
            assert LARGE[start - 2] == 0xFF
            assert 0xD0 <= LARGE[start - 1] <= 0xD7
        parts = [LARGE[a:b] for a, b in zip(starts, [*starts[1:], len(LARGE)], strict=True)]
        assert [_native.crc32c(part) for part in parts] == BANDS[1::2].tolist()

    def test_a_band_has_about_eight_kilobytes_and_there_are_at_most_64(self) -> None:
        small = _native.make_bands(encoded(16, 16))
        assert len(small) == 4
        assert np.diff(BANDS[::2])[1:].min() > 4096
        tall = encoded(4000, 400, quality=98)
        assert len(tall) > 64 * 8192
        assert len(_native.make_bands(tall)) <= 130

    def test_images_without_restart_markers_of_stoker_have_no_bands(self) -> None:
        assert _native.make_bands(encode(decode(LARGE))).shape == (0,)
        marked = encode(decode(LARGE), restart_marker_blocks=7)
        assert restart_interval(marked) == 7
        assert _native.make_bands(marked).shape == (0,)
        for data in (b"", b"\xff", b"\xff\xd8", LARGE[:100], LARGE[:-3]):
            assert _native.make_bands(data).shape == (0,)

    def test_every_changed_byte_is_found(self) -> None:
        assert _native.bands_match(LARGE, BANDS)
        for at in range(0, len(LARGE), 997):
            assert not _native.bands_match(with_change(LARGE, at), BANDS)
        assert not _native.bands_match(LARGE[:-1], BANDS)


class TestSplices:
    def test_a_crop_has_its_pixels_and_fewer_bytes(self) -> None:
        crop = (101, 211, 50, 60)
        jpeg, top, left, looked_at = _native.splice(LARGE, BANDS, crop)
        assert len(jpeg) <= looked_at < len(LARGE)
        assert (top % 16, left % 16) == (0, 0)
        assert len(jpeg) < len(LARGE) / 3
        part = decode(jpeg)[101 - top :, 211 - left :][:50, :60]
        np.testing.assert_array_equal(part, decode(LARGE)[101:151, 211:271])

    def test_only_the_bands_of_the_crop_are_looked_at(self) -> None:
        starts = BANDS[::2].tolist()
        crop = (0, 0, 20, 20)
        expected = _native.splice(LARGE, BANDS, crop)
        assert _native.splice(with_change(LARGE, starts[-1] + 5), BANDS, crop) == expected
        for at in (30, starts[1] + 5):
            with pytest.raises(ValueError, match="CRC32C differs from the index"):
                _native.splice(with_change(LARGE, at), BANDS, crop)
        assert _native.splice(with_change(LARGE, starts[1] + 5), BANDS, crop, verify=False) is not None

    @pytest.mark.parametrize(
        "crop",
        [
            (0, 0, 300, 400),
            (1, 1, 298, 398),
            (-1, 0, 5, 5),
            (0, 0, 0, 5),
            (0, 0, 301, 4),
            (290, 0, 2**31 - 1, 4),
            (2**31 - 1, 0, 1, 1),
        ],
    )
    def test_a_whole_image_and_a_crop_outside_have_no_splice(self, crop: tuple[int, int, int, int]) -> None:
        assert _native.splice(LARGE, BANDS, crop) is None

    @pytest.mark.parametrize(
        "bands",
        [
            BANDS[:0],
            BANDS[:2],
            BANDS[2:],
            np.zeros(8, np.uint32),
            np.concatenate([BANDS[:4], BANDS[2:]]),
            np.concatenate([BANDS[:2], np.uint32([2**32 - 1, 5])]),
        ],
    )
    def test_bands_that_do_not_fit_the_payload(self, bands: np.ndarray) -> None:
        assert _native.splice(LARGE, bands, (0, 0, 20, 20), verify=False) is None
        assert not _native.bands_match(LARGE, bands)

    def test_wrong_bands_never_give_wrong_pixels(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(200):
            bands = BANDS.copy()
            bands[rng.integers(len(bands))] = rng.integers(2 * len(LARGE))
            top, left = rng.integers(0, 250, 2).tolist()
            _native.splice(LARGE, bands, (top, left, 20, 30), verify=False)
            try:
                spliced = _native.splice(LARGE, bands, (top, left, 20, 30))
            except ValueError:
                continue
            if spliced is not None:
                part = decode(spliced[0])[top - spliced[1] :, left - spliced[2] :][:20, :30]
                np.testing.assert_array_equal(part, decode(LARGE)[top : top + 20, left : left + 30])
