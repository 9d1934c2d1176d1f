"""Images that are arrays of NumPy: converted from .npy files, and loaded with the channels that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import convert_images, first_images, npy
from PIL import Image

import stoker
from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Normalize,
    Pad,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from stoker.errors import ConfigError, DecodeError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.npy import decode_npy, read_npy_header
from stoker.formats.remote.store import StoredFile
from stoker.formats.sources.image_files import find_remote_images

HEIGHT, WIDTH, CHANNELS = 20, 28, 6


def arrays(dtype: str) -> list[np.ndarray]:
    """Four images: in both orders of axes in memory, and one in the other byte order."""
    rng = np.random.default_rng(0)
    highest = {"uint8": 255, "uint16": 60_000, "float32": 300}[dtype]
    made = [(rng.random((HEIGHT, WIDTH, CHANNELS)) * highest).astype(dtype) for _ in range(4)]
    made[1] = np.asfortranarray(made[1])
    made[2] = made[2].astype(np.dtype(dtype).newbyteorder(">"))
    return made


def convert(root: Path, images: list[Any], **options: Any) -> Path:
    """The dataset of files ``a/0.npy`` and so on."""
    files = (image if isinstance(image, bytes) else npy(image) for image in images)
    return convert_images(root, {f"{i}.npy": data for i, data in enumerate(files)}, **options)


def batch(dataset: Path, transforms: Any, **options: Any) -> np.ndarray:
    options = {"batch_size": 4, "shuffle": False, "color": "as_stored", **options}
    return first_images(dataset, transforms, **options)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_loaders_return_arrays_as_they_were_converted_or_read_in_place(tmp_path: Path, dtype: str) -> None:
    dataset = convert(tmp_path, arrays(dtype), format="lmdb" if dtype == "uint16" else "tfrecord")
    index = stoker.open(dataset)
    assert stoker.verify(dataset, decode=True).ok
    assert set(index.column("codec")) == {Codec.NPY}
    assert (set(index.column("height")), set(index.column("width"))) == ({HEIGHT}, {WIDTH})
    expected = np.stack(arrays(dtype)).transpose(0, 3, 1, 2)
    for engine in ("native", "reference"):
        found = batch(dataset, [CenterCrop((HEIGHT, WIDTH))], engine=engine)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)
    mirrored = batch(tmp_path / "images", [CenterCrop((HEIGHT, WIDTH)), RandomHorizontalFlip(1)])
    np.testing.assert_array_equal(mirrored, expected[..., ::-1])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_the_native_engine_resizes_arrays_as_the_reference_does(tmp_path: Path, dtype: str) -> None:
    dataset = convert(tmp_path, arrays(dtype))
    mean = tuple(float(channel) for channel in range(CHANNELS))
    if dtype != "float32":
        mean = tuple(value / 10 for value in mean)
    end = Normalize(mean, (0.5, 1.0, 2.0, 3.0, 4.0, 5.0))
    for chain in (
        [RandomResizedCrop((11, 30), interpolation="bicubic"), RandomHorizontalFlip()],
        [Resize(9), Pad(3, fill=255), CenterCrop(18), end],
    ):
        native, reference = (batch(dataset, chain, engine=engine) for engine in ("native", "reference"))
        assert native.shape[1] == CHANNELS
        scale = max(1.0, float(np.abs(reference).max()))
        assert np.abs(native.astype(np.float64) - reference).max() <= scale * (
            0.02 if dtype == "uint8" else 1e-4
        )
    np.testing.assert_allclose(native[0, :2, 0, 0], [2.0, 1 - mean[1]], rtol=1e-5)  # of padding: white is 1


def test_an_array_of_two_axes_has_one_channel_and_bytes_of_three_are_rgb(tmp_path: Path) -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    rgb = np.repeat(grey[..., None], 3, axis=2) + np.array([0, 50, 100], np.uint8)
    first, second = convert(tmp_path / "grey", [grey]), convert(tmp_path / "rgb", [rgb])
    assert batch(first, [CenterCrop((3, 4))], batch_size=1).tolist() == [[grey.tolist()]]
    found = batch(second, [CenterCrop((3, 4))], batch_size=1, color="rgb", layout="NHWC")
    assert found.tolist() == [rgb.tolist()]
    assert stoker.verify(second, decode=True).ok


WRONG = {
    "objects": (npy(np.array([[{}]], object), allow_pickle=True), "pickled objects"),
    "float64": (npy(np.zeros((3, 4))), "float64"),
    "one axis": (npy(np.zeros(4, np.uint8)), r"the shape \(4,\)"),
    "cut off": (npy(np.zeros((30, 40), np.uint8))[:-1], "ends before"),
    "longer": (npy(np.zeros((3, 4), np.uint8)) + b"x", "bytes follow"),
    "header": (npy(np.zeros((3, 4), np.uint8)).replace(b"descr", b"de)cr"), "damaged"),
}


def test_a_conversion_names_wrong_files_and_goes_on(tmp_path: Path) -> None:
    dataset = convert(tmp_path, [*arrays("uint8"), *(data for data, _ in WRONG.values())])
    assert len(stoker.open(dataset)) == 4
    skipped = (dataset / "skipped.jsonl").read_text()
    for i, (_, message) in enumerate(WRONG.values()):
        line = next(line for line in skipped.splitlines() if f"a/{4 + i}.npy" in line)
        assert message.replace("\\", "") in line, line


def test_a_payload_that_is_damaged_later_is_a_bad_sample(tmp_path: Path) -> None:
    dataset = convert(tmp_path, arrays("uint8"))
    shard = next(dataset.glob("*.tfrecord"))
    shard.write_bytes(b"|x1".join(shard.read_bytes().rsplit(b"|u1", 1)))
    with pytest.raises(DecodeError, match="the header of the array is damaged") as raised:
        batch(dataset, [CenterCrop((HEIGHT, WIDTH))], verify=False)
    assert raised.value.key == "a/3.npy"


def test_npy_files_beside_images_are_not_converted(tmp_path: Path) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a" / "0.png")
    np.save(tmp_path / "photos" / "a" / "0.npy", np.zeros((8, 8), np.uint8))
    stoker.convert(tmp_path / "photos", tmp_path / "shards", strict=True)
    assert stoker.open(tmp_path / "shards").keys([0]) == ["a/0.png"]
    assert len(stoker.open(tmp_path / "shards")) == 1
    files = [StoredFile("a/0.npy", 5, 0), StoredFile("a/1.png", 5, 0)]
    found = [find_remote_images("s3://b", some) for some in (files, files[:1])]
    assert [[listed.keys.to_pylist(), len(skipped)] for listed, skipped in found] == [
        [["a/1.png"], 1],
        [["a/0.npy"], 0],
    ]


def test_options_that_need_colours_are_refused_for_arrays(tmp_path: Path) -> None:
    dataset = convert(tmp_path, arrays("float32"))
    with pytest.raises(DecodeError, match="6 channels of float32 has no colours; use color='as_stored'"):
        batch(dataset, [CenterCrop(8)], color="rgb")
    with pytest.raises(ConfigError, match="RGB and grey"):
        batch(dataset, [CenterCrop(8), ColorJitter(0.4)])
    with pytest.raises(ConfigError, match="uint8 output of images that are stored as float32"):
        batch(dataset, [CenterCrop(8)], dtype="uint8")
    with pytest.raises(ConfigError, match="Normalize: mean has 3 numbers, and the images have 6 channels"):
        batch(dataset, [CenterCrop(8), Normalize()])
    with pytest.raises(DecodeError, match="as_stored"):
        stoker.open(dataset)[0]


def test_the_header_of_a_long_file_is_read_from_its_start() -> None:
    header = read_npy_header(npy(np.zeros((200, 300, 5), np.uint16)))
    assert header.shape == (200, 300, 5)
    assert header.end == header.start + 600_000


def test_an_array_at_an_odd_offset_in_a_shard_is_aligned() -> None:
    array = arrays("float32")[0]
    found = decode_npy(memoryview(b"x" + npy(array))[1:], array.size)
    assert found.flags.aligned
    np.testing.assert_array_equal(found, array)
