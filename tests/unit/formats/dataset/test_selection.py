"""Tests of conditions on columns, in words and of PyArrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from helpers.annotations import CATEGORIES, convert, write_coco_images
from helpers.datasets import jpeg

import stoker
from stoker.augment import CenterCrop, RandomIoUCrop, Resize
from stoker.errors import ConfigError, StaleIndexError
from stoker.formats.dataset.index import Index, write_index
from stoker.formats.dataset.selection import matching

N = 40
KEYS = [f"{'train' if i % 3 else 'val'}/photo {i}" for i in range(N)]
LABELS = np.arange(N) % 7
HEIGHTS = (np.arange(N) * 37 % 300 + 1).astype(np.int32)
WIDTHS = np.full(N, 2_000_000_000, np.int32)
SCORES = np.arange(N) / N


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    path = tmp_path_factory.mktemp("index") / "index.arrow"
    zeros = dict.fromkeys(("shard", "record", "offset", "length", "crc"), np.zeros(N, np.int64))
    further = {
        "label": LABELS,
        "height": HEIGHTS,
        "width": WIDTHS,
        "score": SCORES,
        "byte": LABELS.astype(np.uint8),
    }
    tags = pa.array([[1] * (i % 3) for i in range(N)], pa.large_list(pa.int64()))
    write_index(path, {**zeros, "key": KEYS, **further, "tags": tags})
    return Index.open(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("label < 3", LABELS < 3),
        ("label <= 3 and height > 100", (LABELS <= 3) & (HEIGHTS > 100)),
        ("label == 1 or label == 2 and height != 38", (LABELS == 1) | (LABELS == 2) & (HEIGHTS != 38)),
        ("not label >= 2", LABELS < 2),
        ("2 < label < 5", (LABELS > 2) & (LABELS < 5)),
        ("label in (1, 3)", np.isin(LABELS, [1, 3])),
        ("label not in {1, -3}", LABELS != 1),
        ("-label < -4", LABELS > 4),
        ("-byte < -4", LABELS > 4),
        ("score > 0.25", SCORES > 0.25),
        ("width / height > 1.5e8", WIDTHS / HEIGHTS > 1.5e8),
        ("(label + 1) / 2 - 1 == 0.5", LABELS == 2),
        ("width * height > 1e11", WIDTHS * HEIGHTS.astype(float) > 1e11),
        ('key == "val/photo 0"', np.arange(N) == 0),
        ('key.startswith("val/")', np.arange(N) % 3 == 0),
        ("key.endswith('1') or '12' in key", np.isin(np.arange(N), [1, 11, 12, 21, 31])),
        ('"val" not in key', np.arange(N) % 3 > 0),
        ("key in ['val/photo 0', 'val/photo 3']", np.isin(np.arange(N), [0, 3])),
        ("\n  label == 1  ", LABELS == 1),
        ("True", np.ones(N, bool)),
        (pc.field("label") < 3, LABELS < 3),
        (pc.starts_with(pc.field("key"), "val"), np.arange(N) % 3 == 0),
        (pc.list_value_length(pc.field("tags")) == 2, np.arange(N) % 3 == 2),
    ],
)
def test_a_condition_in_words_or_of_pyarrow_chooses_rows(index: Index, words: Any, expected: Any) -> None:
    assert expected.any()
    assert matching(index, words).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("labl < 3", r"cannot be used: No match for FieldRef.Name\(labl\)"),
        (pc.field("labl") < 3, "No match for"),
        ("label < 'x'", "no kernel matching"),
        ("key < 3", "no kernel matching"),
        ("label in ('x',)", "cannot be used"),
        ("label", "is not a condition but int64"),
        (pc.field("key"), "is not a condition but large_string"),
        ([1, "x"], "cannot be used"),
        ([None], "cannot be used"),
    ],
)
def test_a_condition_that_does_not_fit_lists_the_columns(index: Index, condition: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        matching(index, condition)
    assert "label (int64), height (int32)" in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "label <",
        "label < 3; label",
        "label = 3",
        "label is 3",
        "label == None",
        "label % 2 == 0",
        "label ** 2 == 4",
        "label << 1 == 4",
        "label < 3j",
        "label in key",
        "label in (height,)",
        "label in {1: 2}",
        "(label, height)",
        "label if height else key",
        "(lambda: label)()",
        "(label := 3)",
        "[x for x in label]",
        "__import__('os').system('true')",
        "key.__class__",
        "key.upper() == 'A'",
        "key.startswith('a', 1)",
        "key.startswith('a', end=1)",
        "key.startswith(prefix='a')",
        "key.startswith(key)",
        "key.startswith(1)",
        "key.startswith(*key)",
        "label < 99999999999999999999999999",
        "label in (99999999999999999999999999,)",
        "label < 3 \0",
        "not " * 20_000 + "True",
        "-" * 20_000 + "1 < 2",
    ],
)
def test_syntax_that_no_condition_has_is_refused(index: Index, words: str) -> None:
    with pytest.raises(ConfigError, match="condition"):
        matching(index, words)


def test_a_damaged_column_of_texts_is_found_before_it_is_read(index: Index) -> None:
    starts = np.full(N + 1, 3)
    starts[:2] = 0, 2**40  # opening an index looks at the first and the last alone
    key = pa.Array.from_buffers(pa.large_string(), N, [None, pa.py_buffer(starts), pa.py_buffer(b"abc")])
    columns = [key if name == "key" else index.arrow(name) for name in index.types]
    damaged = Index(pa.record_batch(columns, schema=index.schema), index.path)
    with pytest.raises(StaleIndexError, match="'key' is damaged") as caught:
        matching(damaged, 'key == "a"')
    assert caught.value.path == str(index.path)
    assert matching(damaged, "label < 3").sum() == (LABELS < 3).sum()


def test_a_condition_chooses_from_a_selection(dataset: stoker.Dataset) -> None:
    assert dataset.select([5, 3, 3, 0]).select("label == 0").rows.tolist() == [3, 3, 0]
    assert dataset.select("label == 0").fingerprint == dataset.select(dataset.labels == 0).fingerprint
    assert dataset.select(pc.field("label") > 0).rows.tolist() == [1, 2, 4, 5]
    assert len(dataset.select("label > 7")) == 0


def test_classes_are_chosen_by_their_names(dataset: stoker.Dataset) -> None:
    assert dataset.select(classes=["eel", "cat"]).labels.tolist() == [0, 2, 0, 2]
    assert dataset.select(classes="dog").labels.tolist() == [1, 1]
    assert dataset.select("height > 0", classes=["dog"]).keys([0, 1]) == ["k1", "k4"]
    assert dataset.select([5, 4, 4, 0], classes=["dog", "eel"]).rows.tolist() == [5, 4, 4]
    assert dataset.select([0, 1, 5]).select(classes=["eel"]).keys([0]) == ["k5"]


def test_one_of_several_labels_is_enough(pack_images: Callable[..., Path], make_jpeg: Any) -> None:
    labels = pa.array([[0, 2], [], [1]], pa.large_list(pa.int64()))
    dataset = stoker.open(pack_images([make_jpeg(i) for i in range(3)], label=labels))
    assert dataset.select(classes=["eel"]).rows.tolist() == [0]
    assert dataset.select(classes=["dog", "cat"]).rows.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("which", "hint"),
    [
        ("class == 'cat'", "select(classes=['cat'])"),
        ('label in ("cat", "dog")', "select(classes=['cat', 'dog'])"),
        ("width >= 9 and class != 'eel'", "select(classes=['eel'])"),
        ("class == 1", "classes="),
    ],
)
def test_a_name_in_a_condition_is_answered_with_classes(
    dataset: stoker.Dataset, which: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        dataset.select(which)
    assert hint in str(caught.value.hint)


SIZE = {"height": 20, "width": 30}
# id, image, category, box, other members
OBJECTS: list[tuple[int, str, int, list[float], dict[str, Any]]] = [
    (1, "a.png", 3, [0, 0, 10, 10], {"keypoints": [4, 5, 2, 0, 0, 0, 0, 0, 0]}),
    (2, "a.png", 90, [0, 0, 0.5, 10], {}),
    (3, "b.png", 3, [0, 0, 20, 10], {"iscrowd": 1}),
    (4, "c.png", 7, [5, 5, 6, 6], {}),
]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> stoker.Dataset:
    """Four images: one with an ape and a sliver of a zebra, one with a crowd, one with a mouse, one empty."""
    folder = tmp_path_factory.mktemp("coco")
    write_coco_images(folder)
    names = {"a.png": "a.png", "b.png": "b.png", "c.png": "empty.png", "d.png": "tiny.png"}
    for name, source in names.items():
        if name not in ("a.png", "b.png"):
            (folder / "images" / source).rename(folder / "images" / name)
    sizes = {"d.png": {"height": 4, "width": 3}}
    content = {
        "images": [{"id": name, "file_name": name, **sizes.get(name, SIZE)} for name in names],
        "annotations": [
            {"id": i, "image_id": image, "category_id": category, "bbox": box, **more}
            for i, image, category, box, more in OBJECTS
        ],
        "categories": CATEGORIES,
    }
    return convert(folder, content)


def object_ids(objects: stoker.Dataset) -> list[int]:
    ids: list[int] = objects.annotations(np.arange(len(objects))).id.tolist()
    return ids


@pytest.mark.parametrize(
    ("rule", "ids"),
    [
        ("not crowd", [1, 2, 4]),
        ("width >= 1 and height >= 1", [1, 3, 4]),
        ("num_keypoints > 0", [1]),
        ("area > 50", [1, 3]),
        ("label in (0, 1) and not crowd", [1, 4]),
    ],
)
def test_a_rule_leaves_out_objects_but_no_image(objects: stoker.Dataset, rule: str, ids: list[int]) -> None:
    some = objects.select(objects=rule)
    assert (object_ids(some), len(some)) == (ids, 4)
    assert some.lists("object_labels", range(4)).values.tolist() == some.annotations(range(4)).labels.tolist()
    assert some.fingerprint != objects.fingerprint


def test_conditions_count_and_measure_the_objects_of_an_image(objects: stoker.Dataset) -> None:
    """torchvision's reference scripts leave out images without an object that is no crowd."""
    some = objects.select(objects="not crowd", where="num_objects > 0")
    assert some.keys(range(len(some))) == ["a.png", "c.png"]
    assert objects.select(where="num_crowds == num_objects").keys(range(2)) == ["b.png", "d.png"]
    assert objects.select(where="largest_object > 150").keys([0]) == ["b.png"]
    assert objects.select(where="0 < smallest_object < 36.5").keys(range(2)) == ["a.png", "c.png"]


