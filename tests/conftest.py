"""Data that several tests share: small images, and datasets made of them."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image

from stoker.formats.codecs.header import read_header
from stoker.formats.containers.image_record import ImageRecord
from stoker.formats.containers.registry import find_container, find_writer
from stoker.formats.dataset.index import Index, concat_indexes, write_index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard
from stoker.formats.files.reading import file_digest

# Examples are the same in every run, and a busy machine fails nobody.
settings.register_profile(
    "stoker", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("stoker")

PHOTOGRAPHS = Path(__file__).parents[1] / "examples" / "photos"
CLASSES = ("cat", "dog", "eel")


def jpeg(seed: int, height: int = 12, width: int = 16) -> bytes:
    """A JPEG of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=80)
    return stream.getvalue()


def wrap(container: str, row: int, size: int) -> tuple[bytes, bytes]:
    """Prefix and suffix of a record, as a conversion would write them."""
    labels = (row % len(CLASSES),)
    record = ImageRecord(f"k{row}", size, "JPEG", height=12, width=16, labels=labels, classes=CLASSES)
    return find_container(container).wrap_image(record)


def build_shard(
    folder: Path, container: str, number: int, of: int, rows: list[int], payloads: Sequence[bytes]
) -> Shard:
    """Write one shard, and its part of the index as ``part-<number>``."""
    name = f"shard-{number:05d}-of-{of:05d}{find_container(container).suffix}"
    with find_writer(container)(folder / name) as writer:
        for row in rows:
            prefix, suffix = wrap(container, row, len(payloads[row]))
            writer.write(b"k%d" % row, prefix, payloads[row], suffix)
        shard = writer.finish()
    constant = {"shard": number, "codec": 1, "height": 12, "width": 16, "orientation": 1}
    columns: dict[str, Any] = {name: np.full(len(rows), value) for name, value in constant.items()}
    columns |= {"offset": shard.offset, "length": shard.length, "crc": shard.crc}
    columns |= {"record": np.arange(len(rows)), "label": np.array(rows, np.int64) % len(CLASSES)}
    write_index(folder / f"part-{number}", {**columns, "key": [f"k{row}" for row in rows]})
    return Shard(name, shard.data_bytes, shard.records, shard.digest)


def publish(folder: Path, container: str, shards: Sequence[Shard]) -> None:
    """Write the manifest that fits the index and these shards."""
    path = folder / INDEX_NAME
    index = Index.open(path)
    manifest = Manifest(
        container=container,
        sample_type="image",
        columns=index.types,
        shards=tuple(shards),
        index=IndexFile(len(index), path.stat().st_size, file_digest(path)),
        classes=CLASSES,
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())


def build(folder: Path, container: str, payloads: Sequence[bytes], shards: int) -> Path:
    """Write a dataset of JPEGs, 12 x 16, whose label is row % 3 and whose key is ``k<row>``."""
    folder.mkdir(parents=True)
    blocks = np.array_split(np.arange(len(payloads)), shards)
    written = [
        build_shard(folder, container, i, shards, rows.tolist(), payloads) for i, rows in enumerate(blocks)
    ]
    parts = [folder / f"part-{i}" for i in range(shards)]
    concat_indexes(parts, folder / INDEX_NAME)
    for part in parts:
        part.unlink()
    publish(folder, container, written)
    return folder


@pytest.fixture
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of conversions: what is synced when is tested in tests/fault."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """``make_dataset(container, payloads, shards=2, name="dataset")``: its folder; six JPEGs by default."""

    def make(
        container: str = "tfrecord",
        payloads: Sequence[bytes] | None = None,
        shards: int = 2,
        name: str = "dataset",
    ) -> Path:
        return build(tmp_path / name, container, payloads or [jpeg(i) for i in range(6)], shards)

    return make


@pytest.fixture
def make_jpeg() -> Callable[..., bytes]:
    """``make_jpeg(seed, height=12, width=16)`` encodes noise."""
    return jpeg


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve pictures of noise in two classes."""
    root = tmp_path / "photos"
    for i in range(12):
        (root / f"class-{i % 2}").mkdir(parents=True, exist_ok=True)
        (root / f"class-{i % 2}" / f"{i}.jpg").write_bytes(jpeg(i))
    return root


