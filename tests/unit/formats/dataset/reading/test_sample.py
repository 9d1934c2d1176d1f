"""Tests of single samples, ``dataset[i]``, and of the attributes that torchvision's datasets have."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.data.datasets import flip_bit, jpeg

import stoker
from stoker.errors import CorruptRecordError, DatasetError, DecodeError
from stoker.formats.codecs.decode import decode_rgb


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> stoker.Dataset:
    into = tmp_path_factory.mktemp("pets") / "shards"
    with stoker.Writer(into, classes=["cat", "dog"]) as writer:
        for i in range(3):
            depth = np.full((2, i + 1), i, np.float32)
            writer.write(image=jpeg(i), label=i % 2, key=f"k{i}", score=i / 2, caption=f"no {i}", depth=depth)
    return stoker.open(into)


def test_a_sample_has_its_image_label_key_and_columns(pets: stoker.Dataset) -> None:
    for i, sample in enumerate(pets):
        assert np.array_equal(sample.image, decode_rgb(jpeg(i), 1, 12, 16))
        assert (sample.label, sample.key) == (i % 2, f"k{i}")
        assert sample.columns.keys() == {"score", "caption", "depth"}
        assert (sample.columns["score"], sample.columns["caption"]) == (i / 2, f"no {i}")
        assert np.array_equal(sample.columns["depth"], np.full((2, i + 1), i, np.float32))
    assert pets.select([2])[0].key == "k2"
    for position in (3, -1):
        with pytest.raises(IndexError, match="positions go from 0 to 2"):
            pets[position]


def test_a_dataset_has_the_attributes_of_torchvisions_datasets(pets: stoker.Dataset) -> None:
    assert pets.class_to_idx == {"cat": 0, "dog": 1}
    assert (pets.targets, pets.select([1]).targets) == ([0, 1, 0], [1])


@pytest.mark.parametrize(("classes", "labels"), [(["a", "b"], [[1, 0], []]), (None, [None, None])])
def test_a_sample_has_several_labels_or_none(
    tmp_path: Path, classes: list[str] | None, labels: list[list[int] | None]
) -> None:
    with stoker.Writer(tmp_path / "out", classes=classes) as writer:
        for i, label in enumerate(labels):
            writer.write(image=jpeg(i), label=label)
    assert [sample.label for sample in stoker.open(tmp_path / "out")] == labels


def test_an_image_that_cannot_be_decoded_is_named(make_dataset: Callable[..., Path]) -> None:
    dataset = stoker.open(make_dataset(payloads=[jpeg(0), jpeg(1)[:300]]))
    with pytest.raises(DecodeError, match="the image cannot be decoded") as caught:
        dataset[1]
    assert caught.value.key == "k1"


def test_a_sample_with_a_flipped_bit_is_named(make_dataset: Callable[..., Path]) -> None:
    dataset = stoker.open(make_dataset())
    flip_bit(dataset, 0, byte=200)
    with pytest.raises(CorruptRecordError, match="checksum does not match") as caught:
        dataset[0]
    assert caught.value.key == "k0"


def test_a_sample_of_text_is_refused(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "text") as writer:
        writer.write("a b")
    with pytest.raises(DatasetError, match="a sample of text has no image"):
        stoker.open(tmp_path / "text")[0]
