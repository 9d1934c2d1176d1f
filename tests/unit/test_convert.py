"""Converting: what arrives in the dataset, what is skipped, what is refused."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

import stoker
from stoker.errors import ConfigError, DatasetError, DecodeError, SourceError
from stoker.formats.example import parse_example
from stoker.formats.folder import list_folder
from stoker.formats.options import ConvertOptions
from stoker.formats.plan import plan_conversion
from stoker.formats.samples import Codec
from stoker.formats.shards import write_shard

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def picture(seed: int, height: int = 24, width: int = 32) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, kind: str = "JPEG", orientation: int = 1) -> bytes:
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(stream, kind, **({"exif": exif} if orientation != 1 else {}))
    return stream.getvalue()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three classes of ten pictures."""
    root = tmp_path / "photos"
    for label, name in enumerate(("cat", "dog", "eel")):
        (root / name).mkdir(parents=True)
        for i in range(10):
            (root / name / f"{i}.jpg").write_bytes(encode(picture(10 * label + i)))
    return root


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by path."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_the_bytes_are_kept(photos: Path, tmp_path: Path, container: Any) -> None:
    summary = stoker.convert(photos, tmp_path / "out", format=container, seed=5, shards=4)
    dataset = stoker.open(tmp_path / "out")
    assert (summary.written, summary.shards, summary.skipped, len(dataset)) == (30, 4, {}, 30)
    assert summary.bytes == sum(dataset.data_sizes)
    assert dataset.classes == ("cat", "dog", "eel")
    keys = dataset.keys(range(30))
    assert keys != sorted(keys)
    assert sorted(keys) == list_folder(photos).keys.to_pylist()
    for position, key in enumerate(keys):
        assert dataset.read(position) == (photos / key).read_bytes()
        assert dataset.classes[dataset.labels[position]] == key.split("/")[0]
    samples = dataset.samples(range(30))
    assert set(zip(samples.height.tolist(), samples.width.tolist(), strict=True)) == {(24, 32)}
    assert stoker.verify(tmp_path / "out", decode=True).ok
    assert names(tmp_path) == ["out", "photos"]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_an_image_that_is_cut_off_is_skipped_where_bytes_are_kept(tmp_path: Path, kind: str) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    whole = encode(picture(1), kind)
    (tmp_path / "photos" / "a" / "whole").write_bytes(whole)
    (tmp_path / "photos" / "a" / "cut").write_bytes(whole[: len(whole) * 3 // 4])
    summary = stoker.convert(tmp_path / "photos", tmp_path / "out")
    assert (summary.written, summary.skipped) == (1, {"broken image": 1})


def test_a_png_with_a_damaged_chunk_is_skipped(tmp_path: Path) -> None:
    """Pillow refuses such a chunk of any kind, also of those that say nothing of the pixels."""
    (tmp_path / "photos" / "a").mkdir(parents=True)
    whole = encode(picture(1), "PNG")
    damaged = bytearray(whole)
    damaged[damaged.index(b"IDAT") + 10] ^= 1
    remark = whole[:33] + b"\0\0\0\1tEXtx----" + whole[33:]
    for name, data in {"whole": whole, "damaged": damaged, "remark": remark}.items():
        (tmp_path / "photos" / "a" / name).write_bytes(data)
    stoker.convert(tmp_path / "photos", tmp_path / "out")
    assert stoker.open(tmp_path / "out").keys([0]) == ["a/whole"]
    said = (tmp_path / "out" / "skipped.jsonl").read_text()
    assert "IDAT does not match" in said
    assert "tEXt does not match" in said
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(remark))


@pytest.mark.parametrize(
    ("resize", "encoding", "megabytes"),
    [
        (None, "keep", 0.5),
        (None, "raw", 5),
        (None, "png", 2),
        ("shorter=100", "raw", 0.5),
        ("longer=100", "keep", 0.03),
    ],
)
def test_shards_are_about_as_large_as_asked_for(
    tmp_path: Path, photographs: list[Path], resize: str | None, encoding: Any, megabytes: float
) -> None:
    for number, file in enumerate(photographs[::5]):
        target = tmp_path / "photos" / "some" / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    size = int(megabytes * 1e6)
    stoker.convert(tmp_path / "photos", tmp_path / "out", resize=resize, encoding=encoding, shard_size=size)
    sizes = stoker.open(tmp_path / "out").data_sizes
    assert len(sizes) > 1
    assert size / 3 < np.mean(sizes) < 1.5 * size


def test_without_a_seed_the_order_is_sorted(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out")
    keys = stoker.open(tmp_path / "out").keys(range(30))
    assert keys == sorted(keys)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_the_same_command_gives_the_same_bytes(photos: Path, tmp_path: Path, container: Any) -> None:
    options: dict[str, Any] = {
        "format": container,
        "seed": 1,
        "shards": 3,
        "val": "20%",
        "resize": "shorter=16",
    }
    copy = tmp_path / "elsewhere/photos"
    shutil.copytree(photos, copy, copy_function=shutil.copyfile)  # with other times
    stoker.convert(photos, tmp_path / "one", num_workers=1, **options)
    stoker.convert(copy, tmp_path / "two", num_workers=5, **options)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_nothing_but_the_dataset_is_left(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out", shards=1)
    assert sorted(files(tmp_path / "out")) == [
        "dataset.json",
        "index.arrow",
        "shard-00000-of-00001.idx",
        "shard-00000-of-00001.tfrecord",
        "skipped.jsonl",
    ]


def test_examples_say_what_the_index_says(photos: Path, tmp_path: Path) -> None:
    (photos / "eel/0.jpg").write_bytes(encode(picture(3), orientation=6))
    stoker.convert(photos, tmp_path / "out", shards=1)
    dataset = stoker.open(tmp_path / "out")
    data = dataset.data_files[0].read_bytes()
    position = dataset.keys(range(30)).index("eel/0.jpg")
    sample = dataset.samples([position])
    assert (sample.height[0], sample.width[0], sample.orientation[0]) == (32, 24, 6)
    lines = dataset.data_files[0].with_suffix(".idx").read_text().splitlines()
    start, size = map(int, lines[position].split())
    record = data[start + 12 : start + size - 4]
    features: Any = parse_example(record)

    def text(name: str) -> bytes:
        (span,) = features[name]
        return record[span.offset : span.offset + span.length]

    assert text("image/encoded") == (photos / "eel/0.jpg").read_bytes()
    assert (text("image/class/text"), text("image/filename")) == (b"eel", b"eel/0.jpg")
    assert text("image/format") == b"JPEG"
    assert features["image/class/label"] == [2]
    assert (features["image/height"], features["image/width"]) == ([32], [24])
    assert features["image/orientation"] == [6]


class TestTouchingPixels:
    @pytest.mark.parametrize(
        ("resize", "size"),
        [
            ("shorter=12", (12, 16)),
            ("longer=16", (12, 16)),
            ("squash=10x11", (10, 11)),
            ("crop=12x12", (12, 12)),
            ("fill=20x20", (20, 20)),
        ],
    )
    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP"])
    def test_every_mode_gives_its_size(
        self, photos: Path, tmp_path: Path, resize: str, size: tuple[int, int], kind: str
    ) -> None:
        for file in photos.glob("*/*.jpg"):
            file.write_bytes(encode(picture(1), kind))
        stoker.convert(photos, tmp_path / "out", resize=resize)
        samples = stoker.open(tmp_path / "out").samples(range(30))
        assert set(zip(samples.height.tolist(), samples.width.tolist(), strict=True)) == {size}
        assert set(samples.codec.tolist()) == {Codec.JPEG if kind == "JPEG" else Codec.PNG}
        assert stoker.verify(tmp_path / "out", decode=True).ok

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
    def test_orientation_is_applied(self, photos: Path, tmp_path: Path, kind: str) -> None:
        (photos / "cat/0.jpg").write_bytes(encode(picture(4), kind, orientation=6))
        stoker.convert(photos, tmp_path / "out", encoding="raw")
        dataset = stoker.open(tmp_path / "out")
        sample = dataset.samples([0])
        assert (sample.height[0], sample.width[0], sample.orientation[0]) == (32, 24, 1)
        pixels = np.frombuffer(dataset.read(0), np.uint8).reshape(32, 24, 3).astype(int)
        expected = np.array(picture(4).transpose(Image.Transpose.ROTATE_270)).astype(int)
        assert np.abs(pixels - expected).mean() < 8

    def test_raw_pixels(self, photos: Path, tmp_path: Path) -> None:
        stoker.convert(photos, tmp_path / "out", resize="squash=18x24", encoding="raw")
        dataset = stoker.open(tmp_path / "out")
        found = np.frombuffer(dataset.read(7), np.uint8).reshape(18, 24, 3).astype(int)
        expected = np.array(Image.open(photos / "cat/7.jpg").resize((24, 18), Image.Resampling.BILINEAR))
        assert np.abs(found - expected.astype(int)).max() <= 6

    def test_a_jpeg_of_higher_quality_is_larger(self, photos: Path, tmp_path: Path) -> None:
        sizes = [
            stoker.convert(photos, tmp_path / str(quality), resize="shorter=20", quality=quality).bytes
            for quality in (20, 90)
        ]
        assert sizes[0] < sizes[1]

    def test_files_that_have_the_encoding_already_are_kept(self, photos: Path, tmp_path: Path) -> None:
        (photos / "cat/0.png").write_bytes(encode(picture(0), "PNG"))
        stoker.convert(photos, tmp_path / "out", encoding="jpeg")
        dataset = stoker.open(tmp_path / "out")
        assert dataset.keys([0, 1]) == ["cat/0.jpg", "cat/0.png"]
        assert dataset.read(0) == (photos / "cat/0.jpg").read_bytes()
        assert dataset.read(1).startswith(b"\xff\xd8\xff")


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "not an image"),
    "text": (lambda data: b"no image", "not an image"),
    "cut in the header": (lambda data: data[:30], "broken image"),
    "cut in the pixels": (lambda data: data[:-20], "broken image"),
    "no end marker": (lambda data: data[:-2], "broken image"),
    "zeros": (lambda data: bytes(500), "not an image"),
    "PNG cut off": (lambda data: encode(picture(1), "PNG")[:-12], "broken image"),
    "PNG of 8 bytes": (lambda data: b"\x89PNG\r\n\x1a\n", "broken image"),
    "WebP cut off": (lambda data: encode(picture(1), "WEBP")[:-9], "broken image"),
    "too large": (lambda data: encode(Image.new("L", (2000, 2000)), "PNG"), "too many pixels"),
    "a bomb": (
        lambda data: encode(picture(1), "PNG")[:16] + b"\0\1\0\0\0\1\0\0" + encode(picture(1), "PNG")[24:],
        "too many pixels",
    ),
}


class TestSkipping:
    @pytest.mark.parametrize("what", BROKEN)
    @pytest.mark.parametrize("name", ["0.jpg", "5.jpg", "9.jpg"])
    def test_what_is_broken_is_skipped_and_counted(
        self, photos: Path, tmp_path: Path, what: str, name: str
    ) -> None:
        spoil, reason = BROKEN[what]
        path = photos / "dog" / name
        path.write_bytes(spoil(path.read_bytes()))
        summary = stoker.convert(photos, tmp_path / "out", max_pixels=1_000_000)
        dataset = stoker.open(tmp_path / "out")
        assert (summary.written, summary.skipped) == (29, {reason: 1})
        assert dict(dataset.manifest.skipped) == {reason: 1}
        (line,) = (tmp_path / "out/skipped.jsonl").read_text().splitlines()
        assert json.loads(line)["key"] == f"dog/{name}"
        assert json.loads(line)["reason"] == reason
        assert f"dog/{name}" not in dataset.keys(range(29))
        assert stoker.verify(tmp_path / "out", decode=True).ok

    def test_broken_pixels_are_found_where_they_are_decoded(self, photos: Path, tmp_path: Path) -> None:
        path = photos / "dog/3.jpg"
        path.write_bytes(encode(picture(1), "PNG")[:60] + bytes(80) + b"IEND")
        assert stoker.convert(photos, tmp_path / "out", resize="shorter=8").skipped == {"broken image": 1}

    def test_what_a_camera_appends_does_not_matter(self, photos: Path, tmp_path: Path) -> None:
        path = photos / "dog/3.jpg"
        path.write_bytes(path.read_bytes() + b"appended" * 9000)
        assert stoker.convert(photos, tmp_path / "out").written == 30

    def test_a_thumbnail_does_not_hide_that_the_image_is_cut_off(self, photos: Path, tmp_path: Path) -> None:
        path = photos / "dog/3.jpg"
        data, thumbnail = path.read_bytes(), encode(picture(1, 6, 8))
        segment = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
        path.write_bytes(data[:2] + segment + data[2:])
        assert stoker.convert(photos, tmp_path / "whole").written == 30
        path.write_bytes(data[:2] + segment + data[2:-2])
        assert stoker.convert(photos, tmp_path / "cut").skipped == {"broken image": 1}

    def test_skips_are_sorted_and_the_bytes_repeat(self, photos: Path, tmp_path: Path) -> None:
        for i in range(10):
            (photos / f"eel/{i}.txt").write_text("x")
            (photos / f"cat/{i}.jpg").write_text("x")
        (photos / "cat/ok.jpg").write_bytes(encode(picture(1)))
        for out in ("one", "two"):
            stoker.convert(photos, tmp_path / out, seed=1, shards=5)
        assert files(tmp_path / "one") == files(tmp_path / "two")
        keys = [json.loads(line)["key"] for line in (tmp_path / "one/skipped.jsonl").read_text().splitlines()]
        assert keys == sorted(keys)
        assert len(keys) == 20

    def test_a_shard_that_loses_all_samples_is_left_out(self, photos: Path, tmp_path: Path) -> None:
        for i in range(10):
            (photos / f"cat/{i}.jpg").write_bytes((photos / f"cat/{i}.jpg").read_bytes()[:-2])
        summary = stoker.convert(photos, tmp_path / "out", shards=3)
        dataset = stoker.open(tmp_path / "out")
        assert (summary.written, summary.shards) == (20, 2)
        assert [shard.name for shard in dataset.manifest.shards] == [
            "shard-00000-of-00002.tfrecord",
            "shard-00001-of-00002.tfrecord",
        ]
        assert stoker.verify(tmp_path / "out", decode=True).ok

    def test_strict_stops_and_names_the_file(self, photos: Path, tmp_path: Path) -> None:
        (photos / "dog/3.jpg").write_bytes((photos / "dog/3.jpg").read_bytes()[:-2])
        with pytest.raises(DecodeError, match="strict") as caught:
            stoker.convert(photos, tmp_path / "out", strict=True)
        assert caught.value.key == "dog/3.jpg"
        assert files(tmp_path / "out") == {}

    def test_strict_stops_at_what_is_no_image_at_all(self, photos: Path, tmp_path: Path) -> None:
        (photos / "dog/notes.txt").write_text("x")
        with pytest.raises(SourceError, match=r"notes\.txt"):
            stoker.convert(photos, tmp_path / "out", strict=True)

    def test_nothing_left_is_an_error(self, photos: Path, tmp_path: Path) -> None:
        for file in photos.glob("*/*.jpg"):
            file.write_bytes(file.read_bytes()[:-2])
        with pytest.raises(SourceError, match="broken image"):
            stoker.convert(photos, tmp_path / "out")
        assert files(tmp_path / "out") == {}


class TestSplits:
    def test_each_is_a_dataset(self, photos: Path, tmp_path: Path) -> None:
        summary = stoker.convert(photos, tmp_path / "out", val="20%", test=0.1, seed=2)
        assert {split: path.name for split, path in summary.datasets.items()} == {
            name: name for name in ("train", "val", "test")
        }
        keys: list[str] = []
        for split, number in (("train", 21), ("val", 6), ("test", 3)):
            dataset = stoker.open(tmp_path / "out" / split)
            assert np.bincount(dataset.labels).tolist() == [number // 3] * 3
            keys += dataset.keys(range(len(dataset)))
        assert sorted(keys) == list_folder(photos).keys.to_pylist()
        assert names(tmp_path / "out") == ["test", "train", "val"]

    def test_skips_are_counted_once(self, photos: Path, tmp_path: Path) -> None:
        (photos / "dog/notes.txt").write_text("x")
        stoker.convert(photos, tmp_path / "out", val="20%")
        skipped = {
            split: dict(stoker.open(tmp_path / "out" / split).manifest.skipped) for split in ("train", "val")
        }
        assert skipped == {"train": {"not an image": 1}, "val": {}}

    def test_a_split_that_loses_all_samples_is_an_empty_dataset(self, photos: Path, tmp_path: Path) -> None:
        stoker.convert(photos, tmp_path / "first", val="10%")
        for key in stoker.open(tmp_path / "first/val").keys(range(3)):
            (photos / key).write_bytes((photos / key).read_bytes()[:-2])
        stoker.convert(photos, tmp_path / "out", val="10%")
        assert len(stoker.open(tmp_path / "out/val")) == 0
        assert len(stoker.open(tmp_path / "out/train")) == 27


class TestLists:
    def test_labels_and_columns_arrive(self, photos: Path, tmp_path: Path) -> None:
        lines = [f"photos/cat/{i}.jpg,{'ab'[i % 2]},{i * 1.5},note {i}" for i in range(10)]
        (tmp_path / "list.csv").write_text("path,label,score,note\n" + "\n".join(lines))
        stoker.convert(tmp_path / "list.csv", tmp_path / "out", seed=3)
        dataset = stoker.open(tmp_path / "out")
        for position, key in enumerate(dataset.keys(range(10))):
            i = int(key.split("/")[-1].split(".")[0])
            assert dataset.labels[position] == i % 2
            assert dataset.column("score")[position] == i * 1.5
            assert dataset.index.arrow("note")[position].as_py() == f"note {i}"

    def test_several_labels_arrive(self, photos: Path, tmp_path: Path) -> None:
        entries = [{"path": f"photos/cat/{i}.jpg", "label": list(range(i))} for i in range(4)]
        (tmp_path / "list.json").write_text(json.dumps(entries))
        stoker.convert(tmp_path / "list.json", tmp_path / "out")
        dataset = stoker.open(tmp_path / "out")
        assert dataset.index.arrow("label").to_pylist() == [[], [0], [0, 1], [0, 1, 2]]
        assert stoker.verify(tmp_path / "out").ok

    def test_strict_names_the_file_where_the_list_says_it_is(self, photos: Path, tmp_path: Path) -> None:
        broken = photos / "cat" / "1.jpg"
        broken.write_bytes(broken.read_bytes()[:100])
        for path in (broken, broken.relative_to(tmp_path)):
            (tmp_path / "list.csv").write_text(f"path,label\n{path},a\n")
            with pytest.raises(DecodeError) as caught:
                stoker.convert(tmp_path / "list.csv", tmp_path / "out", strict=True)
            assert caught.value.path == str(broken)


class TestRefusals:
    def test_a_dataset_is_not_replaced_unasked(self, photos: Path, tmp_path: Path) -> None:
        stoker.convert(photos, tmp_path / "out", shards=3)
        before = files(tmp_path / "out")
        with pytest.raises(DatasetError, match="overwrite"):
            stoker.convert(photos, tmp_path / "out", shards=2)
        assert files(tmp_path / "out") == before

    @pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
    def test_overwrite_replaces_it_and_nothing_else(
        self, photos: Path, tmp_path: Path, container: Any
    ) -> None:
        stoker.convert(photos, tmp_path / "out", shards=5, format=container)
        (tmp_path / "out/notes.txt").write_text("mine")
        stoker.convert(photos, tmp_path / "out", shards=2, overwrite=True)
        stoker.convert(photos, tmp_path / "fresh", shards=2)
        assert files(tmp_path / "out") == {**files(tmp_path / "fresh"), "notes.txt": b"mine"}

    @pytest.mark.parametrize("kind", [None, "coco", "voc", "yolo", "list", "folder"])
    def test_a_source_that_is_not_there(self, tmp_path: Path, kind: Any) -> None:
        with pytest.raises(SourceError, match="cannot be read: No such file") as caught:
            stoker.convert(tmp_path / "nowhere", tmp_path / "out", source_format=kind)
        assert caught.value.path == str(tmp_path / "nowhere")

    @pytest.mark.parametrize("target", ["photos", "photos/out", "photos/cat/../out", "link/out"])
    def test_the_target_may_not_lie_in_the_source(self, photos: Path, tmp_path: Path, target: str) -> None:
        (tmp_path / "link").symlink_to(photos)
        with pytest.raises(ConfigError, match="lies in the source"):
            stoker.convert(photos, tmp_path / target)

    def test_nor_may_a_split(self, photos: Path, tmp_path: Path) -> None:
        photos.rename(tmp_path / "train")
        with pytest.raises(ConfigError, match="lies in the source"):
            stoker.convert(tmp_path / "train", tmp_path, val="10%")

    @pytest.mark.parametrize(
        "options",
        [
            {"num_workers": 0},
            {"shard_size": "1MB", "shards": 2},
            {"val": 1.5},
            {"resize": "big"},
            {"shards": 0},
        ],
        ids=str,
    )
    def test_options_that_cannot_be_meant(
        self, photos: Path, tmp_path: Path, options: dict[str, Any]
    ) -> None:
        with pytest.raises(ConfigError):
            stoker.convert(photos, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()

    def test_class_depth_is_for_folders(self, photos: Path, tmp_path: Path) -> None:
        (tmp_path / "list.csv").write_text("path,label\nphotos/cat/1.jpg,a\n")
        with pytest.raises(ConfigError, match="class_depth"):
            stoker.convert(tmp_path / "list.csv", tmp_path / "out", class_depth=1)


def test_a_shard_alone_can_be_made_anywhere_and_again(photos: Path, tmp_path: Path) -> None:
    plan = plan_conversion(list_folder(photos), ConvertOptions(shards=4, seed=1))
    stoker.convert(photos, tmp_path / "out", shards=4, seed=1)
    for attempt in ("a", "b"):
        (tmp_path / attempt).mkdir()
        for number in (2, 0, 2):
            result = write_shard(plan, number, tmp_path / attempt)
        assert result == write_shard(plan, 2, tmp_path / attempt)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a")["00002.tfrecord"] == files(tmp_path / "out")["shard-00002-of-00004.tfrecord"]


def test_progress_ends_at_all_samples(photos: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int, str]] = []
    summary = stoker.convert(photos, tmp_path / "out", progress=lambda *state: seen.append(state))
    assert seen[0][3] == "listing"
    total = sum(file.stat().st_size for file in photos.glob("*/*.jpg"))
    assert seen[-1] == (30, 30, total, "publishing")
    assert summary.images_per_second > 0
