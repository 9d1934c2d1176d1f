"""Sources, targets and datasets on S3, served by this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import jpeg, read_files
from helpers.loaders import image_arguments
from helpers.options import convert_options
from helpers.shards import example, write_samples, write_tfrecord
from PIL import Image

import stoker
from stoker.augment import CenterCrop, Resize
from stoker.errors import DatasetError, StorageError
from stoker.formats.in_place import shards as external_index
from stoker.formats.remote import store as retry
from stoker.formats.remote.stage import stage
from stoker.formats.sources.image_files import read_source_file

s3fs = pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """The file system of a server with the bucket ``data``."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("NO_PROXY", "no_proxy"):  # where both are set, the second counts
            patch.setenv(name, host)
        # A test counts requests, and s3fs repeats one that a busy server has not answered in 15 seconds.
        patch.setattr(s3fs.S3FileSystem, "connect_timeout", 600)
        patch.setattr(s3fs.S3FileSystem, "read_timeout", 600)
        patch.setattr(retry, "_FIRST_PAUSE", 0.001)  # as the fixture short_pauses; no option sets it
        s3fs.S3FileSystem.clear_instance_cache()
        fs = s3fs.S3FileSystem()
        fs.mkdir("data")
        yield fs
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(scope="module")
def photos(s3: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 photographs in three classes, here and at ``s3://data/photos``."""
    folder = tmp_path_factory.mktemp("source") / "photos"
    val = Path(__file__).parents[2] / "examples" / "photos" / "val"
    for file in sorted(val.rglob("*.jpg")):
        target = folder / file.relative_to(val)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
        # S3 states whole seconds: a file of the same second as a dataset may be newer.
        os.utime(target, (0, 0))
    s3.put(str(folder), "data/photos", recursive=True)
    return folder


@pytest.fixture(scope="module")
def local(photos: Path) -> Path:
    stoker.convert(
        photos, photos.parent / "shards", seed=0, resize="shorter=48", storage=stoker.ImageStorage(shards=3)
    )
    return photos.parent / "shards"


@pytest.fixture(scope="module")
def url(s3: Any, local: Path) -> str:
    s3.put(str(local), "data/shards", recursive=True)
    return "s3://data/shards"


def stored(s3: Any, root: str) -> dict[str, bytes]:
    return {name.removeprefix(f"{root}/"): s3.cat_file(name) for name in s3.find(root)}


def load(dataset: Any, **options: Any) -> stoker.ImageLoader:
    transforms = [Resize(32), CenterCrop(32)]
    arguments = {"batch_size": 8, "shuffle": True, "seed": 1, "num_threads": 1, "transforms": transforms}
    return stoker.ImageLoader(dataset, **image_arguments(**{**arguments, **options}))


def check_same(here: Any, there: Any, **cache: Any) -> None:
    with load(here) as local, load(there, **cache) as remote:
        for expected, found in zip(local, remote, strict=True):
            np.testing.assert_array_equal(found.image, expected.image)
            np.testing.assert_array_equal(found.label, expected.label)


def test_a_conversion_from_or_to_s3_writes_the_same_shards(s3: Any, photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"shards": 2, "seed": 5, "val": "25%"}
    here = stoker.convert(photos, tmp_path / "local", **convert_options(options))
    there = stoker.convert(photos, "s3://data/out", **convert_options(options))
    assert stored(s3, "data/out") == read_files(tmp_path / "local")
    assert there.written == here.written == 48
    stoker.convert("s3://data/photos", tmp_path / "from", **convert_options(options))
    for split in ("train", "val"):
        found, expected = (stoker.open(tmp_path / name / split).manifest for name in ("from", "local"))
        assert found.shards == expected.shards
    assert stoker.convert(photos, "s3://data/out", **convert_options(options)).already
    with pytest.raises(DatasetError, match="there is a dataset already"):
        stoker.convert(photos, "s3://data/out", **convert_options({**options, "seed": 6}))


def test_an_image_is_requested_once(s3: Any, photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    image = next(photos.rglob("*.jpg"))
    s3.invalidate_cache()  # as writing to the storage does
    with caplog.at_level(logging.INFO, "werkzeug"):
        data = read_source_file("s3://data/photos", str(image.relative_to(photos)), image.stat().st_size)
    assert data == image.read_bytes()
    assert [record.name for record in caplog.records].count("werkzeug") == 1


def test_staging_copies_every_file_of_a_dataset(url: str, local: Path, tmp_path: Path) -> None:
    stage(url, tmp_path / "staged")
    assert read_files(tmp_path / "staged") == read_files(local)
    check_same(local, tmp_path / "staged")


def test_a_loader_with_a_cache_has_the_batches_of_local_shards(url: str, local: Path, tmp_path: Path) -> None:
    check_same(local, url, cache=tmp_path / "a", cache_size="1MB")
    remote = stoker.open(url, cache=tmp_path / "b")
    check_same(stoker.open(local).select("label == 1"), remote.select("label == 1"))
    assert remote.read(7) == stoker.open(local).read(7)


def test_external_shards_with_a_local_index_are_read(
    s3: Any, tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    (tmp_path / "theirs" / "parts").mkdir(parents=True)
    paths = [tmp_path / "theirs" / name for name in ("a.tfrecord-00000", "parts/b.tfrecord")]
    for number, path in enumerate(paths):
        write_tfrecord(path, [example(make_jpeg(i), number) for i in range(10)])
    external_index.index(paths, tmp_path / "theirs")
    s3.put(str(tmp_path / "theirs"), "data/theirs", recursive=True)
    check_same(tmp_path / "theirs", "s3://data/theirs", cache=tmp_path / "cache")
    stage("s3://data/theirs", tmp_path / "staged")
    assert read_files(tmp_path / "staged") == read_files(tmp_path / "theirs")
    assert stoker.verify(tmp_path / "staged").ok
    urls = ["s3://data/theirs/a.tfrecord-*0", "s3://data/theirs/parts/b.tfrecord"]
    external_index.index(urls, tmp_path / "index")
    check_same(tmp_path / "theirs", tmp_path / "index", cache=tmp_path / "second cache")


@pytest.mark.parametrize("masked", [False, True])
def test_annotations_and_images_are_converted_as_local_ones_are(
    s3: Any, tmp_path: Path, make_jpeg: Callable[..., bytes], masked: bool
) -> None:
    here, there = tmp_path / "set", f"s3://data/annotated-{masked}"
    for i in range(3):
        for kind in ("images", "labels", "masks"):
            (here / kind / "train").mkdir(parents=True, exist_ok=True)
        (here / "images" / "train" / f"{i}.jpg").write_bytes(make_jpeg(i))
        (here / "labels" / "train" / f"{i}.txt").write_text(f"{i} 0.5 0.5 0.25 0.25\n")
        Image.new("L", (16, 12), i).save(here / "masks" / "train" / f"{i}.png")
    s3.put(str(here), there.removeprefix("s3://"), recursive=True)
    shards = []
    for root in (str(here), there):
        options = {"source_format": "pairs", "masks": f"{root}/masks"} if masked else {}
        source = f"{root}/images" if masked else root
        out = tmp_path / f"out-{len(shards)}"
        stoker.convert(source, out, **convert_options({"shards": 1, **options}))
        shards.append(stoker.open(out).manifest.shards)
    assert shards[0] == shards[1]
    assert stoker.open(out).tasks == ({"segmentation"} if masked else {"boxes"})


def test_errors_name_the_url_of_a_missing_dataset_or_bucket(s3: Any, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a dataset") as caught:
        stoker.open("s3://data/nothing", cache=tmp_path)
    assert str(caught.value.path).startswith("s3://data/nothing")
    with pytest.raises(StorageError, match="no such bucket") as unwritten:
        stoker.convert(photos, "s3://nowhere/x")
    assert str(unwritten.value.path).startswith("s3://nowhere/x")
    assert not s3.exists("nowhere")


def test_tar_archives_at_a_url_are_read_in_place_and_converted(s3: Any, tmp_path: Path) -> None:
    samples = [{"__key__": f"k{i}", "jpg": jpeg(i), "cls": i} for i in range(4)]
    for shard in range(2):
        path = write_samples(tmp_path / f"{shard}.tar", samples[2 * shard : 2 * shard + 2])
        s3.put_file(str(path), f"data/tars/{shard}.tar")
    for name in ("{0..1}.tar", "*.tar", ""):
        summary = stoker.convert(f"s3://data/tars/{name}", tmp_path / "out", overwrite=True)
        assert summary.written == 4
    dataset = stoker.open("s3://data/tars/{0..1}.tar", cache=tmp_path / "cache")
    assert [dataset.read(i) for i in range(4)] == [jpeg(i) for i in range(4)]
