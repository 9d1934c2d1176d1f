"""Payloads for DALI: damaged ones are found before its decoder sees them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import encode, noise
from helpers.loaders import settings_of
from helpers.payloads import run_once

from stoker import _native
from stoker.augment import RandomCrop, compile_image
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import NO_CHECKSUM
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat, Status, Work, open_shards
from stoker.pipeline.engines.dali.inputs import BLACK_PIXEL, DamageScan, Payloads, read_payloads
from stoker.pipeline.engines.native import NativeEngine

MAX_PIXELS = 10_000
Read = Callable[..., Payloads]


@pytest.fixture
def read(pack_images: Callable[..., Path]) -> Read:
    """``read(payload, verify=True, **columns)``: a payload, with other values in the index if given."""

    def read_one(payload: bytes, verify: bool = True, **columns: Any) -> Payloads:
        columns = {name: np.array([value]) for name, value in columns.items()}
        dataset = open_dataset(pack_images([payload], **columns))
        settings = settings_of(dataset, max_pixels=MAX_PIXELS, verify=verify)
        with closing(open_shards(settings.files, settings.sizes)) as shards:
            return read_payloads(shards, dataset.samples([0]), settings)

    return read_one


def encoded(height: int = 20, width: int = 30, kind: str = "JPEG", **options: Any) -> bytes:
    return encode(noise(0, height, width), kind, **options)


def with_thumbnail(photograph: bytes, thumbnail: bytes) -> bytes:
    """A JPEG that carries another one in an APP2 segment, as cameras write previews."""
    segment = b"\xff\xe2" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    return photograph[:2] + segment + photograph[2:]


JPEG, PREVIEW, RAW = encoded(), with_thumbnail(encoded(), encoded(8, 8)), bytes(range(18))
OF_RAW = {"codec": np.uint8(Codec.RAW), "height": 2, "width": 3}


@pytest.mark.parametrize(
    "data",
    [JPEG, PREVIEW, JPEG + b"\0" * 500, encoded(progressive=True) + b"appended video"],
    ids=["plain", "with a preview", "with zeros", "with a video"],
)
def test_a_jpeg_is_handed_over_as_it_is(read: Read, data: bytes) -> None:
    payloads = read(data)
    assert payloads.status().tolist() == [Status.OK]
    assert payloads.data[0].tobytes() == payloads.encoded()[0].tobytes() == data


@pytest.mark.parametrize(
    ("data", "columns", "status", "reason"),
    [
        (bytes(17), OF_RAW, Status.SIZE_MISMATCH, "17 bytes for 2x3"),
        (JPEG, {"crc": np.uint32(1)}, Status.CHECKSUM_MISMATCH, "CRC32C"),
        (JPEG, {"height": 30, "width": 20}, Status.SIZE_MISMATCH, "20x30 pixels"),
        (encoded(orientation=6), {"height": 20, "width": 30}, Status.SIZE_MISMATCH, "the index says"),
        (encoded(kind="PNG"), {"height": 30, "width": 20}, Status.SIZE_MISMATCH, "20x30 pixels"),
        *((encoded(101, 100, kind), {}, Status.TOO_LARGE, "101x100") for kind in ("JPEG", "PNG", "BMP")),
        # Nor does a smaller size in the index help.
        (encoded(101, 100), {"height": 10, "width": 10}, Status.TOO_LARGE, "101x100"),
        (PREVIEW[:-200], {}, Status.TRUNCATED, "no end"),
        (RAW, OF_RAW | {"codec": Codec.PLANES, "height": 4}, Status.NOT_DECODABLE, ""),
        (RAW, {"codec": Codec.PLANES, "height": 200, "width": 200}, Status.TOO_LARGE, ""),
    ],
)
def test_a_damaged_payload_has_a_status_a_reason_and_a_black_pixel(
    read: Read, data: bytes, columns: dict[str, Any], status: Status, reason: str
) -> None:
    payloads = read(data, **columns)
    assert payloads.status().tolist() == [status]
    assert reason in payloads.reason()[0]
    assert np.array_equal(payloads.data[0], BLACK_PIXEL)


def test_a_wrong_checksum_is_found_only_with_verify(read: Read) -> None:
    assert read(JPEG, crc=np.uint32(1), verify=False).status().tolist() == [Status.OK]


@pytest.mark.parametrize(("device", "bands"), [("cpu", False), ("cuda:0", False), ("cuda:0", True)])
def test_the_scan_rejects_what_the_native_engine_rejects(
    pack_images: Callable[..., Path], device: str, bands: bool
) -> None:
    """Of damage at several positions, for crops above and below it, before DALI sees it on any device."""
    whole = _native.mark_restarts(encode(noise(0, 160, 200)))[0] or b""
    damaged = [
        whole[:at] + bytes(32) + whole[at + 32 :] for at in range(len(whole) // 4, len(whole) - 40, 2000)
    ]
    data = [encoded(160, 200, "PNG"), encoded(160, 200, progressive=True), whole, *damaged]
    dataset = open_dataset(pack_images(data))
    samples = dataset.samples(np.arange(len(data)))
    if bands:
        of_jpegs = np.stack([_native.make_bands(one) for one in data[2:]])
        samples = replace(samples, bands=np.pad(of_jpegs, ((2, 0), (0, 0))))
    settings = settings_of(dataset, ImageFormat("uint8", "NHWC"), max_pixels=10**6, device=device)
    plan, rejected = compile_image([RandomCrop(16)], "uint8"), set()
    with closing(open_shards(settings.files, settings.sizes)) as shards:
        scan = DamageScan(shards, settings)
        for epoch in range(8):
            work = Work(samples, plan.draw(samples.height, samples.width, samples.row, 0, epoch))
            payloads = read_payloads(shards, samples, settings, work.params.crop)
            scan.reject_damaged(work, payloads)
            expected = run_once(NativeEngine(settings), work).status
            assert payloads.status().tolist() == expected.tolist()
            rejected.update((epoch, i) for i in np.flatnonzero(expected).tolist())
    assert 0 < len(rejected) < 8 * len(damaged)
    assert min(i for _, i in rejected) > 2


@pytest.mark.parametrize(("verify", "read_again"), [(True, [1]), (False, [0, 1])])
def test_an_intact_jpeg_is_scanned_once_if_a_checksum_guards_it(
    pack_images: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, verify: bool, read_again: list[int]
) -> None:
    crc = np.array((_native.crc32c(JPEG), NO_CHECKSUM), np.uint32)
    dataset = open_dataset(pack_images([JPEG, JPEG], crc=crc))
    samples, settings = dataset.samples([0, 1]), settings_of(dataset, verify=verify)
    work = Work(
        samples, compile_image([RandomCrop(16)]).draw(samples.height, samples.width, samples.row, 0, 0)
    )
    scanned, decode = [], DamageScan._decode
    monkeypatch.setattr(
        DamageScan,
        "_decode",
        lambda scan, of, *rest: scanned.append(of.row.tolist()) or decode(scan, of, *rest),
    )
    with closing(open_shards(settings.files, settings.sizes)) as shards:
        scan = DamageScan(shards, settings)
        for _ in range(2):
            scan.reject_damaged(work, read_payloads(shards, samples, settings))
    assert scanned == [[0, 1], read_again]


def test_capsules_share_the_memory_of_payloads_and_outlive_their_reader(
    pack_images: Callable[..., Path],
) -> None:
    tensors = pytest.importorskip("nvidia.dali.tensors")
    data = [encoded(), encoded(kind="PNG")]
    dataset = open_dataset(pack_images(data))
    shards = open_shards(dataset.data_files, dataset.data_sizes)
    payloads = read_payloads(shards, dataset.samples([0, 1]), settings_of(dataset))
    files_of_dali = payloads.encoded()
    jpeg, pixels = (tensors.TensorCPU(one, "") for one in payloads.memory.capsules(files_of_dali))
    assert np.asarray(jpeg).ctypes.data == payloads.data[0].ctypes.data
    assert np.asarray(pixels).ctypes.data != files_of_dali[1].ctypes.data, "these are not in the file"
    expected = [one.tobytes() for one in files_of_dali]
    assert expected[0] == data[0]
    unused = payloads.memory.capsules([payloads.data[0]])
    shards.close()
    del unused, payloads, files_of_dali
    assert [np.asarray(one).tobytes() for one in (jpeg, pixels)] == expected