def test_rules_add_up_and_a_loader_shows_the_chosen_objects(objects: stoker.Dataset) -> None:
    some = objects.select(objects="not crowd").select(objects="width >= 1").select([2, 0])
    assert object_ids(some) == [4, 1]
    options: dict[str, Any] = {"transforms": [Resize((20, 30))], "columns": ("image", "object_id")}
    batch = next(iter(stoker.ImageLoader(some, batch_size=2, **options)))
    assert [ids.tolist() for ids in batch.object_id] == [[4], [1]]
    mixed = stoker.mix([(some, 1.0)])
    assert mixed.annotations([0, 1]).id.tolist() == [4, 1]


def test_has_chooses_images_that_show_one_of_some_classes(objects: stoker.Dataset) -> None:
    assert objects.select(has="ape").keys(range(2)) == ["a.png", "b.png"]
    assert objects.select(has=["ape", "mouse"], objects="not crowd").keys(range(2)) == ["a.png", "c.png"]
    assert object_ids(objects.select(has="zebra")) == [1, 2]


def test_classes_of_objects_are_renumbered(objects: stoker.Dataset) -> None:
    some = objects.select(classes=["zebra", "ape"], renumber=True)
    assert some.classes == ("zebra", "ape")
    found = some.annotations(range(2))
    assert list(zip(found.id.tolist(), found.labels.tolist(), strict=True)) == [(1, 1), (2, 0), (3, 1)]
    assert object_ids(objects.select(classes="mouse")) == [4]


