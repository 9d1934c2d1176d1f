"""Tests of selections by the objects of samples, and of the objects themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.coco_files import CATEGORIES, convert, write_images
from helpers.data.datasets import build, jpeg

import stoker
from stoker.augment import RandomIoUCrop, Resize
from stoker.errors import ConfigError

SIZE = {"height": 20, "width": 30}
# id, image, category, box, other members
OBJECTS: list[tuple[int, str, int, list[float], dict[str, Any]]] = [
    (1, "a.png", 3, [0, 0, 10, 10], {"keypoints": [4, 5, 2, 0, 0, 0, 0, 0, 0]}),
    (2, "a.png", 90, [0, 0, 0.5, 10], {}),
    (3, "b.png", 3, [0, 0, 20, 10], {"iscrowd": 1}),
    (4, "c.png", 7, [5, 5, 6, 6], {}),
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> stoker.Dataset:
    """Four images: one with an ape and a sliver of a zebra, one with a crowd, one with a mouse, one empty."""
    folder = tmp_path_factory.mktemp("coco")
    write_images(folder)
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


def object_ids(dataset: stoker.Dataset) -> list[int]:
    ids: list[int] = dataset.annotations(np.arange(len(dataset))).id.tolist()
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
def test_a_rule_leaves_out_objects_but_no_image(dataset: stoker.Dataset, rule: str, ids: list[int]) -> None:
    some = dataset.select(objects=rule)
    assert (object_ids(some), len(some)) == (ids, 4)
    assert some.lists("object_labels", range(4)).values.tolist() == some.annotations(range(4)).labels.tolist()
    assert some.fingerprint != dataset.fingerprint


def test_conditions_count_and_measure_the_objects_of_an_image(dataset: stoker.Dataset) -> None:
    """torchvision's reference scripts leave out images without an object that is no crowd."""
    some = dataset.select(objects="not crowd", where="num_objects > 0")
    assert some.keys(range(len(some))) == ["a.png", "c.png"]
    assert dataset.select(where="num_crowds == num_objects").keys(range(2)) == ["b.png", "d.png"]
    assert dataset.select(where="largest_object > 150").keys([0]) == ["b.png"]
    assert dataset.select(where="0 < smallest_object < 36.5").keys(range(2)) == ["a.png", "c.png"]


def test_rules_add_up_and_a_loader_shows_the_chosen_objects(dataset: stoker.Dataset) -> None:
    some = dataset.select(objects="not crowd").select(objects="width >= 1").select([2, 0])
    assert object_ids(some) == [4, 1]
    batch = next(iter(stoker.ImageLoader(some, batch_size=2, transforms=[Resize((20, 30))],
                                         columns=("image", "object_id"))))  # fmt: skip
    assert [ids.tolist() for ids in batch.object_id] == [[4], [1]]
    mixed = stoker.mix([(some, 1.0)])
    assert mixed.annotations([0, 1]).id.tolist() == [4, 1]


def test_has_chooses_images_that_show_one_of_some_classes(dataset: stoker.Dataset) -> None:
    assert dataset.select(has="ape").keys(range(2)) == ["a.png", "b.png"]
    assert dataset.select(has=["ape", "mouse"], objects="not crowd").keys(range(2)) == ["a.png", "c.png"]
    assert object_ids(dataset.select(has="zebra")) == [1, 2]


def test_classes_of_objects_are_renumbered(dataset: stoker.Dataset) -> None:
    some = dataset.select(classes=["zebra", "ape"], renumber=True)
    assert some.classes == ("zebra", "ape")
    found = some.annotations(range(2))
    assert list(zip(found.id.tolist(), found.labels.tolist(), strict=True)) == [(1, 1), (2, 0), (3, 1)]
    assert object_ids(dataset.select(classes="mouse")) == [4]
    with pytest.raises(ConfigError, match="labels of this selection are renumbered"):
        some.select(objects="label == 0")


@pytest.mark.parametrize("rule", ["wide > 3", "area", "crowd ==", 3])
def test_a_rule_that_is_no_condition_on_objects_is_refused(dataset: stoker.Dataset, rule: Any) -> None:
    with pytest.raises(ConfigError, match=r"no condition|cannot be used|no expression|condition in words"):
        dataset.select(objects=rule)


def test_repeat_factors_are_those_of_lvis(dataset: stoker.Dataset) -> None:
    """Of four images two have an ape, one a zebra, one a mouse: shares of 1/2, 1/4 and 1/4."""
    assert dataset.repeat_factors(0.5).tolist() == pytest.approx([2**0.5, 1, 2**0.5, 1])
    assert dataset.repeat_factors().tolist() == [1] * 4
    some = dataset.select(classes=["ape", "mouse"], renumber=True)  # three images, two of apes
    assert some.repeat_factors(1).tolist() == pytest.approx([1.5**0.5, 1.5**0.5, 3**0.5])
    loader = stoker.ImageLoader(
        dataset, batch_size=2, sampler=stoker.Weighted(dataset.repeat_factors(0.5), samples=6),
        transforms=[Resize((4, 4))],
    )  # fmt: skip
    assert len(list(loader)) == 3
    with pytest.raises(ConfigError, match="threshold must be a share"):
        dataset.repeat_factors(0)


def test_a_dataset_without_objects_is_refused(tmp_path: Path) -> None:
    plain = stoker.open(build(tmp_path / "plain", "tfrecord", [jpeg(i) for i in range(2)], 1))
    for options in ({"objects": "not crowd"}, {"has": "cat"}):
        with pytest.raises(ConfigError, match="is for objects, and the dataset has none"):
            plain.select(**options)


def test_a_crop_by_boxes_ignores_crowds(dataset: stoker.Dataset) -> None:
    """RandomIoUCrop crops no image without boxes; a crowd is no box, as torchvision removes crowds before."""
    loader = stoker.ImageLoader(
        dataset.select([1]), batch_size=1, columns=("image", "to_source"),
        transforms=[RandomIoUCrop(sampler_options=[0.0]), Resize((20, 30))],
    )  # fmt: skip
    for _ in range(5):
        (batch,) = loader
        np.testing.assert_allclose(batch.to_source[0], np.eye(3))
