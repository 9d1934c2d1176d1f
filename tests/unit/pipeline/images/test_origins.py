"""The way back from a batch to the pixels of images that a conversion has resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import convert, document, write_coco_images
from helpers.loaders import image_arguments

import stoker
from stoker.augment import RandomHorizontalFlip, Resize, keypoints_to_source, to_source

COLUMNS = ("image", "boxes", "keypoints", "object_id", "to_source", "source_size", "image_id")
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
        dataset, **image_arguments(batch_size=3, transforms=transforms, columns=COLUMNS, **options)
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
    (batch,) = stoker.ImageLoader(second, batch_size=1, transforms=transforms, columns=COLUMNS)
    (box,) = to_source(batch.boxes[0][:1], batch.to_source[0])
    np.testing.assert_allclose(box, [6, 3, 12, 13], atol=1e-4)


def test_category_ids_are_those_of_the_file(datasets: dict[str, stoker.Dataset], tmp_path: Path) -> None:
    dataset = datasets["none"]
    assert dict(zip(dataset.classes, dataset.category_ids, strict=True)) == {
        "ape": 3,
        "mouse": 7,
        "zebra": 90,
    }
    assert dataset.select(classes=["zebra", "ape"], renumber=True).category_ids == (90, 3)
    write_coco_images(tmp_path)
    other = convert(tmp_path, document(), classes=("zebra", "gnu", "mouse", "ape"))
    assert other.category_ids == (90, -1, 7, 3)


def test_a_writer_keeps_the_way_back_and_appends(tmp_path: Path) -> None:
    picture = np.zeros((40, 20, 3), np.uint8)
    for append in (False, True):
        with stoker.Writer(tmp_path / "out", resize="shorter=10", append=append) as writer:
            writer.write(image=picture)
    origins = stoker.open(tmp_path / "out").origins([0, 1])
    assert origins.sizes.tolist() == [[40, 20]] * 2
    np.testing.assert_allclose(origins.matrices, [np.diag([2.0, 2.0, 1.0])] * 2)
