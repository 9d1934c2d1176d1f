"""Bad samples in a loader: named, skipped or replaced, their neighbours unchanged, on every engine."""

from __future__ import annotations

import io
import os
import resource
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import encode
from helpers.loaders import load_rows
from helpers.payloads import png_file
from PIL import Image

from stoker.errors import CorruptRecordError, DecodeError, ImageTooLargeError, SampleError
from stoker.formats.codecs.codec import Codec
from stoker.formats.open import open as open_dataset

pytestmark = pytest.mark.filterwarnings("ignore:a bad sample was")

BAD = [0, 7, 14]
"""The first, the middle and the last sample of three batches of five."""
GOOD = [row for row in range(15) if row not in BAD]
REPLACED_BY = {0: 1, 7: 8, 14: 10}


@dataclass(frozen=True)
class Fault:
    """How a sample goes bad.

    Attributes:
        error: What a loader raises.
        payload: Makes the bad payload from the good one; its checksum is right.
        columns: Values of the index for the bad sample.
        on_disk: Byte of the payload that changes after its checksum was computed.
    """

    error: type[SampleError]
    payload: Callable[[bytes], bytes] = bytes
    columns: dict[str, int] = field(default_factory=dict)
    on_disk: int | None = None


def png(payload: bytes) -> bytes:
    return encode(Image.open(io.BytesIO(payload)), "PNG")


def png_bomb(_: bytes) -> bytes:
    """60,000 by 60,000 black pixels in a few bytes."""
    return png_file(60_000, 60_000, zlib.compress(bytes(100_000)), form=(1, 0, 0, 0, 0))


def jpeg_bomb(payload: bytes) -> bytes:
    """A JPEG whose header claims 65,000 by 65,000 pixels."""
    at = payload.index(b"\xff\xc0") + 5
    return payload[:at] + struct.pack(">HH", 65_000, 65_000) + payload[at + 4 :]


def bad_tables(payload: bytes) -> bytes:
    """A JPEG whose header is right and whose Huffman tables no decoder accepts."""
    at = payload.index(b"\xff\xc4") + 5
    return payload[:at] + b"\xff" * 16 + payload[at + 16 :]


def without_tables(payload: bytes) -> bytes:
    at = payload.index(b"\xff\xdb")
    length = int.from_bytes(payload[at + 2 : at + 4], "big")
    return payload[:at] + payload[at + 2 + length :]


def bad_codes(payload: bytes) -> bytes:
    """A JPEG whose header and end are right, without a Huffman code after them; DALI makes an image of it."""
    start = payload.index(b"\xff\xda") + 14
    return payload[:start] + b"\xfe" * (len(payload) - start - 2) + payload[-2:]


