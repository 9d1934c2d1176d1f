"""Columns of annotations: what is drawn into an image lies where the annotations of the batch say."""

from __future__ import annotations

import gc
import json
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import (
    COLUMNS,
    HEIGHT,
    WIDTH,
    N,
    annotations,
    bounding_box,
    first,
    load,
    rle,
    scenes,
    write_annotated,
)
from helpers.images import encode, png
from helpers.loaders import image_arguments
from helpers.processes import wait_until
from PIL import Image, ImageDraw

import stoker
from stoker import ImageLoader
from stoker.augment import (
    CenterCrop,
    ElasticTransform,
    MixUp,
    Mosaic,
    Pad,
    RandomAffine,
    RandomApply,
    RandomCrop,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
from stoker.augment.geometry.boxes import box_areas
from stoker.augment.plan import compile_image
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, DecodeError, StaleIndexError
from stoker.formats.dataset.annotations import Annotations, to_columns
from stoker.pipeline.execution.pipeline import ColumnSpec
from stoker.pipeline.images.batch_assembler import multi_hot
from stoker.pipeline.images.objects import BatchObjects, ObjectConfig, transform_objects

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


def test_a_state_without_columns_of_objects_does_not_record_their_form(annotated: Path) -> None:
    with load(annotated, columns=("image",)) as saved, load(annotated, columns=("row",), min_size=9) as other:
        other.load_state_dict(saved.state_dict())


def test_multi_hot_labels_are_mixed(annotated: Path) -> None:
    options = {"columns": ("image", "label")}
    plain = first(annotated, **options).label
    mixed = first(annotated, **options, transforms=[Resize((30, 40)), MixUp()]).label
    share = 1 - mixed[1, 1:]
    assert np.allclose(mixed[1], (1 - share[0]) * plain[1] + share[0] * plain[0])


pytestmark = pytest.mark.filterwarnings("ignore:a bad sample was")


@pytest.fixture(scope="module")
def make(pack_images: Callable[..., Path]) -> Callable[..., Path]:
    """``make(masks, **columns)``: the annotated dataset, with other masks and columns if given."""
    return partial(write_annotated, pack_images)


def damaged(make: Callable[..., Path], number: int, mask: bytes) -> Path:
    """The annotated dataset with another mask of sample ``number``."""
    masks = [png(scene.mask()) for scene in scenes()]
    return make([*masks[:number], mask, *masks[number + 1 :]])


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 80 60\n%%EndComments\n(a program) print\n%%EOF\n"


def impossible_tiff() -> bytes:
    """A TIFF whose strips begin at fractions of a byte, for which Pillow raises a TypeError."""
    file = bytearray(encode(np.zeros((HEIGHT, WIDTH), np.uint8), "TIFF"))
    (directory,) = struct.unpack_from("<I", file, 4)
    (entries,) = struct.unpack_from("<H", file, directory)
    for entry in range(directory + 2, directory + 2 + 12 * entries, 12):
        if struct.unpack_from("<H", file, entry) == (273,):  # StripOffsets
            struct.pack_into("<H", file, entry + 2, 12)  # double
    return bytes(file)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (b"no image", "cannot be decoded"),
        (png(np.zeros((HEIGHT, WIDTH), np.uint8))[:50], "cannot be decoded"),
        (png(np.zeros((8, 8), np.uint8)), "8 x 8 pixels, its image 60 x 80"),
        (png(np.zeros((HEIGHT, WIDTH, 3), np.uint8)), "mode RGB"),
        (png(np.full((HEIGHT, WIDTH), 256, np.uint16)), "the value 256, .* as uint8"),
        (impossible_tiff(), "cannot be decoded"),
        (EPS, "none of the formats of masks"),
        (encode(np.zeros((HEIGHT, WIDTH), np.uint8)), "none of the formats of masks"),
    ],
    ids=["no image", "truncated", "another size", "colours", "16 bits", "impossible TIFF", "EPS", "JPEG"],
)
def test_a_damaged_mask_is_an_error_of_its_sample(make: Callable[..., Path], mask: bytes, words: str) -> None:
    folder = damaged(make, 3, mask)
    with load(folder) as loader, pytest.raises(DecodeError, match=words) as caught:
        next(iter(loader))
    assert (caught.value.key, caught.value.record) == ("k3", 3)
    good = first(make())
    with load(folder, on_error="skip") as loader:
        batch = next(iter(loader))
        assert (loader.stats().skipped, loader.stats().bad_keys) == (1, ("k3",))
    kept = [0, 1, 2, 4, 5, 6]
    assert np.array_equal(batch.segmentation, good.segmentation[kept])
    assert [ids.tolist() for ids in batch.object_id] == [good.object_id[i].tolist() for i in kept]
    with load(folder, on_error="replace") as loader:
        batch = next(iter(loader))
    kept.insert(3, 4)
    assert np.array_equal(batch.segmentation, good.segmentation[kept])
    assert [boxes.tolist() for boxes in batch.boxes] == [good.boxes[i].tolist() for i in kept]