@pytest.mark.parametrize("rule", ["wide > 3", "area", "crowd ==", 3])
def test_a_rule_that_is_no_condition_on_objects_is_refused(objects: stoker.Dataset, rule: Any) -> None:
    with pytest.raises(ConfigError, match=r"not a condition|cannot be used|not an expr|in words"):
        objects.select(objects=rule)


def test_repeat_factors_are_those_of_lvis(objects: stoker.Dataset) -> None:
    """Of four images two have an ape, one a zebra, one a mouse: shares of 1/2, 1/4 and 1/4."""
    assert objects.repeat_factors(0.5).tolist() == pytest.approx([2**0.5, 1, 2**0.5, 1])
    assert objects.repeat_factors().tolist() == [1] * 4
    some = objects.select(classes=["ape", "mouse"], renumber=True)  # three images, two of apes
    assert some.repeat_factors(1).tolist() == pytest.approx([1.5**0.5, 1.5**0.5, 3**0.5])
    sampler = stoker.Weighted(objects.repeat_factors(0.5), samples=6)
    loader = stoker.ImageLoader(objects, batch_size=2, sampler=sampler, transforms=[Resize((4, 4))])
    assert len(list(loader)) == 3


def test_a_crop_by_boxes_ignores_crowds(objects: stoker.Dataset) -> None:
    """RandomIoUCrop crops no image without boxes; a crowd is no box, as torchvision removes crowds before."""
    transforms = [RandomIoUCrop(sampler_options=[0.0]), Resize((20, 30))]
    columns = ("image", "to_source")
    loader = stoker.ImageLoader(objects.select([1]), batch_size=1, columns=columns, transforms=transforms)
    for _ in range(5):
        (batch,) = loader
        np.testing.assert_allclose(batch.to_source[0], np.eye(3))


