"""Bad samples, and bad arguments of the native engine."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow, encode
from helpers.payloads import GOOD, OUT, PAYLOAD_SIZE, Dataset, picture
from helpers.processes import BatchForm, digests_at_level

from stoker.augment import reference
from stoker.errors import DatasetError, EngineError, StaleIndexError
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Status, Work
from stoker.pipeline.engines.native import NativeEngine

PROGRESSIVE = encode(picture(7), progressive=True)


def with_frame(data: bytes, height: int, width: int) -> bytes:
    """The same JPEG with another size in its header."""
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


def damaged(data: bytes) -> bytes:
    """Entropy-coded data with a run of ones, which is no Huffman code of any table."""
    middle = (data.index(b"\xff\xda") + len(data)) // 2
    return data[:middle] + b"\xff\x00" * 20 + data[middle + 40 :]


def header_of(data: bytes) -> bytes:
    scan = data.index(b"\xff\xda")
    return data[: scan + 14]


BAD = {
    "nothing": (b"", Status.TRUNCATED),
    "start only": (b"\xff\xd8", Status.TRUNCATED),
    "text": (b"<html>not found</html>" * 20, Status.NOT_DECODABLE),
    "zeros": (bytes(500), Status.NOT_DECODABLE),
    "half": (GOOD[0][: len(GOOD[0]) // 2], Status.TRUNCATED),
    "without its end": (GOOD[0][:-2], Status.TRUNCATED),
    "header only": (header_of(GOOD[0]), Status.TRUNCATED),
    "header and end": (header_of(GOOD[0]) + b"\xff\xd9", Status.TRUNCATED),
    "half and end": (GOOD[0][: len(GOOD[0]) // 2] + b"\xff\xd9", Status.TRUNCATED),
    "half progressive": (PROGRESSIVE[: len(PROGRESSIVE) // 2], Status.TRUNCATED),
    "damaged": (damaged(GOOD[0]), Status.NOT_DECODABLE),
    "another size": (encode(picture(0).resize((64, 47))), Status.SIZE_MISMATCH),
    "turned": (encode(picture(0).resize((48, 64))), Status.SIZE_MISMATCH),
    "bomb": (with_frame(GOOD[0], 65000, 65000), Status.TOO_LARGE),
    "no pixels": (with_frame(GOOD[0], 0, 64), Status.NOT_DECODABLE),
    "png": (encode(picture(0), "PNG"), Status.NOT_DECODABLE),
}


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_sample_is_a_status_and_its_neighbours_are_whole(
    kind: str, position: int, tmp_path: Path
) -> None:
    payload, expected = BAD[kind]
    whole = Dataset(tmp_path, GOOD).execute()
    payloads = list(GOOD)
    payloads[position] = payload
    result = Dataset(tmp_path, payloads).execute()
    assert result.status[position] == expected, result.reason
    assert list(result.reason) == [position]
    assert result.reason[position]
    assert not result.images[position].any()
    for neighbour in {0, 1, 2} - {position}:
        np.testing.assert_array_equal(result.images[neighbour], whole.images[neighbour])


def test_every_flipped_bit_is_a_checksum_mismatch(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, [GOOD[0]])
    engine = dataset.engine(mapped=False)
    data = bytearray(dataset.path.read_bytes())
    for bit in range(0, 8 * len(data), 5):
        data[bit // 8] ^= 1 << bit % 8
        dataset.path.write_bytes(data)
        data[bit // 8] ^= 1 << bit % 8
        engine.submit(Work(dataset.samples, dataset.params))
        assert engine.collect().status.tolist() == [Status.CHECKSUM_MISMATCH]
    engine.close()


def test_without_verify_no_checksum_is_computed(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD)
    dataset.samples.crc[:] = 1
    assert dataset.execute().status.tolist() == [Status.CHECKSUM_MISMATCH] * 3
    assert dataset.execute(verify=False).status.tolist() == [0, 0, 0]


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(
    ("column", "value"), [("shard", 1), ("shard", -1), ("offset", -1), ("offset", 10**15), ("length", 2**62)]
)
def test_payloads_outside_the_shards_are_bad_samples(
    column: str, value: int, mapped: bool, tmp_path: Path
) -> None:
    dataset = Dataset(tmp_path, GOOD)
    getattr(dataset.samples, column)[1] = value
    assert dataset.execute(mapped=mapped).status.tolist() == [0, Status.READ_ERROR, 0]


def test_a_file_that_shrinks_is_an_error_where_it_is_read(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD)
    engine = dataset.engine(mapped=False)
    os.truncate(dataset.path, dataset.samples.offset[2] + 5)
    engine.submit(Work(dataset.samples, dataset.params))
    assert engine.collect().status.tolist() == [0, 0, Status.READ_ERROR]
    engine.close()


def test_shards_of_another_size_than_the_index_says_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    path.write_bytes(b"123")
    for size in (0, 2, 4, 2**40):
        with pytest.raises(StaleIndexError, match="3 bytes"):
            NativeEngine(EngineSettings([str(path)], [size], ImageFormat(), max_pixels=1))
    with pytest.raises(DatasetError, match="No such file"):
        NativeEngine(EngineSettings(["/none"], [0], ImageFormat(), max_pixels=1))
    with pytest.raises(StaleIndexError):
        NativeEngine(EngineSettings([str(tmp_path)], [4096], ImageFormat(), max_pixels=1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("crop", (-1, 0, 10, 10)),
        ("crop", (0, 0, PAYLOAD_SIZE[0] + 1, 10)),
        ("crop", (0, 2**31 - 1, 10, 10)),
        ("crop", (0, 0, 0, 10)),
        ("region", (0, 0, 49, 10)),
        ("region", (5, 0, 5, 10)),
        ("region", (0, 0, float("nan"), 10)),
        ("region", (0, 0, float("inf"), 10)),
        ("dest", (0, 0, OUT[0] + 1, 1)),
        ("dest", (-1, 0, 1, 1)),
    ],
)
def test_parameters_outside_the_image_are_refused(field: str, value: Any, tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD)
    getattr(dataset.params, field)[2] = value
    with pytest.raises(EngineError, match="image 2 of the batch"):
        dataset.execute()


def test_pillow_decodes_other_codecs_and_names_their_bad_samples(tmp_path: Path) -> None:
    codecs = [Codec.PNG, Codec.WEBP, Codec.BMP, Codec.GIF, Codec.TIFF, Codec.JPEG, Codec.PNG, Codec.PNG]
    forms = ["PNG", "WEBP", "BMP", "GIF", "TIFF", "JPEG", "PNG", "PNG"]
    payloads = [encode(picture(i), form) for i, form in enumerate(forms)]
    payloads[6] = payloads[6][: len(payloads[6]) // 2]
    dataset = Dataset(tmp_path, payloads, codecs)
    dataset.samples.crc[7] ^= 1
    result = dataset.execute()
    assert result.status[:6].tolist() == [0] * 6, result.reason
    assert result.status[6] in (Status.TRUNCATED, Status.NOT_DECODABLE)
    assert result.status[7] == Status.CHECKSUM_MISMATCH
    assert sorted(result.reason) == [6, 7]
    assert not result.images[6:].any()
    for i in range(5):
        expected = reference.execute(dataset.params, i, decode_with_pillow(payloads[i]))
        assert np.abs(result.images[i] - expected).max() <= 1


def test_a_large_image_of_another_codec_is_not_decoded(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, [encode(picture(0), "PNG")], [Codec.PNG])
    assert dataset.execute(max_pixels=PAYLOAD_SIZE[0] * PAYLOAD_SIZE[1] - 1).status.tolist() == [
        Status.TOO_LARGE
    ]
    assert dataset.execute(max_pixels=PAYLOAD_SIZE[0] * PAYLOAD_SIZE[1]).status.tolist() == [Status.OK]


def test_raw_pixels_beyond_max_pixels_are_too_large(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, [np.asarray(picture(0)).tobytes()], [Codec.RAW])
    assert dataset.execute(max_pixels=PAYLOAD_SIZE[0] * PAYLOAD_SIZE[1] - 1).status.tolist() == [
        Status.TOO_LARGE
    ]
    assert dataset.execute(max_pixels=PAYLOAD_SIZE[0] * PAYLOAD_SIZE[1]).status.tolist() == [Status.OK]


def enlarge(path: Path, size: int) -> None:
    """Make a file larger without any bytes on the disk."""
    try:
        os.truncate(path, size)
    except OSError:
        pytest.skip("this file system takes no files of a few gibibytes")


def test_a_row_whose_bytes_are_no_int_is_refused(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, [bytes(10)], [Codec.RAW])
    width = 800_000_000
    enlarge(dataset.path, 3 * width)
    dataset.samples.length[:], dataset.samples.height[:], dataset.samples.width[:] = 3 * width, 1, width
    dataset.params.crop[:] = dataset.params.region[:] = 0, 0, 1, width
    result = dataset.execute(verify=False, max_pixels=2**40)
    assert result.status.tolist() == [Status.NOT_DECODABLE]
    assert "at most 16777216 a side" in result.reason[0]


def test_reasons_name_the_sizes(tmp_path: Path) -> None:
    raw = np.asarray(picture(0)).tobytes()
    payloads = [BAD["turned"][0], BAD["bomb"][0], raw[:-1], encode(picture(0).resize((64, 47)), "PNG")]
    result = Dataset(tmp_path, payloads, [Codec.JPEG, Codec.JPEG, Codec.RAW, Codec.PNG]).execute()
    assert result.reason == {
        0: "64x48 pixels, the index says 48x64 pixels",
        1: "65000x65000 pixels",
        2: f"{len(raw) - 1} bytes for 48x64 pixels",
        3: "47x64 pixels, the index says 48x64 pixels",
    }


def test_payloads_beyond_four_gibibytes_are_read(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD)
    expected = dataset.execute().images
    enlarge(dataset.path, 5 * 2**30)
    with dataset.path.open("r+b") as file:
        for i, offset in enumerate((2**31 - 100, 2**32 - 100, 5 * 2**30)):
            file.seek(offset)
            file.write(GOOD[i])
            dataset.samples.offset[i] = offset
    for mapped in (True, False):
        np.testing.assert_array_equal(dataset.execute(mapped=mapped).images, expected)


def test_the_number_of_threads_changes_nothing(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD * 20)
    results = [dataset.execute(threads=threads).images.tobytes() for threads in (1, 2, 5, 16)]
    assert len(set(results)) == 1


def test_instruction_sets_change_nothing(tmp_path: Path) -> None:
    """The same bytes from every level that this machine has."""
    dataset = Dataset(tmp_path, GOOD)
    color = np.random.default_rng(0).normal(0, 0.01, (3, 3, 4)).astype(np.float32)
    params = replace(dataset.params, color=color, flip=np.array([(0, 1), (1, 0), (1, 1)], bool))
    batches: list[BatchForm] = [
        (dtype, layout, params)
        for dtype in ("float32", "float16", "bfloat16", "uint8")
        for layout in ("NCHW", "NHWC", "NHWC4")
    ]
    levels = ("plain", "avx2", "avx512")
    digests = (digests_at_level(level, dataset.path, dataset.samples, batches) for level in levels)
    assert len(set(map(tuple, digests))) == 1
