"""Headers of images, as the C++ module reads them."""

import struct

import pytest
from helpers.images import encode, smooth

from stoker import _native


def tiff(orientation: int, order: str, kind: int = 3) -> bytes:
    """An EXIF block with an entry before the orientation, of ``kind`` 3 (short) or 4; ``order`` is < or >."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    value = struct.pack(
        order + ("HH" if kind == 3 else "I"), *((orientation, 0) if kind == 3 else (orientation,))
    )
    entries = (
        struct.pack(order + "HHII", 0x0100, 4, 1, 5) + struct.pack(order + "HHI", 0x0112, kind, 1) + value
    )
    return b"Exif\0\0" + head + struct.pack(order + "H", 2) + entries + bytes(4)


class TestProbe:
    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize("kind", [3, 4])
    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_the_orientation_is_read_in_both_byte_orders(
        self, orientation: int, order: str, kind: int
    ) -> None:
        data = encode(smooth(20, 30), exif=tiff(orientation, order, kind))
        assert _native.probe(data) == (1, 30, 20, orientation, 3)

    @pytest.mark.parametrize("value", [0, 9, 65535])
    def test_an_impossible_orientation_counts_as_upright(self, value: int) -> None:
        assert _native.probe(encode(smooth(20, 30), exif=tiff(value, "<")))[3] == 1

    @pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("CMYK", 4)])
    def test_a_jpeg_has_the_channels_of_its_mode(self, mode: str, channels: int) -> None:
        assert _native.probe(encode(smooth(3, 5).convert(mode))) == (1, 5, 3, 1, channels)

    @pytest.mark.parametrize(
        ("mode", "channels"), [("1", 1), ("L", 1), ("LA", 2), ("P", 3), ("RGB", 3), ("RGBA", 4), ("I;16", 1)]
    )
    def test_a_png_has_the_channels_of_its_mode(self, mode: str, channels: int) -> None:
        image = smooth(3, 5)
        image = image.convert("L").convert("I").convert(mode) if mode == "I;16" else image.convert(mode)
        assert _native.probe(encode(image, "PNG")) == (2, 5, 3, 1, channels)

    def test_the_orientation_of_a_png_is_read(self) -> None:
        assert _native.probe(encode(smooth(3, 5), "PNG", orientation=6)) == (2, 5, 3, 6, 3)

    @pytest.mark.parametrize("data", [b"", b"\xff", b"GIF89a", b"RIFF", b"\xff\xd8"])
    def test_bytes_of_no_known_format_are_unknown(self, data: bytes) -> None:
        assert _native.probe(data) == (255, 0, 0, 1, 0)

    def test_every_truncation_of_a_header_is_an_error(self) -> None:
        data = encode(smooth(20, 30), exif=tiff(6, "<"))
        frame_ends = data.index(b"\xff\xc0") + 19
        for length in range(3, frame_ends):
            with pytest.raises(ValueError, match="JPEG"):
                _native.probe(data[:length])
        assert _native.probe(data[:frame_ends]) == (1, 30, 20, 6, 3)
        for length in range(8, 33):
            with pytest.raises(ValueError, match="PNG"):
                _native.probe(encode(smooth(20, 30), "PNG")[:length])
