"""The evaluation of LVIS: the ground truth scores 1.000, and predictions of unknown classes do not count.

No image of LVIS is annotated for all classes. It lists the classes that it does not show
(``neg_category_ids``), and those with objects that are not annotated (``not_exhaustive_category_ids``). Its
objects show further classes. The file says nothing about any other class.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import truth, write_images

import stoker
from stoker.augment import load_recipe, to_source

pytest.importorskip("pycocotools", reason="pip install pycocotools")
from helpers.coco_scores import average_precision

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")
PERSON, CAR, DOG = 1, 2, 3
BOX = [1.0, 1.0, 20.0, 20.0]


def federated() -> dict[str, Any]:
    """The scene, where image 1 has a dog, image 2 has none, and image 3 may have people and dogs as well."""
    content = truth()
    content["annotations"][2]["category_id"] = DOG
    content["categories"].append({"id": DOG, "name": "dog"})
    for category in content["categories"]:
        category["frequency"] = "f"
    for image, negative, not_exhaustive in zip(
        content["images"], ([], [DOG], []), ([], [], [PERSON]), strict=True
    ):
        image |= {"neg_category_ids": negative, "not_exhaustive_category_ids": not_exhaustive}
        image["coco_url"] = f"http://images.cocodataset.org/train2017/{image.pop('file_name')}"
    return content


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, stoker.Dataset]:
    """The file, and its conversion."""
    folder = tmp_path_factory.mktemp("lvis")
    write_images(folder)
    (folder / "lvis.json").write_text(json.dumps(federated()))
    stoker.convert(folder / "lvis.json", folder / "shards")
    return folder / "lvis.json", stoker.open(folder / "shards")


def brought_back(dataset: stoker.Dataset) -> list[dict[str, Any]]:
    """The objects, through a recipe and back."""
    columns = ("image", "boxes", "box_labels", "to_source", "source_size", "image_id")
    found = []
    with stoker.ImageLoader(
        dataset, batch_size=1, transforms=load_recipe("coco-multiscale"), columns=columns
    ) as loader:
        for batch in loader:
            boxes = to_source(batch.boxes[0], batch.to_source[0], size=batch.source_size[0]).tolist()
            for (left, top, right, bottom), label in zip(boxes, batch.box_labels[0], strict=True):
                ids = {"image_id": int(batch.image_id[0]), "category_id": dataset.category_ids[label]}
                found.append(ids | {"bbox": [left, top, right - left, bottom - top], "score": 0.5})
    return found


def by_lvis(file: Path, dataset: stoker.Dataset, results: list[dict[str, Any]]) -> float:
    lvis = pytest.importorskip("lvis", reason="pip install lvis")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "float", float, raising=False)  # NumPy 1.24 has removed what lvis 0.5.3 uses
        known = lvis.LVIS(str(file))
        run = lvis.LVISEval(known, lvis.LVISResults(known, results), "bbox")
        run.run()
        return float(run.get_results()["AP"])


def by_pycocotools(file: Path, dataset: stoker.Dataset, results: list[dict[str, Any]]) -> float:
    """LVIS' rules by the lists of the dataset: COCO's evaluation ignores predictions in a crowd."""
    every = np.arange(len(dataset))
    content = json.loads(file.read_text())
    shown = {(known["image_id"], known["category_id"]) for known in content["annotations"]}
    for image_id, (height, width), absent, partly in zip(
        dataset.column("image_id"),
        dataset.origins(every).sizes.tolist(),
        *(lists_of(dataset, name) for name in ("neg_category_ids", "not_exhaustive_category_ids")),
        strict=True,
    ):
        shown |= {(image_id, category) for category in absent}
        whole = {"image_id": image_id, "bbox": [0, 0, width, height], "area": width * height, "iscrowd": 1}
        content["annotations"] += [
            whole | {"category_id": category, "id": 1000 * image_id + category} for category in partly
        ]
    kept = [result for result in results if (result["image_id"], result["category_id"]) in shown]
    return average_precision(content, kept, "bbox")


def lists_of(dataset: stoker.Dataset, name: str) -> list[list[int]]:
    found = dataset.lists(name, np.arange(len(dataset)))
    return [part.tolist() for part in np.split(found.values, found.starts[1:-1])]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("evaluate", [by_pycocotools, by_lvis])
def test_ground_truth_scores_one_and_only_what_is_known_counts(scene: Any, evaluate: Any) -> None:
    file, dataset = scene
    right = brought_back(dataset)
    wrong = {"bbox": BOX, "score": 0.9}
    unknown = [wrong | {"image_id": 3, "category_id": category} for category in (PERSON, DOG)]
    known = [wrong | {"image_id": 2, "category_id": DOG}]
    assert f"{evaluate(file, dataset, [*right, *unknown]):.3f}" == "1.000"
    assert evaluate(file, dataset, [*right, *known]) < 0.9
