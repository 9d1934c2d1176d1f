"""The functions of the C++ module, one by one."""

import ctypes
import io
import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from stoker import _native

LIMIT = 10**7


def smooth(height: int, width: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, form: str = "JPEG", **saved: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **saved)
    return stream.getvalue()


def crc32c_by_bits(data: bytes, value: int = 0) -> int:
    crc = value ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class TestCrc32c:
    @pytest.mark.parametrize(
        ("data", "expected"),  # RFC 3720, B.4
        [
            (bytes(32), 0x8A9136AA),
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
            (bytes(range(31, -1, -1)), 0x113FDB5C),
            (b"123456789", 0xE3069283),
        ],
    )
    def test_published_values(self, data: bytes, expected: int) -> None:
        assert _native.crc32c(data) == expected

    @pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1535, 1536, 1543, 12287, 12288, 14000])
    def test_every_way_through_the_lanes(self, length: int) -> None:
        data = np.random.default_rng(length).bytes(length)
        assert _native.crc32c(data) == crc32c_by_bits(data)
        for cut in (0, length // 3, length):
            assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == _native.crc32c(data)

    def test_any_contiguous_buffer(self) -> None:
        data = np.arange(100, dtype=np.uint16)
        expected = _native.crc32c(data.tobytes())
        assert _native.crc32c(data) == _native.crc32c(memoryview(data)) == expected
        assert _native.crc32c(bytearray(data.tobytes())) == expected
        with pytest.raises(ValueError, match="contiguous"):
            _native.crc32c(data[::2])
        with pytest.raises(TypeError):
            _native.crc32c("text")  # type: ignore[arg-type,unused-ignore]


class TestCpuLevel:
    def test_a_lower_level_can_be_asked_for(self) -> None:
        program = "from stoker import _native; print(_native.cpu_level())"
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "STOKER_CPU_LEVEL": "plain"}
        assert subprocess.check_output(command, env=environment, text=True).strip() == "plain"
        assert _native.cpu_level() in ("avx512", "avx2", "neon", "plain")