def test_a_mask_of_16_bits_with_small_values_is_read(make: Callable[..., Path]) -> None:
    masks = [png(scene.mask().astype(np.uint16)) for scene in scenes()]
    assert np.array_equal(first(make(masks)).segmentation, first(make()).segmentation)


def test_a_mask_with_a_wrong_checksum_is_named(make: Callable[..., Path]) -> None:
    crc = np.ones(N, np.uint32)
    with load(make(mask_crc=crc)) as loader, pytest.raises(CorruptRecordError, match="mask's checksum"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("bad", "message"), [(4, "run lengths of a mask do not"), (2, "a vertex that is not finite")]
)
def test_an_impossible_shape_of_an_object_is_named(make: Callable[..., Path], bad: int, message: str) -> None:
    parts = [annotations(i, scene) for i, scene in enumerate(scenes())]
    if bad == 4:  # the masks of all objects are run lengths, here of another image size
        for i, part in enumerate(parts):
            runs = [np.array([0, HEIGHT * WIDTH - (i == bad)], np.uint32)] * len(part)
            parts[i] = replace(part, runs=runs, polygons=[[] for _ in runs])
    else:
        polygons = parts[bad].polygons
        assert polygons is not None
        polygons[1][0][2, 1] = np.nan
    folder = make(**to_columns(parts))
    with load(folder) as loader, pytest.raises(CorruptRecordError, match=message) as caught:
        next(iter(loader))
    assert caught.value.key == f"k{bad}"
    with load(folder, on_error="skip", columns=("row", "masks")) as loader:
        batch = next(iter(loader))
    assert batch.row.tolist() == [i for i in range(N) if i != bad]
    assert bad == 2 or all((masks == 1).all() for masks in batch.masks)


@pytest.mark.parametrize("options", [{"compress_level": 0}, {"optimize": True}])
def test_masks_that_only_pillow_decodes_are_read(make: Callable[..., Path], options: dict[str, Any]) -> None:
    """A palette, and one bit a pixel, beside a mask that is decoded in C++."""
    masks = [Image.fromarray(scene.mask()) for scene in scenes()]
    masks[1] = Image.fromarray(scenes()[1].mask() > 0)
    masks[2] = masks[2].convert("P")
    files = [encode(mask, "PNG", **options) for mask in masks]
    assert {file[24:26] for file in files} >= {b"\x08\x00", b"\x01\x00"}
    assert np.array_equal(first(make(files)).segmentation, first(make()).segmentation)


DRAWN_HEIGHT, DRAWN_WIDTH = 20, 30
# Left, top, right, bottom and category of each object, in the order of the file; the last is a crowd.
OBJECTS = [(2, 2, 12, 12, 5), (8, 4, 20, 10, 9), (3, 3, 5, 5, 5), (1, 15, 6, 18, 9), (22, 10, 30, 20, 5)]
WHOLE = [Resize((DRAWN_HEIGHT, DRAWN_WIDTH))]


def write(folder: Path, objects: Any = OBJECTS, names: int = 2) -> Path:
    """A conversion of two images; the second has no objects."""
    folder.mkdir(exist_ok=True)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (DRAWN_WIDTH, DRAWN_HEIGHT)).save(folder / name)
    annotations = []
    for number, (left, top, right, bottom, category) in enumerate(objects):
        mask = np.zeros((DRAWN_HEIGHT, DRAWN_WIDTH), bool)
        mask[top:bottom, left:right] = True
        crowd = number == 4
        polygon = [[left, top, right, top, right, bottom, left, bottom]]
        annotations.append(
            {
                "id": number,
                "image_id": 1,
                "category_id": category,
                "bbox": [left, top, right - left, bottom - top],
                "segmentation": rle(mask) if crowd else polygon,
                "iscrowd": int(crowd),
            }
        )
    images = [
        {"id": 1 + number, "file_name": name, "height": DRAWN_HEIGHT, "width": DRAWN_WIDTH}
        for number, name in enumerate(("a.png", "b.png"))
    ]
    categories = [{"id": 5, "name": "ape"}, {"id": 9, "name": "bee"}]
    categories += [{"id": 100 + extra, "name": f"class {extra}"} for extra in range(names - 2)]
    truth = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "objects.json").write_text(json.dumps(truth))
    stoker.convert(
        folder / "objects.json", folder / "shards", source_options=stoker.SourceOptions(images=folder)
    )
    return folder / "shards"


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("classes"))


