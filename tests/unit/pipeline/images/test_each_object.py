"""A sample for each object: person crops, targets of poses, and the way back to the photograph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import BOXES, FOLDERS, truth
from helpers.loaders import image_arguments

import stoker
from stoker.augment import (
    Mosaic,
    ObjectCrop,
    RandomHorizontalFlip,
    RandomRotation,
    Resize,
    from_heatmaps,
    from_simcc,
    heatmaps,
    keypoints_to_source,
    simcc,
)
from stoker.errors import ConfigError

TRAINING = [ObjectCrop((128, 96), scale=0.35, degrees=40), RandomHorizontalFlip()]
COLUMNS = ("image", "row", "boxes", "keypoints", "object_id", "to_source", "image_id")
OBJECTS = truth()["annotations"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("objects")
    source = FOLDERS["coco"](folder / "source")
    stoker.convert(source.src, folder / "shards")
    return stoker.open(folder / "shards")


def load(dataset: Any, **options: Any) -> stoker.ImageLoader:
    arguments = {"batch_size": 3, "columns": COLUMNS, "transforms": TRAINING, "shuffle": True}
    return stoker.ImageLoader(
        dataset, **image_arguments(objects="padded", num_threads=1, **{**arguments, **options})
    )


def test_a_sample_is_an_object_with_its_image(dataset: Any) -> None:
    each = dataset.select(each="object")
    assert len(each) == len(OBJECTS) == sum(map(len, BOXES))
    annotations = each.annotations(np.arange(len(each)))
    assert annotations.owner.tolist() == list(range(len(each)))
    assert annotations.id.tolist() == [annotation["id"] for annotation in OBJECTS]
    assert each.column("image_id").tolist() == [annotation["image_id"] for annotation in OBJECTS]
    people = dataset.select(objects="label == 0", each="object")
    assert people.annotations([0, 1, 3]).id.tolist() == [OBJECTS[i]["id"] for i in (0, 2, 5)]
    assert people.select([3, 0]).annotations([0, 1]).id.tolist() == [OBJECTS[5]["id"], OBJECTS[0]["id"]]
    assert people.lists("object_labels", [0, 1]).counts.tolist() == [1, 1]


def test_selections_of_images_and_of_their_objects_have_different_fingerprints(dataset: Any) -> None:
    each, people = dataset.select(each="object"), dataset.select(objects="label == 0", each="object")
    sources = (dataset, each, people, dataset.select(each.rows))
    assert len({source.fingerprint for source in sources}) == 4


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"each": "image"}, "each must be 'object'"),
        ({"each": "object"}, "already"),
        ({"objects": "not crowd"}, "the samples are objects already, each as it was chosen"),
    ],
)
def test_objects_are_not_selected_again_by_objects(
    dataset: Any, choice: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        dataset.select(each="object").select(**choice)


def test_a_crop_has_the_box_in_its_middle_at_its_scale(dataset: Any) -> None:
    each = dataset.select(each="object")
    with load(each, transforms=[ObjectCrop((128, 96))], shuffle=False, batch_size=7) as loader:
        batch = next(iter(loader))
    for annotation, matrix in zip(OBJECTS, batch.to_source, strict=True):
        x, y, width, height = annotation["bbox"]
        np.testing.assert_allclose(matrix @ (48, 64, 1), (x + width / 2, y + height / 2, 1), atol=1e-9)
        scale = 1.25 * max(width / 96, height / 128)
        np.testing.assert_allclose(matrix[:2, :2], np.eye(2) * scale, atol=1e-9)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_keypoints_and_their_targets_lead_back(dataset: Any, engine: str) -> None:
    swap = dataset.manifest.annotations.swap
    angles = set()
    with load(dataset.select(each="object"), engine=engine, seed=2) as loader:
        for batch in loader:
            maps, weights = heatmaps(batch.keypoints, (128, 96))
            assert maps.shape == (*weights.shape, 32, 24)
            along_x, along_y, _ = simcc(batch.keypoints, (128, 96))
            for k, number in enumerate(batch.object_id[:, 0]):
                matrix = batch.to_source[k]
                angles.add(round(float(np.degrees(np.arctan2(matrix[1, 0], abs(matrix[0, 0])))), 3))
                want = np.array(OBJECTS[number - 1]["keypoints"]).reshape(2, 3)[:, :2]
                inside = weights[k, 0] > 0
                pixel = np.linalg.norm(matrix[:2, 0])
                for points, bound in (
                    (batch.keypoints[k, 0], 1e-4),
                    (from_heatmaps(maps[k, 0]), 2 * pixel),
                    (from_simcc(along_x[k, 0], along_y[k, 0]), pixel / 2),
                ):
                    back = keypoints_to_source(points[None], matrix, swap=swap, coco=True)[0]
                    np.testing.assert_allclose(back[inside, :2], want[inside], atol=bound)
    assert len(angles) > 2, "some are turned"


def test_engines_agree_and_ranks_share_the_objects(dataset: Any) -> None:
    each = dataset.select(each="object")
    with load(each) as whole, load(each, engine="reference") as slow:
        for batch, other in zip(whole, slow, strict=True):
            assert np.abs(batch.image.astype(int) - other.image).max() <= 2
            np.testing.assert_array_equal(batch.keypoints, other.keypoints)
    seen = []
    for rank in range(2):
        with load(each, rank=rank, world_size=2, batch_size=2) as loader:
            seen += [row for batch in loader for row in batch.row.tolist()]
    assert sorted(seen) == list(range(len(each)))


def test_the_crop_keeps_the_detail_of_the_source(tmp_path: Path, dataset: Any) -> None:
    """A crop of an image that was resized to the output would be blurred."""
    people = dataset.select(each="object", objects="label == 0")
    with load(people, transforms=[ObjectCrop((128, 96), padding=0.2)], batch_size=1, shuffle=False) as loader:
        batch = next(iter(loader))
    image, matrix = dataset[0].image, batch.to_source[0]
    x, y = (matrix @ (48.5, 64.5, 1))[:2] - 0.5
    low, share = np.floor((x, y)).astype(int), np.array((x, y)) % 1
    corners = image[low[1] : low[1] + 2, low[0] : low[0] + 2].astype(float)
    rows = corners[0] * (1 - share[1]) + corners[1] * share[1]
    want = rows[0] * (1 - share[0]) + rows[1] * share[0]
    assert np.abs(batch.image[0, :, 64, 48] - want).max() <= 1


@pytest.mark.parametrize("before", [[Mosaic(64)], [Resize((64, 64)), RandomRotation(9)]])
def test_a_crop_of_objects_is_refused_after_warps_and_mosaics(dataset: Any, before: list[Any]) -> None:
    with pytest.raises(ConfigError, match="ObjectCrop stands after"):
        load(dataset.select(each="object"), transforms=[*before, ObjectCrop(32)], columns=("image",))


def test_targets_weigh_what_is_labelled() -> None:
    points = np.array([[[50, 30, 2], [50, 30, 0], [-90, 30, 2], [-1, 30, 1]]], float)
    maps, weights = heatmaps(points, (64, 96))
    assert weights.tolist() == [[1, 0, 0, 1]]
    assert maps.max(axis=(2, 3)) == pytest.approx(np.array([[1, 0, 0, 1]]), abs=0.2)
    with pytest.raises(ConfigError, match="must be multiples of stride, 4"):
        heatmaps(points, (63, 96))
    with pytest.raises(ConfigError, match=r"keypoints must be \(\.\.\., K, 3\)"):
        simcc(points[..., :2], (64, 96))


def test_dali_refuses_crops_of_objects(dataset: Any) -> None:
    with pytest.raises(ConfigError, match=r"'dali' does not execute .*\(ObjectCrop\)"):
        load(dataset.select(each="object"), engine="dali")