FAULTS = {
    "a flipped bit": Fault(CorruptRecordError, on_disk=300),
    "a flipped bit at the start": Fault(CorruptRecordError, on_disk=0),
    "another checksum": Fault(CorruptRecordError, columns={"crc": 7}),
    "beyond the file": Fault(CorruptRecordError, columns={"offset": 2**40}),
    "before the file": Fault(CorruptRecordError, columns={"offset": -5}),
    "longer than the file": Fault(CorruptRecordError, columns={"length": 2**40}),
    "of no shard": Fault(CorruptRecordError, columns={"shard": 3}),
    "another height": Fault(CorruptRecordError, columns={"height": 999}),
    "empty": Fault(DecodeError, lambda _: b""),
    "text": Fault(DecodeError, lambda _: b"not found" * 20),
    "zeros": Fault(DecodeError, lambda payload: bytes(len(payload))),
    "header only": Fault(DecodeError, lambda payload: payload[:40]),
    "cut in half": Fault(DecodeError, lambda payload: payload[: len(payload) // 2]),
    "without its last bytes": Fault(DecodeError, lambda payload: payload[:-10]),
    "bad Huffman tables": Fault(DecodeError, bad_tables),
    "bad Huffman codes": Fault(DecodeError, bad_codes),
    "missing data": Fault(DecodeError, lambda payload: payload[: len(payload) // 2] + b"\xff\xd9"),
    "no quantisation tables": Fault(DecodeError, without_tables),
    "half a PNG": Fault(DecodeError, lambda p: png(p)[:500], {"codec": Codec.PNG}),
    "a JPEG bomb": Fault(ImageTooLargeError, jpeg_bomb),
    "a PNG bomb": Fault(ImageTooLargeError, png_bomb, {"codec": Codec.PNG}),
    "a bomb by the index": Fault(CorruptRecordError, columns={"height": 60_000, "width": 60_000}),
}


@pytest.fixture(scope="module")
def payloads(thumbnails: Path) -> list[bytes]:
    dataset = open_dataset(thumbnails)
    return [dataset.read(i) for i in range(15)]


@pytest.fixture(scope="module")
def undisturbed(thumbnails: Path, engine: str) -> np.ndarray[Any, Any]:
    """Images of the first 15 samples when none is bad."""
    with load_rows(thumbnails, engine) as loader:
        return np.concatenate([batch.image for batch in loader])


@pytest.fixture(scope="module", params=FAULTS)
def fault(request: pytest.FixtureRequest) -> Fault:
    return FAULTS[request.param]


@pytest.fixture(scope="module")
def damaged(pack_images: Callable[..., Path], thumbnails: Path, payloads: list[bytes], fault: Fault) -> Path:
    """15 samples; those in BAD have the fault."""
    index = open_dataset(thumbnails).index
    columns = {name: index.column(name)[:15].copy() for name in ("codec", "height", "width", "orientation")}
    packed = [fault.payload(p) if i in BAD else p for i, p in enumerate(payloads)]
    if set(fault.columns) - set(columns):
        plain = open_dataset(pack_images(packed, **columns)).index
        columns |= {name: plain.column(name).copy() for name in ("crc", "offset", "length", "shard")}
    for name, value in fault.columns.items():
        columns[name][BAD] = value
    folder = pack_images(packed, **columns)
    if fault.on_disk is not None:
        dataset = open_dataset(folder)
        data = bytearray(dataset.data_files[0].read_bytes())
        for row in BAD:
            data[dataset.index.column("offset")[row] + fault.on_disk] ^= 0x10
        dataset.data_files[0].write_bytes(data)
    return folder


def test_the_error_of_a_bad_sample_names_it(damaged: Path, engine: str, fault: Fault) -> None:
    with load_rows(damaged, engine, prefetch=3) as loader:
        state = loader.state_dict()
        for row in BAD:
            loader.load_state_dict({**state, "position": row // 5 * 5})
            with pytest.raises(SampleError) as caught:
                next(iter(loader))
            assert type(caught.value) is fault.error
            assert (caught.value.key, caught.value.record) == (f"k{row}", row)
            assert caught.value.shard in ("shard-00000-of-00001.tfrecord", "number 3")
            assert "on_error='skip'" in str(caught.value)


@pytest.mark.parametrize(
    ("on_error", "expected"),
    [("skip", GOOD), ("replace", [REPLACED_BY.get(row, row) for row in range(15)])],
)
def test_neighbours_of_bad_samples_stay_as_they_are(
    damaged: Path, engine: str, undisturbed: np.ndarray[Any, Any], on_error: Any, expected: list[int]
) -> None:
    """A bad sample is left out, or replaced by the next good one."""
    with load_rows(damaged, engine, on_error=on_error) as loader:
        batches = list(loader)
        stats = loader.stats()
    assert [len(batch.row) for batch in batches] == [len(expected) // 3] * 3
    assert np.concatenate([batch.row for batch in batches]).tolist() == expected
    assert [key for batch in batches for key in batch.key] == [f"k{row}" for row in expected]
    assert np.concatenate([batch.record for batch in batches]).tolist() == expected
    assert np.array_equal(np.concatenate([batch.image for batch in batches]), undisturbed[expected])
    bad = (3, 0) if on_error == "skip" else (0, 3)
    assert (stats.skipped, stats.replaced, stats.samples) == (*bad, len(expected))
    if on_error == "skip":
        assert stats.bad_keys == tuple(f"k{row}" for row in BAD)


def test_a_shard_that_is_cut_short_under_a_loader_is_a_bad_sample(
    pack_images: Callable[..., Path], payloads: list[bytes], engine: str
) -> None:
    dataset = open_dataset(pack_images(payloads))
    with (
        load_rows(dataset.path, engine, mapped=False) as loader,
        load_rows(dataset.path, engine, mapped=False, on_error="skip") as skipping,
    ):
        os.truncate(dataset.data_files[0], int(dataset.index.column("offset")[7]))
        with pytest.raises(CorruptRecordError, match="the payload cannot be read") as caught:
            list(loader)
        assert [row for batch in skipping for row in batch.row.tolist()] == list(range(7))
    assert (caught.value.shard, caught.value.key) == ("shard-00000-of-00001.tfrecord", "k7")


class TestBatchesWithoutAGoodSample:
    @pytest.fixture
    def folder(self, pack_images: Callable[..., Path], payloads: list[bytes]) -> Path:
        crc = open_dataset(pack_images(payloads[:10])).index.column("crc").copy()
        crc[:5] ^= 1
        return pack_images(payloads[:10], crc=crc)

    def test_skip_leaves_an_empty_batch(self, folder: Path, engine: str) -> None:
        with load_rows(folder, engine, on_error="skip") as loader:
            first, second = loader
        assert first.image.shape == (0, 3, 16, 16)
        assert len(first.row) == 0
        assert len(second.row) == 5

    def test_replace_raises_the_error_of_the_sample(self, folder: Path, engine: str) -> None:
        with (
            load_rows(folder, engine, on_error="replace") as loader,
            pytest.raises(CorruptRecordError, match="k0"),
        ):
            next(iter(loader))


def test_a_loader_without_verify_accepts_wrong_checksums(
    pack_images: Callable[..., Path], payloads: list[bytes], engine: str
) -> None:
    folder = pack_images(payloads[:5], crc=np.zeros(5, np.uint32))
    with load_rows(folder, engine, verify=False) as loader:
        assert len(next(iter(loader)).row) == 5


def test_a_decompression_bomb_is_not_decoded(
    pack_images: Callable[..., Path], payloads: list[bytes], engine: str
) -> None:
    bombs = [png_bomb(b""), jpeg_bomb(payloads[0])] * 10
    columns = {
        "codec": np.array([Codec.PNG, Codec.JPEG] * 10),
        "height": np.full(20, 32),
        "width": np.full(20, 48),
    }
    folder = pack_images(bombs, **columns)
    with load_rows(folder, engine, on_error="skip", batch_size=20) as loader:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        (batch,) = loader
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert loader.stats().skipped == 20
    assert len(batch.row) == 0
    assert grown < 2 * 1024 * 1024, "kilobytes; an image would take ten gigabytes"


def test_images_of_more_than_max_pixels_are_too_large(thumbnails: Path, engine: str) -> None:
    index = open_dataset(thumbnails).index
    pixels = index.column("height").astype(int) * index.column("width")
    limit = int(np.median(pixels))
    with load_rows(thumbnails, engine, on_error="skip", max_pixels=limit) as loader:
        rows = [int(row) for batch in loader for row in batch.row]
    assert rows == np.flatnonzero(pixels <= limit).tolist()
    assert 0 < len(rows) < 61
    with (
        load_rows(thumbnails, engine, max_pixels=limit) as loader,
        pytest.raises(ImageTooLargeError) as caught,
    ):
        list(loader)
    assert "A larger max_pixels accepts it" in str(caught.value)


@pytest.mark.parametrize("engine", ["native", "dali", "reference"])
def test_raw_pixels_of_more_than_max_pixels_are_too_large(
    pack_images: Callable[..., Path], engine: str
) -> None:
    sizes = {"height": np.array([8, 9]), "width": np.array([8, 8]), "codec": np.full(2, Codec.RAW)}
    folder = pack_images([bytes(8 * 8 * 3), bytes(9 * 8 * 3)], **sizes)
    with load_rows(folder, engine, on_error="skip", max_pixels=64) as loader:
        assert [row for batch in loader for row in batch.row.tolist()] == [0]