def drawn(source: Any, transforms: Any = WHOLE, **options: Any) -> Any:
    """The class masks of both images, (2, H, W)."""
    arguments = {"batch_size": 2, "columns": ("image", "segmentation"), **options}
    with stoker.ImageLoader(source, **image_arguments(transforms=transforms, **arguments)) as loader:
        return next(iter(loader)).segmentation


def expected() -> np.ndarray[Any, Any]:
    """The rule of torchvision's ConvertCocoPolysToMask, crowds ignored."""
    values, covered = np.zeros((2, 2, DRAWN_HEIGHT, DRAWN_WIDTH), int)
    for left, top, right, bottom, category in OBJECTS:
        at = np.s_[0, top:bottom, left:right]
        values[at] = np.maximum(values[at], {5: 1, 9: 2}[category])
        covered[at] += 1
    values[covered > 1] = 255
    values[0, 10:20, 22:30] = 255
    return values


def test_a_pixel_has_the_class_of_the_only_object_that_covers_it(coco: Path) -> None:
    masks = drawn(coco)
    assert masks.dtype == np.uint8
    assert np.array_equal(masks, expected())
    assert set(np.unique(masks)) == {0, 1, 2, 255}
    assert np.array_equal(drawn(coco, engine="reference"), masks)


def test_drawn_masks_follow_transforms_as_stored_masks_do(coco: Path, tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "stored") as writer:
        for number, mask in enumerate(expected()):
            image = np.zeros((DRAWN_HEIGHT, DRAWN_WIDTH, 3), np.uint8)
            writer.write(image, key=str(number), segmentation=mask.astype(np.uint8))
    for transform in (
        RandomHorizontalFlip(1.0),
        RandomRotation((90, 90)),
        Pad(4),
        Pad(4, padding_mode="reflect"),
        ElasticTransform(30.0, 3.0),
    ):
        masks = drawn(coco, [*WHOLE, transform])
        assert not np.array_equal(masks, expected()), transform
        assert np.array_equal(masks, drawn(tmp_path / "stored", [*WHOLE, transform])), transform


def test_drawn_masks_are_padded_with_the_value_to_ignore(coco: Path) -> None:
    padded = drawn(coco, [], sizes="padded", pad_to_multiple_of=32)
    assert padded.shape == (2, 32, 32)
    assert np.array_equal(padded[:, :DRAWN_HEIGHT, :DRAWN_WIDTH], expected())
    assert (padded[:, DRAWN_HEIGHT:] == 255).all()


def test_objects_that_a_selection_leaves_out_are_background(coco: Path) -> None:
    masks = drawn(stoker.open(coco).select(objects="not crowd and area >= 10"))
    assert (masks[0, 10:20, 22:30] == 0).all()
    assert (masks[0, 3:5, 3:5] == 1).all()


def test_min_size_drops_boxes_and_leaves_class_masks(coco: Path) -> None:
    assert np.array_equal(drawn(coco, min_size=100), expected())


def test_more_classes_than_bytes_hold_are_int64_and_ignore_65535(tmp_path: Path) -> None:
    masks = drawn(write(tmp_path / "many", names=255))
    assert masks.dtype == np.int64
    assert np.array_equal(np.where(masks == 65535, 255, masks), expected())


def test_boxes_alone_have_no_class_masks(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "boxes", classes=["ape"]) as writer:
        writer.write(np.zeros((8, 8, 3), np.uint8), boxes=[[1, 1, 4, 4]], box_labels=[0])
    with pytest.raises(ConfigError, match="there is no 'segmentation'"):
        drawn(tmp_path / "boxes")


