"""``stoker.duplicates``: copies of photographs are found, and other photographs are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.pictures import encode
from PIL import Image

import stoker
from stoker.errors import ConfigError
from stoker.pipeline.duplicates.perceptual_hash import perceptual_hashes
from stoker.pipeline.duplicates.sheet import render_sheet

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def changed(file: Path, factor: float, quality: int, kind: str = "JPEG") -> bytes:
    """The photograph at another size and quality."""
    image = Image.open(file)
    size = (round(image.width * factor), round(image.height * factor))
    return encode(image.resize(size, Image.Resampling.LANCZOS), kind, quality=quality)


def convert_images(folder: Path, images: dict[str, Any]) -> Path:
    stoker.convert(({"image": image, "key": key} for key, image in images.items()), folder)
    return folder


def test_copies_of_photographs_are_found_and_no_others(photographs: list[Path], tmp_path: Path) -> None:
    chosen = photographs[::12]
    images: dict[str, Any] = {f"{number} first": file for number, file in enumerate(chosen)}
    for number, file in enumerate(chosen):
        images[f"{number} half"] = changed(file, 0.5, 90)
        images[f"{number} coarse"] = changed(file, 1, 50)
    result = stoker.duplicates(convert_images(tmp_path / "photos", images))
    names = [{image.key.split()[0] for image in group} for group in result.groups]
    assert all(len(group) == 1 for group in names), "precision is 1"
    assert len(result.surplus) >= 0.95 * 2 * len(chosen), "recall"
    assert {group[0].key.split()[1] for group in result.groups} == {"first"}
    assert not any(image.exact for image in result.surplus)


@pytest.fixture
def train_and_val(photographs: list[Path], tmp_path: Path) -> tuple[Path, Path]:
    """Two datasets that share a photograph: as it is, as PNG, and at half its size."""
    shared, unique = photographs[0], photographs[40]
    pixels = changed(shared, 1, 0, "PNG")
    train = convert_images(tmp_path / "train", {"a": shared, "b": unique})
    return train, convert_images(tmp_path / "val", {"d": shared, "e": pixels, "f": changed(shared, 0.5, 95)})


def test_the_images_of_the_first_or_the_kept_dataset_stay(train_and_val: tuple[Path, Path]) -> None:
    train, val = train_and_val
    seen: list[tuple[int, int]] = []
    result = stoker.duplicates([train, val], progress=lambda done, total: seen.append((done, total)))
    (group,) = result.groups
    facts = [(image.dataset, image.key, image.exact) for image in group]
    assert facts == [(0, "a", True), (1, "d", True), (1, "e", True), (1, "f", False)]
    assert (result.images, result.across) == (5, 1)
    assert seen[-1] == (5, 5)
    assert render_sheet(result).count("<img") == 4
    keeping_val = stoker.duplicates([train, val], keep=val)
    assert [image.key for image in keeping_val.groups[0]] == ["d", "e", "f", "a"]


def test_exclude_takes_the_written_keys(photographs: list[Path], tmp_path: Path) -> None:
    folder = convert_images(
        tmp_path / "photos", {"a": photographs[0], "b": photographs[0], "c": photographs[9]}
    )
    stoker.duplicates(str(folder)).write(tmp_path / "keys.txt")
    stoker.remove(folder, keys=tmp_path / "keys.txt")
    assert stoker.open(folder).keys([0, 1]) == ["a", "c"]
    assert stoker.duplicates(folder).groups == ()


def test_versions_and_folders_of_images_are_compared(photographs: list[Path], tmp_path: Path) -> None:
    folder = convert_images(tmp_path / "photos", {"a": photographs[0], "b": photographs[9]})
    stoker.remove(folder, keys=["a"])
    plain = tmp_path / "plain" / "class"
    plain.mkdir(parents=True)
    (plain / "copy.jpg").write_bytes(photographs[0].read_bytes())
    (group,) = stoker.duplicates([f"{folder}@1", plain.parent], keep=folder).groups
    assert [image.key for image in group] == ["a", "class/copy.jpg"]
    result = stoker.duplicates([f"{folder}@1", plain.parent])
    assert (result.paths, render_sheet(result).count("<img")) == ((folder, plain.parent), 2)
    assert stoker.duplicates([folder, plain.parent]).groups == ()


def test_near_images_of_one_length_in_a_folder_are_not_exact_duplicates(
    photographs: list[Path], tmp_path: Path
) -> None:
    first, second = changed(photographs[0], 1, 90), changed(photographs[0], 1, 85)
    (tmp_path / "a").mkdir()
    for name, data in {"1.jpg": first, "2.jpg": second}.items():
        (tmp_path / "a" / name).write_bytes(data + bytes(len(first) + len(second) - len(data)) + b"\xff\xd9")
    result = stoker.duplicates(tmp_path / "a")
    assert [image.exact for image in result.surplus] == [False]


def test_images_that_cannot_be_decoded_are_counted(make_dataset: Callable[..., Path], make_jpeg: Any) -> None:
    folder = make_dataset(payloads=[make_jpeg(0), b"x", make_jpeg(0)])
    with pytest.warns(UserWarning, match="a bad sample was skipped"):
        result = stoker.duplicates(folder)
    assert (result.images, result.skipped, len(result.surplus)) == (2, 1, 1)


def test_wrong_arguments_are_refused(make_dataset: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_dataset()
    with pytest.raises(ConfigError, match="distance must be from 0 to 16 bits, not 17"):
        stoker.duplicates(folder, distance=17)
    with pytest.raises(ConfigError, match="keep must be one of the datasets"):
        stoker.duplicates(folder, keep=tmp_path)
    with stoker.TextWriter(tmp_path / "text", tokenizer="bytes") as writer:
        writer.write("a")
    with pytest.raises(ConfigError, match="holds text"):
        stoker.duplicates(tmp_path / "text")


def test_hashes_equal_those_of_imagehash() -> None:
    """The hash of ``imagehash.phash`` 4.3.2 for this picture, whose size needs no resizing."""
    rows, columns = np.mgrid[:32, :32]
    grey = ((rows * 7 + columns * columns) % 256).astype(np.uint8)
    assert hex(perceptual_hashes(np.repeat(grey[None, ..., None], 3, 3))[0]) == "0x81063c217ef55776"