Make = Callable[..., Path]


def test_a_selection_by_mask_or_position_reads_its_samples_alone(
    dataset: stoker.Dataset, make_jpeg: Callable[..., bytes]
) -> None:
    dogs = dataset.select(dataset.labels == 1)
    assert (dogs.rows.tolist(), dogs.labels.tolist(), dogs.keys([1])) == ([1, 4], [1, 1], ["k4"])
    assert dogs.read(1) == make_jpeg(4)
    assert dogs.samples([0, 1]).row.tolist() == [1, 4]
    assert dogs.select([1, 1, 0]).rows.tolist() == [4, 4, 1]
    assert len(dogs.select([])) == 0
    assert dogs.values("crc", [1]).tolist() == dataset.values("crc", [4]).tolist()
    assert dogs.error(1, "bad").key == "k4"


def test_different_selections_have_different_fingerprints(make_dataset: Make) -> None:
    datasets = [stoker.open(make_dataset()), stoker.open(make_dataset(payloads=[b"x"], name="other"))]
    selections = [datasets[0], *(datasets[0].select(which) for which in ([0], [1], [0, 1]))]
    assert len({one.fingerprint for one in (*selections, datasets[1].select([0]))}) == 5
    assert datasets[0].select([0]).fingerprint == selections[1].fingerprint


