"""Columns of samples: rows, keys, strings, and the way back from a batch to the pixels of its sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import convert, document, write_annotated, write_coco_images
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader, Repeated, Weighted
from stoker.augment import (
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    Resize,
    Views,
    keypoints_to_source,
    to_source,
)
from stoker.pipeline.execution.pipeline import ColumnSpec


@pytest.fixture
def sources(make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes]) -> dict[str, Any]:
    """A dataset of twelve samples in three classes, and selections and mixtures of it and a smaller one."""
    dataset = stoker.open(make_dataset("tfrecord", [make_jpeg(i) for i in range(12)], name="twelve"))
    small = stoker.open(make_dataset("lmdb", [make_jpeg(i) for i in range(5)], name="five"))
    selected = dataset.select("label != 1")
    return {
        "whole": dataset,
        "condition": selected,
        "repeats": dataset.select([7, 2, 2, 11]),
        "selection of a selection": selected.select([6, 0, 5]),
        "split": dataset.split(0.5)[1],
        "mixture": stoker.mix([(dataset, 1), (small, 1)]),
        "mixture of selections": stoker.mix([(selected, 1), (small.select([4, 1]), 1)]),
    }


@pytest.mark.parametrize("options", [{}, {"sampler": Repeated(2)}, {"shuffle": True, "steps_per_epoch": 5}])
def test_keys_and_classes_of_a_batch_are_those_of_its_rows(
    load: Callable[..., ImageLoader], sources: dict[str, Any], options: dict[str, Any]
) -> None:
    for name, source in sources.items():
        loader = load(dataset=source, batch_size=4, columns=("row", "key", "label"), **options)
        dataset = loader.dataset
        for batch in loader:
            assert dataset.keys(batch.row) == batch.key, name
            assert dataset.labels[batch.row].tolist() == batch.label.tolist(), name


def test_a_sampler_weighs_samples_by_their_rows(
    load: Callable[..., ImageLoader], sources: dict[str, Any]
) -> None:
    selected = sources["condition"]
    weights = [key in ("k3", "k11") for key in selected.keys(range(len(selected)))]
    loader = load(dataset=selected, sampler=Weighted(weights, samples=20), columns=("row", "key"))
    for batch in loader:
        assert selected.keys(batch.row) == batch.key
        assert set(batch.key) == {"k3", "k11"}


def test_rows_choose_their_samples_and_find_them_in_the_index(
    load: Callable[..., ImageLoader], sources: dict[str, Any]
) -> None:
    selected = sources["repeats"]
    (batch,) = load(dataset=selected, columns=("row", "key"))
    assert batch.row.tolist() == [0, 1, 2, 3]
    assert selected.select(batch.row[1:3]).keys([0, 1]) == batch.key[1:3]
    assert sources["whole"].keys(selected.rows[batch.row]) == batch.key


UPRIGHT = [RandomResizedCrop(40, scale=(0.3, 1)), RandomHorizontalFlip()]


def test_each_view_has_a_matrix_to_its_source(pack_images: Callable[..., Path]) -> None:
    dataset = write_annotated(pack_images)
    transforms = {"large": Views(2, UPRIGHT), "turned": [RandomResizedCrop(30), RandomRotation(20)]}
    columns = ("large", "large_to_source", "turned_to_source", "source_size")
    with ImageLoader(dataset, batch_size=3, transforms=transforms, columns=columns) as loader:
        batch = next(iter(loader))
        spec = loader.element_spec()
    assert batch.large_to_source.shape == (2, 3, 3, 3)
    assert spec[1] == ColumnSpec("large_to_source", "float64", (3, 3), views=2)
    assert batch.turned_to_source.shape == (3, 3, 3)
    assert not np.array_equal(batch.large_to_source[0], batch.large_to_source[1])


def test_a_sample_that_replaces_a_bad_one_keeps_its_matrix(
    make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    payloads = [make_jpeg(0), b"no image", make_jpeg(1), make_jpeg(2)]
    broken = make_dataset("tfrecord", payloads, name="broken")
    options = {"batch_size": 4, "transforms": UPRIGHT, "columns": ("row", "to_source", "source_size")}
    loader = ImageLoader(broken, **image_arguments(on_error="replace", **options))
    with pytest.warns(match="a bad sample was replaced"):
        (batch,) = loader
    assert batch.row.tolist() == [0, 2, 2, 3]
    assert np.array_equal(batch.to_source[1], batch.to_source[2])
    assert not np.array_equal(batch.to_source[0], batch.to_source[3])


NOTES = ["first", "", "größer 🐱", "fourth", "a, b"]


@pytest.fixture
def noted(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """A dataset of five images with a column ``note`` of strings and a column ``weight`` of numbers."""
    lines = []
    for i, note in enumerate(NOTES):
        (tmp_path / f"{i}.jpg").write_bytes(make_jpeg(i))
        lines.append(json.dumps({"path": f"{i}.jpg", "label": "cat", "note": note, "weight": i / 2}))
    (tmp_path / "list.jsonl").write_text("\n".join(lines))
    stoker.convert(tmp_path / "list.jsonl", tmp_path / "shards", seed=0)
    return tmp_path / "shards"


def load(dataset: Any, **options: Any) -> stoker.ImageLoader:
    arguments = {"batch_size": 2, "transforms": [Resize((8, 8))], "columns": ("note", "key", "weight")}
    return stoker.ImageLoader(dataset, **image_arguments(**{**arguments, **options}))


def pairs(loader: stoker.ImageLoader) -> list[tuple[str, str]]:
    """The key and the note of each sample of an epoch."""
    batches = list(loader)
    assert all(type(batch.note) is list for batch in batches)
    return [pair for batch in batches for pair in zip(batch.key, batch.note, strict=True)]


def test_a_batch_holds_strings_as_a_list_in_the_order_of_its_samples(noted: Path) -> None:
    wanted = [(f"{i}.jpg", note) for i, note in enumerate(NOTES)]
    loader = load(noted)
    assert loader.element_spec()[0] == ColumnSpec("note", "str", ())
    assert sorted(pairs(loader)) == wanted
    assert sorted(pairs(load(noted, shuffle=True, seed=3))) == wanted
    padded = pairs(load(noted, last_batch="pad"))
    assert len(padded) == 6
    assert set(padded) == set(wanted)


def test_a_selection_and_a_mixture_have_the_strings_of_their_samples(noted: Path) -> None:
    dataset = stoker.open(noted)
    assert dataset.strings("note", [3, 3]) == dataset.select([3, 3]).strings("note", [0, 1])
    mixture = stoker.mix([(dataset.select([0, 1]), 1), (dataset.select([2, 3]), 1)])
    drawn = pairs(load(mixture))
    assert dict(drawn) == dict(zip(dataset.keys(range(4)), dataset.strings("note", range(4)), strict=True))


ORIGIN_COLUMNS = ("image", "boxes", "keypoints", "object_id", "to_source", "source_size", "image_id")
SIZES = {8: (20, 30), 5: (20, 30), 1: (4, 3), 2: (20, 30)}
TRUTH = {annotation["id"]: annotation for annotation in document()["annotations"]}
MODES = ["none", "shorter=8", "longer=9", "squash=7x19", "fill=40x64"]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, stoker.Dataset]:
    """One COCO file, converted in each mode of resizing."""
    folder = tmp_path_factory.mktemp("coco")
    write_coco_images(folder)
    return {
        mode: convert(folder, document(), mode.partition("=")[0], resize=None if mode == "none" else mode)
        for mode in [*MODES, "crop=10x10"]
    }


def _check(dataset: Any, **options: Any) -> int:
    """Compare all that a loader shows of the objects, brought back, with the file; return their number."""
    transforms = [RandomHorizontalFlip(), Resize((50, 41))]
    swap = stoker.open(dataset.path).manifest.annotations.swap
    checked = 0
    for batch in stoker.ImageLoader(
        dataset, **image_arguments(batch_size=3, transforms=transforms, columns=ORIGIN_COLUMNS, **options)
    ):
        for i, matrix in enumerate(batch.to_source):
            assert tuple(batch.source_size[i]) == SIZES[int(batch.image_id[i])]
            boxes = to_source(batch.boxes[i], matrix, box_format="XYXY")
            points = keypoints_to_source(batch.keypoints[i], matrix, swap=swap, coco=True)
            for k, number in enumerate(batch.object_id[i].tolist()):
                truth = TRUTH[number]
                left, top, width, height = truth["bbox"]
                np.testing.assert_allclose(boxes[k], [left, top, left + width, top + height], atol=1e-4)
                expected = np.reshape(truth.get("keypoints", np.zeros(9)), (3, 3))
                np.testing.assert_allclose(points[k], expected, atol=1e-4)
                checked += 1
    return checked


@pytest.mark.parametrize("mode", MODES)
def test_a_resized_conversion_leads_back_to_the_original(
    datasets: dict[str, stoker.Dataset], mode: str
) -> None:
    assert _check(datasets[mode]) == len(TRUTH)


@pytest.mark.parametrize(
    "sampler", [stoker.Repeated(3), stoker.Weighted([1.0, 2.0, 1.0, 1.0])], ids=["repeated", "weighted"]
)
def test_samples_of_a_sampler_lead_back_to_their_sources(
    datasets: dict[str, stoker.Dataset], sampler: Any
) -> None:
    assert _check(datasets["shorter=8"], sampler=sampler, seed=3) >= 4


def test_a_mixture_leads_each_sample_back_to_its_own_source(datasets: dict[str, stoker.Dataset]) -> None:
    mixture = stoker.mix([(datasets["fill=40x64"], 1.0), (datasets["none"], 1.0)])
    assert _check(mixture, shuffle=True) == 2 * len(TRUTH)


def test_what_a_crop_still_shows_leads_back(datasets: dict[str, stoker.Dataset]) -> None:
    """Of 30 x 20 pixels, crop=10x10 shows 20 x 20, from the column that DIGITS rounds to."""
    dataset = datasets["crop=10x10"]
    origins = dataset.origins(range(2))
    assert origins.sizes.tolist() == [[20, 30]] * 2
    np.testing.assert_allclose(origins.matrices[0], [[2, 0, 6], [0, 2, 0], [0, 0, 1]])
    second, transforms = dataset.select([1]), [Resize((30, 50))]
    (batch,) = stoker.ImageLoader(second, batch_size=1, transforms=transforms, columns=ORIGIN_COLUMNS)
    (box,) = to_source(batch.boxes[0][:1], batch.to_source[0])
    np.testing.assert_allclose(box, [6, 3, 12, 13], atol=1e-4)


def test_a_writer_keeps_the_way_back_and_appends(tmp_path: Path) -> None:
    picture = np.zeros((40, 20, 3), np.uint8)
    for append in (False, True):
        with stoker.Writer(tmp_path / "out", resize="shorter=10", append=append) as writer:
            writer.write(image=picture)
    origins = stoker.open(tmp_path / "out").origins([0, 1])
    assert origins.sizes.tolist() == [[40, 20]] * 2
    np.testing.assert_allclose(origins.matrices, [np.diag([2.0, 2.0, 1.0])] * 2)
