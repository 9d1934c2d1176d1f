"""Conversions with restart markers: the same images, and which images cannot have them."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.datasets import read_files
from helpers.images import decode, encode
from helpers.options import convert, image_writer
from helpers.payloads import restart_interval, segments
from PIL import Image, ImageCms

import stoker
from stoker import _native
from stoker.errors import DatasetError, StaleIndexError
from stoker.formats.codecs.decode import decode_rgb
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Index, write_index
from stoker.formats.dataset.manifest import Manifest

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def picture(height: int, width: int, mode: str = "RGB") -> Image.Image:
    """Return an image with smooth parts and noise."""
    rng = np.random.default_rng(height * 1000 + width)
    y, x = np.indices((height, width))
    waves = 127 + 100 * np.sin(x[..., None] / (3, 5, 9)) * np.cos(y[..., None] / (4, 7, 5))
    noisy = waves + rng.normal(0, 12, (height, width, 3)) * (x[..., None] > width / 2)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).convert(mode)


def planes(data: bytes) -> np.ndarray:
    """Return luma and chroma as they are stored, before they become colours."""
    with Image.open(io.BytesIO(data)) as image:
        image.draft("YCbCr", image.size)
        return np.asarray(image)


def marked(data: bytes) -> bytes:
    payload, reason, detail = _native.mark_restarts(data)
    assert (reason, detail) == ("", "")
    assert payload is not None
    return payload


def convert_one(data: bytes, folder: Path, name: str = "a.jpg", **options: Any) -> tuple[Any, bytes]:
    """Convert a source of one image; return the summary and the stored payload."""
    (folder / "source" / "one").mkdir(parents=True, exist_ok=True)
    (folder / "source" / "one" / name).write_bytes(data)
    summary = convert(folder / "source", folder / "out", **options)
    return summary, stoker.open(folder / "out").read(0)


class TestJpegsWithMarkers:
    @pytest.mark.parametrize("quality", [30, 97])
    @pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
    def test_markers_change_no_pixel(self, subsampling: str, quality: int) -> None:
        for height, width in [(1, 1), (8, 64), (17, 33), (50, 70)]:
            self.check(encode(picture(height, width), quality=quality, subsampling=subsampling))

    @pytest.mark.parametrize("mode", ["L", "CMYK"])
    def test_markers_change_nothing_of_grey_and_cmyk(self, mode: str) -> None:
        assert restart_interval(self.check(encode(picture(30, 50, mode)))) > 0

    def check(self, data: bytes) -> bytes:
        copy = marked(data)
        assert np.array_equal(planes(data), planes(copy))
        assert np.array_equal(decode(data), decode(copy))
        assert marked(copy) == copy
        return copy

    def test_a_progressive_image_becomes_sequential(self) -> None:
        image = picture(50, 70)
        copy = marked(encode(image, progressive=True))
        assert copy == marked(encode(image))
        assert 0xC0 in dict(segments(copy))

    def test_photographs_become_one_to_five_percent_smaller(self, photographs: list[Path]) -> None:
        files = [file.read_bytes() for file in photographs[::20]]
        ratio = sum(len(marked(data)) for data in files) / sum(map(len, files))
        assert 0.95 < ratio < 0.99

    @pytest.mark.parametrize(
        ("mcus", "interval"), [(1, 1), (2, 1), (3, 1), (4, 1), (6, 2), (9, 3), (12, 3), (14, 7), (13, 13)]
    )
    def test_a_row_has_at_most_four_intervals_of_the_same_length(self, mcus: int, interval: int) -> None:
        assert restart_interval(marked(encode(picture(8, 8 * mcus), subsampling="4:4:4"))) == interval
        assert restart_interval(marked(encode(picture(8, 16 * mcus - 3), subsampling="4:2:0"))) == interval
        assert restart_interval(marked(encode(picture(8, 8 * mcus, "L")))) == interval

    def test_segments_of_applications_and_comments_stay_in_their_order(self) -> None:
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        data = encode(picture(9, 30), orientation=6, icc_profile=profile, comment="a comment", dpi=(72, 96))
        adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x01"
        data = data[:2] + adobe + data[2:]

        def kept(data: bytes) -> list[tuple[int, bytes]]:
            return [
                (marker, body) for marker, body in segments(data) if 0xE0 <= marker <= 0xEF or marker == 0xFE
            ]

        assert [marker for marker, _ in kept(data)] == [0xEE, 0xE0, 0xE1, 0xE2, 0xFE]
        assert kept(marked(data)) == kept(data)

    def test_bytes_after_the_image_are_left_out(self) -> None:
        data = encode(picture(9, 30))
        assert marked(data + data) == marked(data)


def with_12_bits(data: bytes) -> bytes:
    offset = data.index(b"\xff\xc0") + 4  # of the sample precision in the frame header
    return data[:offset] + b"\x0c" + data[offset + 1 :]


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3] + b"\xff\xd9"


def without_last_scan(data: bytes) -> bytes:
    return data[: data.rindex(b"\xff\xc4")] + b"\xff\xd9"


def with_late_exif(data: bytes) -> bytes:
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    offset = data.index(b"\xff\xda")
    return data[:offset] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[offset:]


class TestImagesThatCannotHaveMarkers:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda data: data.replace(b"\xff\xc0", b"\xff\xc9"), "arithmetic coding"),
            (with_12_bits, "more than 8 bits"),
            (cut, "damaged, or of a kind that libjpeg-turbo cannot copy"),
            (with_late_exif, "EXIF after the frame header"),
        ],
    )
    def test_a_jpeg_that_cannot_have_markers_stays_as_it_is_and_is_counted(
        self, change: Any, reason: str, tmp_path: Path
    ) -> None:
        data = change(encode(picture(40, 60)))
        summary, payload = convert_one(data, tmp_path, restarts=True)
        assert payload == data
        assert (summary.written, summary.skipped) == (1, {f"restart markers ({reason})": 1})

    def test_a_progressive_image_without_its_last_scan_gets_no_markers(self) -> None:
        data = without_last_scan(encode(picture(40, 60), progressive=True))
        assert _native.mark_restarts(data)[1] == "incomplete progressive image"

    def test_strict_accepts_a_jpeg_that_cannot_have_markers(self, tmp_path: Path) -> None:
        data = cut(encode(picture(40, 60)))
        assert convert_one(data, tmp_path, restarts=True, strict=True)[1] == data

    def test_a_png_stays_as_it_is(self, tmp_path: Path) -> None:
        data = encode(picture(9, 9), "PNG")
        summary, payload = convert_one(data, tmp_path, name="a.png", restarts=True)
        assert (payload, summary.skipped) == (data, {})


class TestOption:
    @pytest.mark.parametrize(
        ("options", "interval"),
        [
            ({"resize": "shorter=64"}, 1),
            ({"resize": "shorter=64", "encoding": "jpeg"}, 1),
            ({"resize": "shorter=64", "restarts": False}, 0),
            ({"encoding": "jpeg", "quality": 50}, 0),
            ({"encoding": "jpeg", "quality": 50, "restarts": True}, 1),
        ],
    )
    def test_resized_jpegs_have_markers_by_default(
        self, options: dict[str, Any], interval: int, tmp_path: Path
    ) -> None:
        _, payload = convert_one(encode(picture(70, 64)), tmp_path, **options)
        assert restart_interval(payload) == interval

    def test_markers_change_no_pixel_of_resized_images(self, tmp_path: Path) -> None:
        data = encode(picture(70, 90))
        stored = [
            convert_one(data, tmp_path / str(restarts), resize="shorter=48", restarts=restarts)[1]
            for restarts in (False, True)
        ]
        without, marked_pixels = (decode_rgb(payload, 1, 0, 0) for payload in stored)
        assert np.array_equal(without, marked_pixels)
        assert restart_interval(stored[1])

    def test_jpegs_are_kept_or_marked_as_the_option_says(self, tmp_path: Path) -> None:
        data = encode(picture(40, 60))
        source, out, plain = tmp_path / "source", tmp_path / "out", tmp_path / "plain"
        assert convert_one(data, tmp_path, restarts=True)[1] == marked(data)
        assert Manifest.load(out).options["restarts"] is True
        assert convert(source, out, restarts=True).already
        with pytest.raises(DatasetError, match="already"):
            convert(source, out)
        convert(source, plain)
        assert stoker.open(plain).read(0) == data
        assert "restarts" not in Manifest.load(plain).options

    def test_any_number_of_threads_gives_the_same_bytes(self, photos: Path, tmp_path: Path) -> None:
        for threads in (1, 3):
            convert(photos, tmp_path / str(threads), num_threads=threads, restarts=True, shards=2)
        assert read_files(tmp_path / "1") == read_files(tmp_path / "3")


class TestBands:
    """The index column of checksums, which loaders and ``stoker.verify`` compare."""

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Dataset:
        for number in range(3):
            stored = encode(picture(300, 400 + number), quality=97)
            folder = tmp_path / "source" / "one"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.jpg").write_bytes(cut(stored) if number == 1 else stored)
        convert(tmp_path / "source", tmp_path / "out", restarts=True)
        return stoker.open(tmp_path / "out")

    def test_bands_in_the_index_are_those_of_the_payloads(self, dataset: Dataset) -> None:
        lists = dataset.lists("jpeg_bands", range(3))
        for position in range(3):
            stored = lists.values[lists.starts[position] : lists.starts[position + 1]]
            assert np.array_equal(stored, _native.make_bands(dataset.read(position)))
        assert lists.counts[1] == 0
        assert lists.counts[0] > 4
        table = dataset.samples([1, 0]).bands
        assert table is not None
        assert table.shape == (2, lists.counts[0])
        assert not table[0].any()

    def test_samples_without_markers_have_no_bands_and_empty_ones_in_a_mixture(
        self, dataset: Dataset, tmp_path: Path
    ) -> None:
        for restarts in (False, None):
            convert_one(encode(picture(9, 9)), tmp_path / str(restarts), restarts=restarts)
            plain = stoker.open(tmp_path / str(restarts) / "out")
            assert "jpeg_bands" not in plain.columns
            assert plain.samples([0]).bands is None
        bands = stoker.mix([(plain, 1), (dataset, 3)]).samples([0, 1, 3]).bands
        assert bands is not None
        assert not bands[0].any()
        assert np.array_equal(bands[1:], dataset.samples([0, 2]).bands)
        assert stoker.mix([(plain, 1), (plain, 1)]).samples([0, 1]).bands is None

    def test_verification_compares_the_bands(self, dataset: Dataset, tmp_path: Path) -> None:
        assert stoker.verify(dataset.path).ok
        path = dataset.path / "index.arrow"
        number = dataset.lists("jpeg_bands", [2]).values[-1].tobytes()
        data = path.read_bytes()
        assert data.count(number) == 1
        path.write_bytes(data.replace(number, bytes(4)))
        manifest = json.loads((dataset.path / "dataset.json").read_text())
        manifest["index"]["digest"] = f"crc32c:{_native.crc32c(path.read_bytes()):08x}"
        (dataset.path / "dataset.json").write_text(json.dumps(manifest))
        (dataset.path / "sha256.json").unlink()
        (problem,) = stoker.verify(dataset.path).problems
        assert (problem.record, problem.message) == (
            2,
            "the checksums of its bands in the index do not match",
        )

    def test_an_index_with_too_many_bands_of_an_image_is_refused(
        self, dataset: Dataset, tmp_path: Path
    ) -> None:
        index = dataset.index
        columns: dict[str, Any] = {name: index.arrow(name) for name in index.schema.names}
        columns["jpeg_bands"] = pa.array([[0] * 131, [], []], pa.large_list(pa.uint32()))
        write_index(tmp_path / "index.arrow", columns)
        with pytest.raises(StaleIndexError, match="131 numbers of bands"):
            Index.open(tmp_path / "index.arrow").samples([0])

    def test_jpegs_of_a_writer_have_bands(self, tmp_path: Path) -> None:
        image = picture(300, 400)
        with image_writer(tmp_path / "out", restarts=True) as writer:
            writer.write(encode(image), label=0)
            writer.write(image, label=0)
        dataset = stoker.open(tmp_path / "out")
        lists = dataset.lists("jpeg_bands", range(2))
        assert np.array_equal(lists.values, _native.make_bands(dataset.read(0)))
        assert (lists.counts > 0).tolist() == [True, False]  # the second is a PNG