def test_the_key_of_a_sample_decides_its_split(make_dataset: Make) -> None:
    dataset = stoker.open(make_dataset(payloads=[b"x"] * 2000))
    first, second = dataset.split(0.2, seed=1, stratified=False)
    assert len(first) + len(second) == 2000
    assert 330 < len(first) < 470  # 400, and four deviations
    assert not set(first.rows) & set(second.rows)
    # The split of a sample is the same without the others.
    some = dataset.select(np.arange(0, 2000, 3))
    assert set(some.split(0.2, seed=1, stratified=False)[0].rows) == set(first.rows) & set(some.rows)
    # A larger fraction has all samples of a smaller one.
    assert set(first.rows) < set(dataset.split(0.3, seed=1, stratified=False)[0].rows)
    assert set(dataset.split(0.2, seed=2, stratified=False)[0].rows) != set(first.rows)
    negative = dataset.split(0.2, seed=-1, stratified=False)[0]
    assert set(negative.rows) not in (set(first.rows), set(dataset.rows))
    assert [len(part) for part in dataset.split(1.0)] == [2000, 0]
    assert [len(part) for part in dataset.split(0.0)] == [0, 2000]


def test_a_selection_is_distinct_unless_a_sample_repeats(dataset: stoker.Dataset) -> None:
    assert all(dataset.select(which).is_distinct for which in ([], [1, 2, 4], [4, 1, 2]))
    assert not any(dataset.select(which).is_distinct for which in ([1, 1], [1, 4, 1]))


def test_a_stratified_split_has_the_share_of_each_class(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["many", "few"]) as writer:
        for i in range(25):
            writer.write(image=jpeg(0, 2, 2), label=int(i % 5 == 0), key=f"{i}")
    dataset = stoker.open(tmp_path / "out")
    # Of 20 samples of the first class, and of 5 of the second.
    for fraction, counts in ((0.2, [4, 1]), (0.5, [10, 2]), (0.9, [18, 4]), (0, [0, 0]), (1, [20, 5])):
        first, second = dataset.split(fraction, seed=3)
        assert np.bincount(first.labels, minlength=2).tolist() == counts
        assert sorted([*first.rows, *second.rows]) == list(range(25))
    first = dataset.split(0.5, seed=3)[0]
    assert set(dataset.split(0.2, seed=3)[0].rows) < set(first.rows)
    assert set(dataset.split(0.5, seed=4)[0].rows) != set(first.rows)
    assert [len(part) for part in dataset.select([]).split(0.5)] == [0, 0]


@pytest.fixture
def dataset(make_dataset: Make) -> stoker.Dataset:
    """Six images of the classes cat, dog, eel, cat, dog, eel."""
    return stoker.open(make_dataset())


@pytest.fixture
def eels_and_cats(dataset: stoker.Dataset) -> stoker.Dataset:
    return dataset.select(classes=["eel", "cat"], renumber=True)


def test_chosen_classes_are_numbered_from_0_in_the_order_of_their_names(
    eels_and_cats: stoker.Dataset,
) -> None:
    assert (eels_and_cats.classes, eels_and_cats.num_classes) == (("eel", "cat"), 2)
    assert (eels_and_cats.labels.tolist(), eels_and_cats.rows.tolist()) == ([1, 0, 1, 0], [0, 2, 3, 5])
    assert (eels_and_cats[1].label, eels_and_cats.values("label", [2]).tolist()) == (0, [1])
    assert eels_and_cats.select([3, 0]).labels.tolist() == [0, 1]
    with stoker.ImageLoader(eels_and_cats, batch_size=4, transforms=[CenterCrop(8)], num_threads=1) as loader:
        assert next(iter(loader))[1].tolist() == [1, 0, 1, 0]
    cats = eels_and_cats.select(classes="cat", renumber=True)
    assert (cats.classes, cats.labels.tolist(), cats.rows.tolist()) == (("cat",), [0, 0], [0, 3])


