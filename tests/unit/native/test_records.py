"""CRC32C and mapped shards of the C++ module."""

from pathlib import Path

import numpy as np
import pytest

from stoker import _native


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
    def test_checksums_are_the_published_ones(self, data: bytes, expected: int) -> None:
        assert _native.crc32c(data) == expected

    @pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1535, 1536, 1543, 12287, 12288, 14000])
    def test_checksums_of_every_number_of_lanes_are_those_of_a_loop_over_bits(self, length: int) -> None:
        data = np.random.default_rng(length).bytes(length)
        assert _native.crc32c(data) == crc32c_by_bits(data)
        for cut in (0, length // 3, length):
            assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == _native.crc32c(data)

    def test_any_contiguous_buffer_is_accepted_and_others_are_refused(self) -> None:
        data = np.arange(100, dtype=np.uint16)
        expected = _native.crc32c(data.tobytes())
        assert _native.crc32c(data) == _native.crc32c(memoryview(data)) == expected
        assert _native.crc32c(bytearray(data.tobytes())) == expected
        with pytest.raises(ValueError, match="contiguous"):
            _native.crc32c(data[::2])
        with pytest.raises(TypeError):
            _native.crc32c("text")  # type: ignore[arg-type,unused-ignore]


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
    def test_a_view_outlives_the_shards(self, path: Path, mapped: bool) -> None:
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
        ("shard", "offset", "length"),
        [(1, 0, 1), (-1, 0, 1), (0, 0, 201), (0, 200, 1), (0, -1, 1), (0, 1, -1), (0, 2**62, 2**62)],
    )
    def test_a_byte_range_outside_is_refused(self, path: Path, shard: int, offset: int, length: int) -> None:
        shards = _native.Shards([str(path)], [200])
        with pytest.raises(ValueError, match="shard"):
            shards.view(shard, offset, length)
        with pytest.raises(ValueError, match="shard"):
            shards.will_need(np.array([shard], np.int32), np.array([offset]), np.array([length]))

    @pytest.mark.parametrize("mapped", [True, False])
    def test_every_byte_of_a_shard_may_be_announced(self, path: Path, mapped: bool) -> None:
        shards = _native.Shards([str(path)], [200], mapped)
        shards.will_need(np.array([0, 0], np.int32), np.array([150, 3]), np.array([50, 0]))

    def test_a_byte_range_whose_end_overflows_is_refused(self, path: Path) -> None:
        shards = _native.Shards([str(path)], [200])
        with pytest.raises(ValueError, match="are not within the 200 bytes of shard 0"):
            shards.will_need(np.zeros(2, np.int32), np.full(2, 2**62), np.full(2, 2**62))

    def test_errors_of_the_system_keep_their_class(self, path: Path) -> None:
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

    def test_all_datasets_of_a_process_share_their_descriptors(self, path: Path) -> None:
        several = [_native.Shards([str(path)] * 200, [200] * 200, mapped=False) for _ in range(4)]
        for i in range(800):
            assert bytes(several[i % 4].view(i // 4, i % 200, 1)) == bytes([i % 200])
        assert descriptors(path) == 256
        del several[2]
        assert descriptors(path) == 192
        assert bytes(several[0].view(0, 9, 1)) == b"\t"
