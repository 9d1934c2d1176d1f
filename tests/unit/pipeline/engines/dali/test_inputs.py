"""Payloads for DALI: damaged ones are found before its decoder sees them."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import encode, noise
from helpers.loaders import settings_of
from PIL import Image

from stoker.errors import StaleIndexError
from stoker.formats.codecs.codec import Codec
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Status
from stoker.pipeline.engines.dali.inputs import BLACK_PIXEL, PayloadReader, Payloads

MAX_PIXELS = 10_000


class ReadPayload:
    """The payload of a batch of one sample."""

    def __init__(self, payloads: Payloads) -> None:
        self.data = payloads.data[0]
        self.encoded = payloads.encoded()[0]
        self.status = Status(int(payloads.status()[0]))
        self.reason = payloads.reason().get(0, "")


Read = Callable[..., ReadPayload]


@pytest.fixture
def read(pack_images: Callable[..., Path]) -> Read:
    """``read(payload, verify=True, **columns)``: a payload, with other values in the index if given."""

    def read_one(payload: bytes, verify: bool = True, **columns: Any) -> ReadPayload:
        columns = {name: np.array([value]) for name, value in columns.items()}
        dataset = open_dataset(pack_images([payload], **columns))
        with closing(PayloadReader(settings_of(dataset, max_pixels=MAX_PIXELS, verify=verify))) as reader:
            return ReadPayload(reader.read(dataset.samples([0])))

    return read_one


def encoded(height: int = 20, width: int = 30, kind: str = "JPEG", **options: Any) -> bytes:
    return encode(noise(0, height, width), kind, **options)


def with_thumbnail(photograph: bytes, thumbnail: bytes) -> bytes:
    """A JPEG that carries another one in an APP2 segment, as cameras write previews."""
    segment = b"\xff\xe2" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    return photograph[:2] + segment + photograph[2:]


def assert_bad(payload: ReadPayload, status: Status, reason: str) -> None:
    """The payload has this status, a reason with these words, and a black pixel for its data."""
    assert payload.status == status
    assert reason in payload.reason
    assert np.array_equal(payload.data, BLACK_PIXEL)


def test_a_jpeg_is_handed_over_as_it_is(read: Read) -> None:
    data = encoded()
    assert read(data).status == Status.OK
    assert read(data).data.tobytes() == read(data).encoded.tobytes() == data


@pytest.mark.parametrize("kind", ["PNG", "BMP"])
def test_other_codecs_are_decoded_to_pixels(read: Read, kind: str) -> None:
    data = encoded(2, 3, kind)
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    payload = read(data)
    assert np.array_equal(payload.data, pixels)
    assert payload.encoded.tobytes() == b"P6\n3 2\n255\n" + pixels.tobytes()


def test_raw_pixels_are_handed_over_as_pixels_or_ppm(read: Read) -> None:
    raw = bytes(range(18))
    payload = read(raw, codec=np.uint8(Codec.RAW), height=2, width=3)
    assert payload.data.shape == (2, 3, 3)
    assert payload.data.tobytes() == raw
    assert payload.encoded.tobytes() == b"P6\n3 2\n255\n" + raw


def test_raw_pixels_of_another_size_are_bad(read: Read) -> None:
    payload = read(bytes(17), codec=np.uint8(Codec.RAW), height=2, width=3)
    assert_bad(payload, Status.SIZE_MISMATCH, "17 bytes for 2x3")


def test_a_wrong_checksum_is_found_only_with_verify(read: Read) -> None:
    data = encoded()
    assert_bad(read(data, crc=np.uint32(1)), Status.CHECKSUM_MISMATCH, "CRC32C")
    assert read(data, crc=np.uint32(1), verify=False).status == Status.OK


@pytest.mark.parametrize("location", [{"offset": 10**9}, {"length": 10**9}, {"offset": -1}, {"shard": 7}])
def test_a_payload_outside_of_its_file_is_a_read_error(read: Read, location: dict[str, int]) -> None:
    assert_bad(read(encoded(), **location), Status.READ_ERROR, "")


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_an_image_of_another_size_than_in_the_index_is_bad(read: Read, kind: str) -> None:
    assert_bad(read(encoded(kind=kind), height=30, width=20), Status.SIZE_MISMATCH, "20x30 pixels")


@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 8])
def test_sizes_are_compared_after_the_exif_orientation(read: Read, orientation: int) -> None:
    data = encoded(orientation=orientation)
    assert read(data).status == Status.OK
    height, width = (20, 30) if orientation >= 5 else (30, 20)
    assert_bad(read(data, height=height, width=width), Status.SIZE_MISMATCH, "the index says")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP"])
def test_an_image_above_max_pixels_is_too_large(read: Read, kind: str) -> None:
    data = encoded(101, 100, kind)
    assert_bad(read(data), Status.TOO_LARGE, "101x100")
    # Nor does a smaller size in the index help.
    assert_bad(read(data, height=10, width=10), Status.TOO_LARGE, "101x100")


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("left", [0.2, 0.6, 0.9])
def test_a_cut_off_image_is_truncated_or_not_decodable(read: Read, kind: str, left: float) -> None:
    data = encoded(kind=kind)
    cut = data[: int(len(data) * left)]
    payload = read(cut, codec=np.uint8(Codec[kind]), height=20, width=30, orientation=1)
    assert payload.status in (Status.TRUNCATED, Status.NOT_DECODABLE)
    assert np.array_equal(payload.data, BLACK_PIXEL)


def test_the_end_of_an_embedded_thumbnail_does_not_end_the_image(read: Read) -> None:
    data = with_thumbnail(encoded(), encoded(8, 8))
    assert read(data).status == Status.OK
    cut = data[: len(data) - 200]
    assert_bad(read(cut), Status.TRUNCATED, "no end")


def test_bytes_after_the_end_of_an_image_are_ignored(read: Read) -> None:
    assert read(encoded() + b"\0" * 500).status == Status.OK
    assert read(encoded(progressive=True) + b"appended video").status == Status.OK


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff\xd9", b"GIF89a" + bytes(20), bytes(64)]
)
@pytest.mark.parametrize("codec", [Codec.JPEG, Codec.PNG, Codec.OTHER])
def test_bytes_that_are_no_image_are_bad(read: Read, data: bytes, codec: Codec) -> None:
    payload = read(data, codec=np.uint8(codec), height=8, width=8)
    assert payload.status not in (Status.OK, Status.READ_ERROR)
    assert np.array_equal(payload.data, BLACK_PIXEL)


def test_planes_are_decoded_to_pixels(read: Read) -> None:
    planes = np.random.default_rng(0).integers(0, 256, (3, 4, 5), np.uint8)
    payload = read(planes.tobytes(), codec=Codec.PLANES, height=4, width=5)
    np.testing.assert_array_equal(payload.data, planes[::-1].transpose(1, 2, 0))
    assert read(planes.tobytes(), codec=Codec.PLANES, height=4, width=4).status == Status.NOT_DECODABLE
    assert read(planes.tobytes(), codec=Codec.PLANES, height=200, width=200).status == Status.TOO_LARGE


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shard"
    file.write_bytes(b"12345")
    with pytest.raises(StaleIndexError, match="5 bytes and should have 4"):
        PayloadReader(EngineSettings([str(file)], [4], ImageFormat(), max_pixels=MAX_PIXELS))


def test_capsules_share_the_memory_of_payloads_and_outlive_their_reader(
    pack_images: Callable[..., Path],
) -> None:
    tensors = pytest.importorskip("nvidia.dali.tensors")
    data = [encoded(), encoded(kind="PNG")]
    dataset = open_dataset(pack_images(data))
    reader = PayloadReader(settings_of(dataset, max_pixels=MAX_PIXELS))
    payloads = reader.read(dataset.samples([0, 1]))
    files_of_dali = payloads.encoded()
    jpeg, pixels = (tensors.TensorCPU(one, "") for one in payloads.memory.capsules(files_of_dali))
    assert np.asarray(jpeg).ctypes.data == payloads.data[0].ctypes.data
    assert np.asarray(pixels).ctypes.data != files_of_dali[1].ctypes.data, "these are not in the file"
    expected = [one.tobytes() for one in files_of_dali]
    assert expected[0] == data[0]
    unused = payloads.memory.capsules([payloads.data[0]])
    reader.close()
    del unused, payloads, files_of_dali
    assert [np.asarray(one).tobytes() for one in (jpeg, pixels)] == expected