def transformed(transforms: list[Any], box: list[float], area: float) -> BatchObjects:
    """An object of an image of 100 x 100 pixels after the transforms."""
    size, zero = np.array([100]), np.zeros(1, np.int64)
    params = compile_image(transforms).draw(size, size, zero, 0, 0)
    boxes, areas = np.array([box], np.float32), np.array([area], np.float32)
    annotations = Annotations(zero, boxes, zero, zero > 0, areas, zero)
    return transform_objects(annotations, params, size, size, ObjectConfig(columns=frozenset({"area"})))


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [
        ([Resize((50, 200))], 300.0),
        ([Resize((50, 50)), RandomHorizontalFlip(1.0)], 75.0),
        ([CenterCrop(60)], 150.0),  # half of the box lies within
        ([Resize((50, 50)), RandomRotation((45, 45))], 75.0),
    ],
)
def test_areas_scale_with_the_image_and_with_the_visible_share(
    transforms: list[Any], expected: float
) -> None:
    """An object that covers three quarters of its box, 20 x 20."""
    objects = transformed(transforms, [10, 40, 30, 60], 300.0)
    assert objects.columns["area"] == pytest.approx([expected], rel=1e-6)


def test_areas_in_perspective_scale_as_at_the_centre_of_the_box() -> None:
    transforms = [Resize((100, 100)), RandomPerspective(0.5, p=1)]
    objects = transformed(transforms, [49, 49, 51, 51], 4.0)
    left, top, right, bottom = objects.columns["boxes"][0]
    box_area = (right - left) * (bottom - top)
    assert 0.3 * box_area < objects.columns["area"][0] <= box_area


def test_keypoints_whose_sides_are_not_known_are_not_mirrored(tmp_path: Path) -> None:
    point = [[[2, 3, 2], [6, 3, 2]]]
    with stoker.Writer(tmp_path / "out") as writer:
        writer.write(
            image=png(np.zeros((8, 8, 3), np.uint8)), boxes=[[0, 0, 8, 8]], box_labels=[0], keypoints=point
        )

    def points(flip: Any, *swap: int) -> Any:
        options: dict[str, Any] = {"columns": ("image", "keypoints"), "objects": stoker.Objects(swap=swap)}
        loader = ImageLoader(tmp_path / "out", batch_size=1, transforms=[CenterCrop(8), *flip], **options)
        return next(iter(loader)).keypoints[0][0, :, 0].tolist()

    flip = RandomHorizontalFlip(1.0)
    assert points([]) == points([flip, flip]) == [2, 6]
    for mirrors in ([flip], [RandomApply([RandomVerticalFlip(1.0)], p=1.0)]):
        with pytest.raises(ConfigError, match="which keypoints are left and right is not known"):
            points(mirrors)
    assert (points([flip], 0, 1), points([flip], 1, 0)) == ([6, 2], [2, 6])
    with pytest.raises(
        ConfigError, match=r"swap must name each of the 2 keypoints of the dataset once, found \[1\]"
    ):
        points([], 1)


@pytest.fixture(scope="module")
def oriented(tmp_path_factory: pytest.TempPathFactory) -> stoker.Dataset:
    """Four images with a turned rectangle of level 200 each, as YOLO's lines of four corners."""
    root = tmp_path_factory.mktemp("oriented")
    rng = np.random.default_rng(2)
    for kind in ("images", "labels"):
        (root / kind / "train").mkdir(parents=True)
    for i in range(4):
        along = rng.uniform(0, np.pi)
        axes = np.array([[np.cos(along), np.sin(along)], [-np.sin(along), np.cos(along)]])
        corners = np.array([[-35, -12], [35, -12], [35, 12], [-35, 12]]) @ axes + (80, 60)
        image = Image.new("RGB", (160, 120))
        ImageDraw.Draw(image).polygon(list(map(tuple, corners - 0.5)), (200, 200, 200))
        image.save(root / "images" / "train" / f"{i}.png")
        line = " ".join(f"{value:.6f}" for value in (corners / (160, 120)).ravel())
        (root / "labels" / "train" / f"{i}.txt").write_text(f"0 {line}\n")
    (root / "data.yaml").write_text(f"path: {root}\ntrain: images/train\nnames: [ship]\n")
    stoker.convert(root / "data.yaml", root / "out", resize="shorter=100")
    return stoker.open(root / "out" / "train")


