"""Columns of annotations: what is drawn into an image lies where the annotations of the batch say."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import (
    COLUMNS,
    N,
    bounding_box,
    first,
    load,
    scenes,
    write_annotated,
)
from helpers.processes.waiting import wait_until

from stoker import ImageLoader
from stoker.augment import (
    CenterCrop,
    ElasticTransform,
    RandomCrop,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomRotation,
    Resize,
)
from stoker.augment.geometry.boxes import box_areas
from stoker.errors import CheckpointError, ConfigError, DatasetError, StaleIndexError
from stoker.pipeline.execution.batch import ColumnSpec
from stoker.pipeline.images.batch_assembler import multi_hot

SMALL = [Resize((30, 40))]
CHAINS = {
    "resize": [Resize((30, 40))],
    "crop": [RandomResizedCrop((48, 64), scale=(0.5, 1.0)), RandomHorizontalFlip()],
    "rotation": [Resize((60, 80)), RandomRotation((90, 90))],
    "boxes decide": [RandomIoUCrop(), RandomHorizontalFlip(1.0), Resize((48, 64))],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_annotations_follow_the_transforms_of_their_image(annotated: Path, chain: str) -> None:
    batch = first(annotated, transforms=CHAINS[chain], engine="auto")
    checked = 0
    for i in range(N):
        rectangle = np.flatnonzero(batch.object_id[i] == 100 * i)
        bright = batch.image[i, 0] > 100
        assert np.count_nonzero(bright != (batch.segmentation[i] == 1)) <= sum(bright.shape)
        if not rectangle.size:
            assert np.count_nonzero(bright) <= 8 * max(bright.shape)
            continue
        (k,) = rectangle
        box = batch.boxes[i][k]
        assert np.abs(box - bounding_box(bright)).max() <= 1
        assert np.abs(box - bounding_box(batch.masks[i][k] > 0)).max() <= 1
        assert batch.area[i][k] == pytest.approx(np.prod(box[2:] - box[:2]), rel=0.02)
        points = batch.keypoints[i][k]
        for x, y, seen in points[points[:, 2] > 0]:
            assert bright[int(y), int(x)]
            assert seen == 2
        checked += 1
    assert checked >= 4


def test_annotations_follow_an_elastic_image(annotated: Path) -> None:
    chain = [Resize((60, 80)), ElasticTransform(90.0, 10.0)]
    batch, slow = (first(annotated, transforms=chain, engine=engine) for engine in ("native", "reference"))
    assert np.array_equal(batch.image, slow.image)
    assert np.array_equal(batch.segmentation, slow.segmentation)
    assert (batch.image != first(annotated, transforms=chain[:1]).image).any()
    for i in range(N):
        k = batch.object_id[i].tolist().index(100 * i)  # the rectangle
        bright = batch.image[i, 0] > 100
        assert np.count_nonzero(bright != (batch.segmentation[i] == 1)) <= 10  # halves of pixels
        assert np.array_equal(batch.segmentation[i] == 1, batch.masks[i][k] == 1)
        assert np.abs(batch.boxes[i][k] - bounding_box(bright)).max() < 2
        for x, y, seen in batch.keypoints[i][k]:
            assert seen == 2
            assert bright[int(y), int(x)]


def test_to_source_is_refused_beside_an_elastic_transform(annotated: Path) -> None:
    with pytest.raises(ConfigError, match="which cannot express ElasticTransform"):
        load(annotated, columns=("image", "to_source"), transforms=[*SMALL, ElasticTransform()])


def test_random_iou_crop_cuts_by_boxes(annotated: Path) -> None:
    columns = ("boxes", "object_id")
    whole = first(annotated, columns=columns)
    cut = first(
        annotated, columns=columns, transforms=[RandomIoUCrop(sampler_options=(0.3,)), Resize((30, 40))]
    )
    for ids, all_ids in zip(cut.object_id, whole.object_id, strict=True):
        assert len(ids)
        assert set(ids) <= set(all_ids)
    assert not any(np.array_equal(*boxes) for boxes in zip(cut.boxes, whole.boxes, strict=True))


def test_an_image_that_is_too_small_after_a_cut_by_boxes_is_named(annotated: Path) -> None:
    chain = [RandomIoUCrop(sampler_options=(0.0,), max_scale=0.8), RandomCrop(60)]
    with pytest.raises(ConfigError, match="larger than an image") as caught:
        first(annotated, columns=("image",), transforms=chain)
    assert caught.value.key == "k0"


def test_dropped_objects_are_in_no_column(annotated: Path) -> None:
    everything = first(annotated)
    assert [len(boxes) for boxes in everything.boxes] == [1, 2, 3, 1, 2, 3, 1]
    names = ("boxes", "box_labels", "object_id", "crowd", "area", "keypoints", "masks", "object_difficult")
    crop = {"transforms": [CenterCrop(20)], "columns": names}
    for options in (crop, {**crop, "min_visible": 0.3}, {**crop, "min_size": 12.5}):
        batch = first(annotated, **options)
        for i in range(N):
            assert len({len(column[i]) for column in batch}) == 1
            assert set(batch.object_id[i]) <= set(everything.object_id[i])
            assert (batch.object_difficult[i] == batch.object_id[i] % 100 % 2).all()
            assert (batch.crowd[i] == (batch.object_id[i] % 100 == 1)).all()


def test_objects_below_min_size_or_min_visible_are_dropped(annotated: Path) -> None:
    names = ("boxes", "object_id")
    plain = first(annotated, columns=names, transforms=[Resize((60, 80))])
    areas = dict(zip(np.concatenate(plain.object_id), box_areas(np.concatenate(plain.boxes)), strict=True))
    crop = {"transforms": [CenterCrop(20)], "columns": names}
    cropped = first(annotated, **crop)
    boxes, ids = np.concatenate(cropped.boxes), np.concatenate(cropped.object_id)
    share = box_areas(boxes) / [areas[number] for number in ids]
    for options, kept in (
        ({"min_size": 12.5}, (boxes[:, 2:] - boxes[:, :2] >= 12.5).all(axis=1)),
        ({"min_visible": 0.3}, share >= 0.3),
    ):
        batch = first(annotated, **crop, **options)
        assert np.concatenate(batch.object_id).tolist() == ids[kept].tolist()
        assert np.concatenate(batch.boxes).tolist() == boxes[kept].tolist()
        assert 0 < kept.sum() < len(kept)


@pytest.mark.parametrize("warp", [[], [RandomRotation((0, 0))]])
def test_left_and_right_keypoints_are_exchanged_in_a_mirrored_image(annotated: Path, warp: list[Any]) -> None:
    plain = first(annotated)
    flipped = first(annotated, transforms=[Resize((30, 40)), RandomHorizontalFlip(1.0), *warp])
    for before, after in zip(plain.keypoints, flipped.keypoints, strict=True):
        assert np.allclose(after[:, 0, 0], 40 - before[:, 1, 0])
        assert np.allclose(after[:, 0, 1], before[:, 1, 1])


@pytest.mark.parametrize("form", ["XYWH", "CXCYWH"])
def test_boxes_have_the_format_that_was_asked_for(annotated: Path, form: str) -> None:
    for xyxy, other in zip(first(annotated).boxes, first(annotated, box_format=form).boxes, strict=True):
        extent = xyxy[:, 2:] - xyxy[:, :2]
        assert np.allclose(other[:, 2:], extent)
        assert np.allclose(other[:, :2], xyxy[:, :2] + (extent / 2 if form == "CXCYWH" else 0))


def test_padded_columns_have_room_for_the_largest_number_of_objects(annotated: Path) -> None:
    ragged, padded = first(annotated), first(annotated, objects="padded")
    assert padded.count.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert padded.boxes.shape == (N, 3, 4)
    assert padded.masks.shape == (N, 3, 30, 40)
    assert first(annotated, objects="padded", columns=("segmentation",))._fields == ("segmentation",)
    for name in COLUMNS[1:-1]:
        whole = getattr(padded, name)
        for i, (part, count) in enumerate(zip(getattr(ragged, name), padded.count, strict=True)):
            assert np.array_equal(whole[i, :count], part)
            assert not whole[i, count:].any()


def test_element_spec_describes_the_columns_of_objects(annotated: Path) -> None:
    for form in ("ragged", "padded"):
        with load(
            annotated, objects=form, columns=(*COLUMNS, "object_difficult", "label", "count")
        ) as loader:
            spec, batch = loader.element_spec(), next(iter(loader))
        assert batch._fields == tuple(column.name for column in spec)
        for column, value in zip(spec, batch, strict=True):
            array = value[2] if column.ragged else value
            assert array.dtype.name == column.dtype, column.name
            shape = (None, *column.shape) if not column.ragged else column.shape
            assert len(shape) == array.ndim, column.name
            assert all(a in (None, b) for a, b in zip(shape, array.shape, strict=True)), column.name
    assert ColumnSpec("boxes", "float32", (None, 4)) in spec


def test_samples_with_several_labels_have_multi_hot_labels(annotated: Path) -> None:
    labels = first(annotated, columns=("label",)).label
    assert labels.dtype == np.float32
    assert labels.tolist()[:3] == [[0, 0, 0], [0, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_not_a_class_is_refused(label: int) -> None:
    with pytest.raises(DatasetError, match=f"label {label} in a dataset of 3 classes"):
        multi_hot(np.array([0, label]), np.array([2]), 3)


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
def test_shuffled_samples_on_several_ranks_keep_their_annotations(annotated: Path) -> None:
    wanted = first(annotated)
    with load(
        annotated, shuffle=True, batch_size=3, columns=("row", "object_id"), last_batch="pad"
    ) as loader:
        for batch in loader:
            for row, ids in zip(batch.row, batch.object_id, strict=True):
                assert ids.tolist() == wanted.object_id[row].tolist()
    with load(annotated, rank=2, world_size=3, batch_size=2, columns=COLUMNS) as loader:
        last = list(loader)[-1]
    assert (last.image.shape, last.boxes, last.segmentation.shape) == ((0, 3, 30, 40), [], (0, 30, 40))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objects": "list"}, "objects must be one of ragged, padded, found 'list'"),
        ({"box_format": "YXYX"}, "box_format must be one of XYXY"),
        ({"min_visible": 1.5}, "min_visible must be a share"),
        ({"min_size": -1}, "min_size must be pixels"),
        ({"min_size": float("inf")}, "min_size must be pixels"),
        ({"columns": ("object_boxes",)}, "'object_boxes' holds large_list"),
    ],
)
def test_wrong_arguments_are_refused(annotated: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(annotated, **options)


def test_a_dataset_without_objects_has_no_such_columns(thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'boxes'"):
        load(thumbnails, columns=("boxes",))
    with pytest.raises(ConfigError, match="decides by boxes, and the dataset has none"):
        load(thumbnails, columns=("image",), transforms=[RandomIoUCrop(), Resize((8, 8))])


def test_annotation_threads_end_with_the_loader(
    annotated: Path, new_threads: Callable[[str], list[threading.Thread]]
) -> None:
    loader = load(annotated)
    next(iter(loader))
    assert new_threads("stoker-annotations")
    del loader
    gc.collect()
    with load(annotated) as loader:
        next(iter(loader))
    wait_until(lambda: not new_threads("stoker-annotations"))


def test_masks_are_read_only_if_a_column_needs_them(pack_images: Callable[..., Path]) -> None:
    without_owner = [[9] * len(scene.boxes) for scene in scenes()]
    folder = write_annotated(pack_images, object_polygon_owner=without_owner)
    with ImageLoader(
        folder, batch_size=N, transforms=SMALL, columns=("image", "boxes", "keypoints")
    ) as loader:
        batch = next(iter(loader))
    assert [len(boxes) for boxes in batch.boxes] == [len(points) for points in batch.keypoints]
    with (
        pytest.raises(StaleIndexError, match="object_polygon_owner"),
        ImageLoader(folder, batch_size=N, transforms=SMALL, columns=("image", "masks")) as loader,
    ):
        next(iter(loader))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_visible": 0.5}, "min_visible was 0.25 and is 0.5"),
        ({"min_size": 0}, "min_size was 2.0 and is 0.0"),
        ({"box_format": "XYXY"}, "box_format was 'XYWH' and is 'XYXY'"),
    ],
)
def test_a_state_is_refused_if_other_objects_are_handed_out(
    annotated: Path, change: dict[str, Any], message: str
) -> None:
    options = {"min_visible": np.float32(0.25), "min_size": 2, "box_format": "XYWH"}
    with load(annotated, columns=("image", "boxes"), **options) as saved:
        state = saved.state_dict()
        saved.load_state_dict(state)
    with (
        load(annotated, columns=("image", "boxes"), **{**options, **change}) as other,
        pytest.raises(CheckpointError) as caught,
    ):
        other.load_state_dict(state)
    assert caught.value.message == f"the state belongs to another loader: {message}"


def test_a_state_without_columns_of_objects_does_not_record_their_form(annotated: Path) -> None:
    with load(annotated, columns=("image",)) as saved, load(annotated, columns=("row",), min_size=9) as other:
        other.load_state_dict(saved.state_dict())