def test_renumbered_classes_work_with_conditions_fingerprints_and_mixtures(
    dataset: stoker.Dataset, eels_and_cats: stoker.Dataset
) -> None:
    assert dataset.select("label > 0", classes=["cat", "eel"], renumber=True).labels.tolist() == [1, 1]
    kept = dataset.select(classes=["eel", "cat"])
    other_order = dataset.select(classes=["cat", "eel"], renumber=True)
    assert len({one.fingerprint for one in (eels_and_cats, kept, other_order)}) == 3
    mixed = stoker.mix([(eels_and_cats, 0.5), (dataset, 0.5)])
    assert [mixed.classes[label] for label in mixed.labels[:5]] == ["cat", "eel", "cat", "eel", "cat"]


def test_several_labels_of_a_sample_are_renumbered(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b", "c"]) as writer:
        for i, labels in enumerate(([0, 1], [2], [1, 2])):
            writer.write(image=jpeg(i), label=labels)
    some = stoker.open(tmp_path / "out").select(classes=["b", "a"], renumber=True)
    assert [sample.label for sample in some] == [[1, 0], [0]]
    with stoker.Writer(tmp_path / "both", classes=["a", "b"]) as writer:
        writer.write(image=jpeg(0), label=0, boxes=np.array([[0, 0, 5, 5]], np.float32), box_labels=[1])
    with pytest.raises(ConfigError, match="this dataset has both"):
        stoker.open(tmp_path / "both").select(classes="a", renumber=True)


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (lambda d, _: d.select(), ConfigError, "needs a condition, positions, a mask or classes"),
        (lambda d, _: d.select([True]), ConfigError, "a mask must have one entry a sample, 6"),
        (lambda d, _: d.select([6]), IndexError, "positions go from 0 to 5, found 6"),
        (lambda d, _: d.select([-1]), IndexError, "positions go from 0 to 5, found -1"),
        (lambda d, _: d.select([0.5]), ConfigError, "positions must be integers, found float64"),
        (lambda d, _: d.select([[0, 1]]), ConfigError, "positions must have one dimension"),
        (lambda d, _: d.select([0, 1]).keys([2]), IndexError, "positions go from 0 to 1"),
        (lambda d, _: d.samples([True]), ConfigError, "positions must be integers, found"),
        (lambda d, _: d.select(where=[True] * 6), ConfigError, "where must be a condition"),
        (lambda d, _: d.select(classes=["cat", "dgo"]), ConfigError, r"no class 'dgo'.*\n.*dog"),
        (lambda d, _: d.select(classes=[1]), ConfigError, "names of classes, found 1"),
        (lambda d, _: d.select([0], renumber=True), ConfigError, "renumber=True needs classes"),
        (lambda d, _: d.select(classes=["cat", "cat"], renumber=True), ConfigError, "named twice"),
        (lambda d, _: d.split(1.5), ConfigError, r"from 0 to 1, found 1\.5"),
        (lambda _, e: e.select("label == 0"), ConfigError, "labels of this selection are renumbered"),
        (lambda d, _: d.repeat_factors(), ConfigError, "is for objects, and the dataset has none"),
        (lambda d, _: d.select(objects="not crowd"), ConfigError, "is for objects, and the dataset has none"),
        (lambda d, _: d.select(has="cat"), ConfigError, "is for objects, and the dataset has none"),
    ],
)
def test_a_selection_that_cannot_be_meant_is_refused(
    dataset: stoker.Dataset,
    eels_and_cats: stoker.Dataset,
    refused: Callable[..., Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        refused(dataset, eels_and_cats)


def test_choices_of_objects_that_cannot_be_meant_are_refused(objects: stoker.Dataset) -> None:
    some = objects.select(classes=["zebra", "ape"], renumber=True)
    with pytest.raises(ConfigError, match="labels of this selection are renumbered"):
        some.select(objects="label == 0")
    with pytest.raises(ConfigError, match="threshold must be a share"):
        objects.repeat_factors(0)
