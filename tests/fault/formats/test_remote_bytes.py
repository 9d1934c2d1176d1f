"""The bytes that sources at URLs cost: what an index, a loader and a conversion fetch from a web server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.images import encode, exif, noise
from helpers.options import convert_options
from helpers.shards import write_samples

import stoker
from stoker.errors import CorruptRecordError, SampleError, StokerError
from stoker.formats.in_place.shards import index
from stoker.formats.remote.stage import stage
from stoker.formats.verify import verify

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

_SAMPLES = 12


def large_image(seed: int, image_format: str = "JPEG", **options: Any) -> bytes:
    """Return an image of about 100 KB."""
    return encode(noise(seed, 320, 400), image_format, **options)


def turned(description: int = 0) -> dict[str, Any]:
    """Return the option of an EXIF orientation, and of a description of some bytes beside it."""
    tags = exif(6)
    tags[0x010E] = "x" * description
    return {"exif": tags}


@pytest.fixture
def served(tmp_path: Path, serve: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server of the folder ``served``, in which a test writes files."""
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "indexes"))
    (tmp_path / "served").mkdir()
    return serve(tmp_path / "served")


def fetched(server: Any, folder: Path) -> float:
    """Return the bytes that a server was asked for since the last call, as a share of its files."""
    size = sum(file.stat().st_size for file in folder.iterdir())
    parts = [stop - start for _, start, stop in server.requests]
    server.requests.clear()
    return sum(part for part in parts if part < size / 2) / size  # without requests for a size


def write_archives(folder: Path, images: Sequence[bytes], suffix: str = "jpg") -> None:
    for shard in range(2):
        numbers = range(shard, len(images), 2)
        samples = [{"__key__": f"k{i:02d}", suffix: images[i], "cls": i % 3, "txt": "noise"} for i in numbers]
        write_samples(folder / f"{shard}.tar", samples)


def test_an_index_of_remote_archives_does_not_download_the_images(served: Any, tmp_path: Path) -> None:
    images = [large_image(i, quality=95) for i in range(_SAMPLES)]
    write_archives(tmp_path / "served", images)
    manifest = index([f"{served.url}/{{0..1}}.tar"], tmp_path / "there", names={"label": "cls"})
    assert fetched(served, tmp_path / "served") < 0.3
    assert [shard.digest for shard in manifest.shards] == [None, None]
    dataset = stoker.open(tmp_path / "there", cache=tmp_path / "blocks")
    assert fetched(served, tmp_path / "served") == 0
    assert [dataset.read(i) for i in range(_SAMPLES)] == images[::2] + images[1::2]
    assert 0.9 < fetched(served, tmp_path / "served") <= 1
    index([f"{tmp_path}/served/{{0..1}}.tar"], tmp_path / "here", names={"label": "cls"})
    here = stoker.open(tmp_path / "here")
    for name in ("key", "offset", "length", "height", "width", "orientation", "label", "caption"):
        assert dataset.index.arrow(name).equals(here.index.arrow(name)), name


def test_checksums_of_remote_archives_are_computed_on_request(served: Any, tmp_path: Path) -> None:
    write_archives(tmp_path / "served", [large_image(i) for i in range(4)])
    manifest = index([f"{served.url}/{{0..1}}.tar"], tmp_path / "there", checksums=True)
    assert None not in [shard.digest for shard in manifest.shards]
    assert (stoker.open(tmp_path / "there", cache=tmp_path / "blocks").column("crc") != 0).all()


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        ("jpg", turned(60_000)),
        ("png", {}),
        ("png", turned()),
        ("webp", {"quality": 90}),
        ("webp", {"lossless": True}),
        ("webp", turned()),
    ],
)
def test_sizes_from_a_few_bytes_are_those_of_whole_images(
    suffix: str, options: dict[str, Any], served: Any, tmp_path: Path
) -> None:
    image = large_image(1, {"jpg": "JPEG"}.get(suffix, suffix), **options)
    if suffix == "png" and options:  # exiftool writes EXIF behind the pixels
        start = image.index(b"eXIf") - 4
        end = start + 12 + int.from_bytes(image[start : start + 4], "big")
        image = image[:start] + image[end:-12] + image[start:end] + image[-12:]
    write_archives(tmp_path / "served", [image] * 2, suffix)
    index([f"{served.url}/{{0..1}}.tar"], tmp_path / "there")
    dataset = stoker.open(tmp_path / "there", cache=tmp_path / "blocks")
    shape = (dataset.column("height")[0], dataset.column("width")[0], dataset.column("orientation")[0])
    assert shape == ((400, 320, 6) if "exif" in options else (320, 400, 1))
    assert dataset[0].image.shape == (*shape[:2], 3)


def test_a_damaged_image_of_an_index_without_checksums_is_a_bad_sample(served: Any, tmp_path: Path) -> None:
    images = [large_image(i) for i in range(4)]
    images[1] = images[1][:3000] + bytes(range(100)) + b"\xff\xd9"
    write_archives(tmp_path / "served", images)
    index([f"{served.url}/{{0..1}}.tar"], tmp_path / "there")
    dataset = stoker.open(tmp_path / "there", cache=tmp_path / "blocks")
    bad = dataset.keys(range(4)).index("k01")
    with pytest.raises(SampleError, match="k01"):
        dataset[bad]
    stage(tmp_path / "there", tmp_path / "staged")
    assert verify(tmp_path / "staged").problems == ()
    assert [problem.key for problem in verify(tmp_path / "staged", decode=True).problems] == ["k01"]


def test_a_remote_archive_that_is_cut_short_is_an_error(served: Any, tmp_path: Path) -> None:
    write_archives(tmp_path / "served", [large_image(i) for i in range(4)])
    file = tmp_path / "served" / "1.tar"
    file.write_bytes(file.read_bytes()[:-60_000])
    with pytest.raises(CorruptRecordError, match="k03") as caught:
        index([f"{served.url}/{{0..1}}.tar"], tmp_path / "there")
    assert caught.value.path == f"{served.url}/1.tar"
    assert not (tmp_path / "there" / "dataset.json").exists()


@pytest.mark.parametrize("seed", [None, 0])
def test_a_conversion_fetches_tables_and_archives_about_once(
    seed: int | None, served: Any, tmp_path: Path
) -> None:
    images = [large_image(i) for i in range(_SAMPLES)]
    write_archives(tmp_path / "served", images)
    stoker.convert(f"{served.url}/{{0..1}}.tar", tmp_path / "tar", seed=seed, num_threads=4)
    assert fetched(served, tmp_path / "served") < 1.4
    for shard in range(2):
        (tmp_path / "served" / f"{shard}.tar").unlink()
        table = pa.table({"image": images, "label": list(range(_SAMPLES))})
        pq.write_table(table, tmp_path / "served" / f"{shard}.parquet", row_group_size=1)
    options = {"num_threads": 1, "shard_records": 4, "seed": seed}
    stoker.convert(f"{served.url}/{{0..1}}.parquet", tmp_path / "table", **convert_options(options))
    assert fetched(served, tmp_path / "served") < 1.5


def test_errors_of_remote_tables_name_the_url_and_what_to_do(served: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [large_image(0)], "label": [0]}), tmp_path / "served" / "a.parquet")
    served.faults = ("drop", "refuse")  # a retry of each request follows, as for shards
    assert stoker.convert(f"{served.url}/a.parquet", tmp_path / "out").written == 1
    served.ranges, served.faults = False, ()
    with pytest.raises(StokerError, match=r"range requests.*a\.parquet"):
        stoker.convert(f"{served.url}/a.parquet", tmp_path / "again")