@pytest.fixture
def open_files(tmp_path: Path) -> Callable[[], list[Path]]:
    """``open_files()``: what this process has open in the folder of the test, not elsewhere."""
    return lambda: [
        target
        for link in Path("/proc/self/fd").iterdir()
        if (target := link.resolve()).is_relative_to(tmp_path.resolve())
    ]


@pytest.fixture
def republish() -> Callable[[Path, str, Sequence[Shard]], None]:
    """``republish(folder, container, shards)`` writes the manifest that fits the index as it is now."""
    return publish


def pack(folder: Path, payloads: Sequence[bytes], columns: dict[str, Any]) -> Path:
    """Write any payloads as a dataset of one TFRecord shard; see the fixture of the same name."""
    name = "shard-00000-of-00001.tfrecord"
    with find_writer("tfrecord")(folder / name) as writer:
        for row, payload in enumerate(payloads):
            prefix, suffix = wrap("tfrecord", row, len(payload))
            writer.write(b"", prefix, payload, suffix)
        shard = writer.finish()
    n = len(payloads)
    given = {"shard": np.zeros(n), "record": np.arange(n), "orientation": np.ones(n), "label": np.arange(n)}
    given |= {"offset": shard.offset, "length": shard.length, "crc": shard.crc}
    if "codec" not in columns:
        headers = [read_header(payload) for payload in payloads]
        for field in ("codec", "height", "width", "orientation"):
            given[field] = np.array([getattr(header, field) for header in headers])
    write_index(folder / INDEX_NAME, {**given, "key": [f"k{row}" for row in range(n)], **columns})
    publish(folder, "tfrecord", [Shard(name, shard.data_bytes, n, shard.digest)])
    return folder


@pytest.fixture(scope="session")
def pack_images(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``pack_images(payloads, **columns)``: the folder of a dataset of any payloads.

    Keys are ``k<row>``, labels the rows, and the other columns what the payloads' headers say;
    columns given by name replace those, so that an index can be made to lie.
    """
    return lambda payloads, **columns: pack(tmp_path_factory.mktemp("dataset"), payloads, columns)


@pytest.fixture(scope="session")
def photographs() -> list[Path]:
    """The photographs that ship with the project."""
    return sorted(PHOTOGRAPHS.glob("*/*/*.jpg"))


@pytest.fixture(scope="session")
def dataset(pack_images: Callable[..., Path], photographs: list[Path]) -> Path:
    """All photographs as they are, labelled by their folders."""
    names = sorted({file.parent.name for file in photographs})
    labels = np.array([names.index(file.parent.name) for file in photographs])
    return pack_images([file.read_bytes() for file in photographs], label=labels)


@pytest.fixture(scope="session")
def thumbnails(pack_images: Callable[..., Path], photographs: list[Path]) -> Path:
    """A prime number of photographs, 61, at 48 pixels: for tests of order, not of pixels."""
    return pack_images([thumbnail(file) for file in photographs[:61]])


def thumbnail(file: Path) -> bytes:
    """A photograph as a JPEG of at most 48 pixels."""
    stream = io.BytesIO()
    with Image.open(file) as image:
        image.thumbnail((48, 48))
        image.convert("RGB").save(stream, "JPEG", quality=90)
    return stream.getvalue()


def square(i: int) -> np.ndarray[Any, Any]:
    """An image that is smooth but for a rectangle, and not of full contrast: (64, 64, 3) uint8."""
    rng = np.random.default_rng(i)
    small = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    pixels = np.array(small.resize((64, 64), Image.Resampling.BICUBIC))
    pixels[8:20, 30:50] = rng.integers(0, 256, 3)
    return 20 + (pixels * 0.8).astype(np.uint8)


@pytest.fixture(scope="session")
def squares(pack_images: Callable[..., Path]) -> Path:
    """Twelve images of 64 x 64 pixels as PNG, whose pixels every engine knows exactly."""
    payloads = []
    for i in range(12):
        stream = io.BytesIO()
        Image.fromarray(square(i)).save(stream, "PNG")
        payloads.append(stream.getvalue())
    return pack_images(payloads)
