"""Labels and names of classes in external shards."""

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.data.shards.external_shards import example, write_tfrecord

import stoker
from stoker.errors import SourceError
from stoker.formats.external import external_index

Jpeg = Callable[..., bytes]


def test_a_record_without_a_label_after_one_with_a_label_is_refused(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 0), {"image/encoded": make_jpeg(1)}])
    with pytest.raises(SourceError, match="no label, unlike those before it"):
        external_index.index([path], tmp_path / "into")


def test_a_label_outside_of_the_named_classes_is_refused(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 2)])
    with pytest.raises(SourceError, match="label 2, and 2 classes are named"):
        external_index.index([path], tmp_path / "into", classes=["a", "b"])
    below = write_tfrecord(tmp_path / "y", [example(make_jpeg(0), -1)])
    with pytest.raises(SourceError, match="label -1, and 2 classes are named"):
        external_index.index([below], tmp_path / "into", classes=["a", "b"])
    assert external_index.index([path], tmp_path / "into", classes=["a", "b", "c"]).classes == ("a", "b", "c")


def test_classes_cannot_be_named_for_records_without_labels(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(tmp_path / "x", [{"image/encoded": make_jpeg(0)}])
    with pytest.raises(SourceError, match="no label, and classes are named") as caught:
        external_index.index([path], tmp_path / "into", classes=["a", "b"])
    assert "--label" in str(caught.value)


def write_classes(path: Path, image: bytes, *classes: tuple[int, str]) -> Path:
    """A TFRecord file whose records have these labels with these names."""
    records = [example(image, label, **{"image/class/text": name.encode()}) for label, name in classes]
    return write_tfrecord(path, records)


@pytest.mark.parametrize(
    ("first", "second", "record", "message"),
    [
        ([(0, "cat"), (1, "dog")], [(1, "dog"), (0, "bird")], 1, "label 0 is 'bird' here and 'cat' before"),
        ([(0, "cat")], [(1, "cat")], 0, "'cat' is label 1 here and label 0 in other shards"),
        ([(0, "cat"), (0, "bird")], [], 1, "label 0 is 'bird' here and 'cat' before"),
    ],
    ids=["one number for two classes", "two numbers for one class", "in one shard"],
)
def test_shards_whose_class_numbers_contradict_each_other_are_refused(
    tmp_path: Path,
    make_jpeg: Jpeg,
    first: list[tuple[int, str]],
    second: list[tuple[int, str]],
    record: int,
    message: str,
) -> None:
    shards = [
        write_classes(tmp_path / name, make_jpeg(0), *classes)
        for name, classes in (("a", first), ("b", second))
    ]
    with pytest.raises(SourceError, match=message) as caught:
        external_index.index(shards, tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("b" if second else "a", record)
    assert "stoker.mix" in str(caught.value.hint)
    assert not (tmp_path / "into").exists()
    # Without the names the numbers alone count.
    names = external_index.FeatureNames(text=None)
    external_index.index(shards, tmp_path / "into", names=names, classes=["x", "y"])
    assert stoker.verify(tmp_path / "into").ok


def test_two_labels_of_one_name_in_one_shard_are_two_classes_as_in_imagenet(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    cranes = [(0, "crane"), (1, "dog"), (2, "crane")]
    shards = [
        write_classes(tmp_path / "a", make_jpeg(0), *cranes[:2]),
        write_classes(tmp_path / "b", make_jpeg(1), *cranes[2:]),
        write_classes(tmp_path / "c", make_jpeg(2), *cranes),
    ]
    external_index.index(shards, tmp_path / "into")
    assert stoker.open(tmp_path / "into").classes == ("crane", "dog", "crane")
    assert stoker.verify(tmp_path / "into").ok


def test_named_classes_may_rename_those_of_the_records_but_not_reorder_them(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    path = write_classes(tmp_path / "x", make_jpeg(0), (0, "n01"), (1, "n02"))
    with pytest.raises(SourceError, match="label 0 is 'n01' here, which is class 1"):
        external_index.index([path], tmp_path / "into", classes=["n02", "n01"])
    external_index.index([path], tmp_path / "into", classes=["tench", "goldfish"])
    assert stoker.verify(tmp_path / "into").ok


@pytest.mark.parametrize("labels", [[-1, 1], [0, 1_000_000], [-1, 2**62]])
def test_labels_below_0_or_from_a_million_on_have_no_class_names(
    tmp_path: Path, make_jpeg: Jpeg, labels: list[int]
) -> None:
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), label) for label in labels])
    assert external_index.index([path], tmp_path / "into").classes == ()
    assert stoker.open(tmp_path / "into").labels.tolist() == labels