@pytest.mark.parametrize(
    "chain",
    [
        [],
        [RandomHorizontalFlip(1)],
        [RandomRotation((30, 30), interpolation="bilinear"), RandomVerticalFlip(1)],
        [RandomAffine(20, translate=(0.1, 0.1), scale=(0.8, 1.2), shear=(10, 10))],
        [RandomPerspective(0.3, 1)],
        [Pad(9), RandomCrop((96, 96))],
        [RandomResizedCrop((80, 90), scale=(0.5, 0.9))],
        [ElasticTransform(alpha=20.0)],
        [Mosaic(128)],
    ],
    ids=lambda chain: type(chain[0]).__name__ if chain else "none",
)
def test_corners_of_oriented_boxes_follow_the_transforms_of_their_image(
    oriented: stoker.Dataset, chain: list[Any]
) -> None:
    columns = ("image", "boxes", "corners", "area")
    # Of a displaced image, boxes also lie in the displaced upright boxes.
    tolerance = 1 if chain and isinstance(chain[0], ElasticTransform) else 1e-3
    transforms = chain if chain and isinstance(chain[0], Mosaic) else [Resize((90, 120)), *chain]
    with ImageLoader(oriented, batch_size=4, columns=columns, transforms=transforms, seed=3) as loader:
        batch = next(iter(loader))
    assert sum(map(len, batch.corners)) >= 4
    for pixels, boxes, corners, areas in zip(
        batch.image, batch.boxes, batch.corners, batch.area, strict=True
    ):
        height, width = pixels.shape[1:]
        drawn = Image.new("L", (4 * width, 4 * height))
        for box, four, area in zip(boxes, corners, areas, strict=True):
            ImageDraw.Draw(drawn).polygon([tuple(4 * point - 0.5) for point in four], 255)
            seen = np.concatenate((four.min(axis=0), four.max(axis=0)))
            np.testing.assert_allclose(box, seen.clip(0, (width, height) * 2), atol=tolerance)
            assert area > 0
        held, shown = np.asarray(drawn.reduce(4)) > 127, pixels[0] > 150
        assert (held & shown).sum() > 0.85 * (held | shown).sum()


def test_corners_are_a_column_only_where_every_object_has_them(tmp_path: Path) -> None:
    quad = "0 0 0 .5 .1 .5 .5 0 .4"
    lines = {
        "quads": f"{quad}\n0 .1 .1 .4 .1 .4 .5 .1 .5 .1 .1",
        "boxes": f"0 .5 .5 .2 .2\n{quad}",
        "outlines": f"{quad}\n{quad} .1 .1",
    }
    found = {}
    for name, text in lines.items():
        for kind in ("images", "labels"):
            (tmp_path / name / kind).mkdir(parents=True)
        Image.new("RGB", (80, 40)).save(tmp_path / name / "images" / "a.png")
        (tmp_path / name / "labels" / "a.txt").write_text(text)
        stoker.convert(tmp_path / name, tmp_path / "out" / name)
        found[name] = stoker.open(tmp_path / "out" / name)
    assert [one.annotations([0]).corners is None for one in found.values()] == [False, True, True]
    quads = found["quads"].annotations([0]).corners
    assert quads is not None
    np.testing.assert_allclose(quads[0], [[0, 0], [40, 4], [40, 20], [0, 16]], atol=1e-5)
    np.testing.assert_allclose(quads[1], [[8, 4], [32, 4], [32, 20], [8, 20]], atol=1e-5)
    with pytest.raises(ConfigError, match="corners"):
        ImageLoader(found["outlines"], batch_size=1, columns=("image", "corners"), transforms=SMALL)
    assert "object_corners" not in stoker.mix([(found["quads"], 1), (found["outlines"], 1)]).types
    folders = [tmp_path / "out" / name for name in ("outlines", "quads")]
    stoker.merge(folders, tmp_path / "joined")
    assert "object_corners" not in stoker.open(tmp_path / "joined").columns
    with pytest.raises(ConfigError, match="object_corners"):
        stoker.merge(folders[::-1], tmp_path / "refused")


def test_a_writer_takes_corners(tmp_path: Path) -> None:
    sample = {"boxes": [[0, 0, 8, 8]], "box_labels": [0], "corners": [[[4, 0], [8, 4], [4, 8], [0, 4]]]}
    with stoker.Writer(tmp_path / "out", resize="squash=20x20") as writer:
        writer.write(np.zeros((40, 80, 3), np.uint8), **sample)
        with pytest.raises(ConfigError, match=r"corners must be finite and have the shape \(1, 4, 2\)"):
            writer.write(np.zeros((40, 80, 3), np.uint8), **{**sample, "corners": [[0, 0, 8, 8]]})
    corners = stoker.open(tmp_path / "out").annotations([0]).corners
    assert corners is not None
    assert corners.tolist() == [[[1, 0], [2, 2], [1, 4], [0, 2]]]