def tiff(orientation: int, order: str, kind: int = 3) -> bytes:
    """An EXIF block with one entry besides the orientation; ``order`` is < or >."""
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
    def test_orientation(self, orientation: int, order: str, kind: int) -> None:
        data = encode(smooth(20, 30), exif=tiff(orientation, order, kind))
        assert _native.probe(data) == (1, 30, 20, orientation, 3)

    @pytest.mark.parametrize("value", [0, 9, 65535])
    def test_an_impossible_orientation_is_none(self, value: int) -> None:
        assert _native.probe(encode(smooth(20, 30), exif=tiff(value, "<")))[3] == 1

    @pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("CMYK", 4)])
    def test_channels_of_jpeg(self, mode: str, channels: int) -> None:
        assert _native.probe(encode(smooth(3, 5).convert(mode))) == (1, 5, 3, 1, channels)

    @pytest.mark.parametrize(
        ("mode", "channels"), [("1", 1), ("L", 1), ("LA", 2), ("P", 3), ("RGB", 3), ("RGBA", 4), ("I;16", 1)]
    )
    def test_channels_of_png(self, mode: str, channels: int) -> None:
        image = (
            smooth(3, 5).convert("L").convert("I").convert(mode)
            if mode == "I;16"
            else smooth(3, 5).convert(mode)
        )
        assert _native.probe(encode(image, "PNG")) == (2, 5, 3, 1, channels)

    def test_orientation_of_png(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        assert _native.probe(encode(smooth(3, 5), "PNG", exif=exif)) == (2, 5, 3, 6, 3)

    @pytest.mark.parametrize("data", [b"", b"\xff", b"GIF89a", b"RIFF", b"\xff\xd8"])
    def test_unknown(self, data: bytes) -> None:
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


def resident(descriptor: int, size: int) -> float:
    """Share of a file's pages that are in the page cache."""
    with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapping:
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        address = np.frombuffer(mapping, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        place = [ctypes.c_void_p(array.ctypes.data) for array in (address, pages)]
        assert libc.mincore(place[0], ctypes.c_size_t(size), place[1]) == 0
        del address
        return float((pages & 1).mean())


def descriptors(path: Path) -> int:
    """How often this process has a file open."""
    return sum(link.resolve() == path.resolve() for link in Path("/proc/self/fd").iterdir())


class TestShards:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "data"
        path.write_bytes(bytes(range(200)))
        return path

    @pytest.mark.parametrize("mapped", [True, False])
    def test_view(self, path: Path, mapped: bool) -> None:
        shards = _native.Shards([str(path)], [200], mapped)
        view = shards.view(0, 10, 5)
        assert bytes(view) == bytes(range(10, 15))
        assert view.readonly
        assert bytes(shards.view(0, 200, 0)) == b""
        shards.close()
        assert bytes(view) == bytes(range(10, 15))
        with pytest.raises(ValueError, match="closed"):
            shards.view(0, 10, 5)

    @pytest.mark.parametrize(
        "place", [(1, 0, 1), (-1, 0, 1), (0, 0, 201), (0, 200, 1), (0, -1, 1), (0, 1, -1), (0, 2**62, 2**62)]
    )
    def test_out_of_bounds(self, path: Path, place: tuple[int, int, int]) -> None:
        shards = _native.Shards([str(path)], [200])
        with pytest.raises(ValueError, match="shard"):
            shards.view(*place)
        shard, offset, length = place
        with pytest.raises(ValueError, match="shard"):
            shards.will_need(np.array([shard], np.int32), np.array([offset]), np.array([length]))

    @pytest.mark.parametrize("mapped", [True, False])
    def test_will_need(self, path: Path, mapped: bool) -> None:
        shards = _native.Shards([str(path)], [200], mapped)
        shards.will_need(np.array([0, 0], np.int32), np.array([150, 3]), np.array([50, 0]))

    def test_ends_that_are_no_numbers(self, path: Path) -> None:
        shards = _native.Shards([str(path)], [200])
        with pytest.raises(ValueError, match="are not within the 200 bytes of shard 0"):
            shards.will_need(np.zeros(2, np.int32), np.full(2, 2**62), np.full(2, 2**62))

    @pytest.mark.parametrize("mapped", [True, False])
    def test_all_that_is_needed_is_read_ahead(self, tmp_path: Path, mapped: bool) -> None:
        """However long the range: Linux cuts off what one call asks for."""
        path, size = tmp_path / "large", 24 << 20
        path.write_bytes(bytes(size))
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if resident(file.fileno(), size) > 0:
                pytest.skip("this file system keeps everything in memory")
            shards = _native.Shards([str(path)], [size], mapped)
            share, until = 0.0, time.monotonic() + 60
            while share < 1 and time.monotonic() < until:
                # Again: what was read may be gone already, on a machine that needs its memory.
                shards.will_need(np.zeros(1, np.int32), np.zeros(1, np.int64), np.array([size]))
                time.sleep(0.01)
                share = resident(file.fileno(), size)
            assert share == 1

    def test_errors_of_the_system_keep_their_kind(self, path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="gone"):
            _native.Shards([str(path) + "-gone"], [200])
        with pytest.raises(OSError, match="200 bytes and should have 199"):
            _native.Shards([str(path)], [199])
        with pytest.raises(ValueError, match="the same length"):
            _native.Shards([str(path)], [])

    def test_no_descriptor_is_left_open(self, path: Path) -> None:
        shards = _native.Shards([str(path)] * 50, [200] * 50)
        assert descriptors(path) == 0
        unmapped = _native.Shards([str(path)] * 50, [200] * 50, mapped=False)
        for _ in range(2):
            assert bytes(unmapped.view(7, 3, 2)) == b"\3\4"
        assert descriptors(path) == 1
        del shards, unmapped
        assert descriptors(path) == 0

    def test_thousands_of_unmapped_shards_are_read_with_few_descriptors(self, path: Path) -> None:
        shards = _native.Shards([str(path)] * 2000, [200] * 2000, mapped=False)
        assert descriptors(path) == 0
        everywhere = np.arange(2000, dtype=np.int32)
        shards.will_need(everywhere, np.zeros(2000, np.int64), np.full(2000, 9))
        assert descriptors(path) == 256
        assert all(bytes(shards.view(i, i % 200, 1)) == bytes([i % 200]) for i in range(2000))
        assert descriptors(path) == 256


class TestBufferPool:
    def test_a_block_is_used_again_when_nobody_holds_it(self) -> None:
        pool = _native.BufferPool(2)
        array = pool.array((4, 5), "float32")
        assert (array.shape, array.dtype, array.ctypes.data % 64) == ((4, 5), np.float32, 0)
        address, view = array.ctypes.data, array[1:]
        del array
        other = pool.array((4, 5), "float32")
        assert other.ctypes.data != address
        del view
        assert pool.array((4, 5), "float32").ctypes.data == address

    def test_arrays_outlive_the_pool(self) -> None:
        array = _native.BufferPool(0).array((1000,), "uint8")
        array[:] = 7
        assert array.sum() == 7000

    def test_shapes_that_cannot_be(self) -> None:
        with pytest.raises(ValueError, match="too large"):
            _native.BufferPool(0).array((2**40, 2**40), "uint8")
        with pytest.raises(MemoryError):
            _native.BufferPool(0).array((2**64 - 1,), "uint8")
        with pytest.raises(ValueError, match="dtype"):
            _native.BufferPool(0).array((1,), "int64")


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
    def test_large_reductions(self, size: int) -> None:
        """What rounding does to one of so many weights is little, and adds up."""
        pixels = np.random.default_rng(0).integers(0, 2, (size, 2, 3), np.uint8) * np.uint8(255)
        expected = Image.fromarray(pixels).resize((2, 15), Image.Resampling.BILINEAR)
        found = _native.resize(pixels, (15, 2)).astype(int)
        assert np.abs(found - np.asarray(expected, np.int64)).max() <= 1

    @pytest.mark.parametrize(
        "box", [(0, 0, 41, 60), (-1, 0, 40, 60), (5, 0, 5, 60), (0, float("nan"), 40, 60)]
    )
    def test_boxes_outside(self, box: Any) -> None:
        with pytest.raises(ValueError, match="box"):
            _native.resize(np.asarray(smooth(40, 60)), (5, 5), box)

    @pytest.mark.parametrize("size", [(0, 5), (5, -1), (1 << 17, 5)])
    def test_sizes_that_cannot_be(self, size: tuple[int, int]) -> None:
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
    def test_sizes(
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
    def test_orientation_is_applied(self, orientation: int) -> None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = encode(smooth(20, 30), exif=exif, quality=95)
        raw, h, w = _native.transcode(data, "none", 0, 0, "raw", 90, "444", LIMIT)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))), np.int64)
        assert np.abs(np.frombuffer(raw, np.uint8).reshape(h, w, 3) - expected).max() <= 1

    @pytest.mark.parametrize(("subsampling", "factors"), [("444", 0x11), ("422", 0x21), ("420", 0x22)])
    def test_subsampling_and_quality(self, subsampling: str, factors: int) -> None:
        data = encode(smooth(60, 100))
        sizes = []
        for quality in (20, 90):
            payload, _, _ = _native.transcode(data, "none", 0, 0, "jpeg", quality, subsampling, LIMIT)
            frame = payload.index(b"\xff\xc0")
            assert payload[frame + 11] == factors
            sizes.append(len(payload))
        assert sizes[0] < sizes[1]

    def test_pixels_take_the_same_way(self) -> None:
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
    def test_errors(self, change: dict[str, Any], message: str) -> None:
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


class TestPool:
    def test_it_may_be_closed_twice(self) -> None:
        pool = _native.Pool(2)
        pool.close()
        pool.close()
