"""Annotations in batches: what is drawn in an image is found where the annotations say it is."""

from __future__ import annotations

import gc
import io
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from stoker import ImageLoader
from stoker._native import crc32c
from stoker.augment import (
    CenterCrop,
    CutMix,
    MixUp,
    Mosaic,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomRotation,
    Resize,
)
from stoker.errors import ConfigError, CorruptRecordError, DecodeError, StaleIndexError
from stoker.formats import dataset as datasets
from stoker.formats.annotation_columns import to_columns
from stoker.formats.annotations import AnnotationInfo, Annotations
from stoker.formats.manifest import MANIFEST_NAME
from stoker.pipeline.batch import ColumnSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEIGHT, WIDTH = 60, 80
N = 7
SMALL = [Resize((30, 40))]
COLUMNS = ("image", "boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "masks", "segmentation")


@dataclass(frozen=True)
class Scene:
    """Black with a rectangle of 200 a sample; further objects lie in the dark."""

    boxes: np.ndarray[Any, Any]

    def pixels(self) -> np.ndarray[Any, Any]:
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        left, top, right, bottom = self.boxes[0].astype(int)
        pixels[top:bottom, left:right] = 200
        return pixels

    def mask(self) -> np.ndarray[Any, Any]:
        return (self.pixels()[..., 0] // 200).astype(np.uint8)


def scenes() -> list[Scene]:
    """Sample i has i % 3 + 1 objects; the rectangle is the first."""
    rng = np.random.default_rng(3)
    made = []
    for i in range(N):
        low = rng.integers([10, 8], [30, 25], (i % 3 + 1, 2))
        made.append(Scene(np.concatenate((low, low + rng.integers(20, 30, low.shape)), axis=1)))
    return made


def polygon(box: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return box[[[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float32)


def annotations(number: int, scene: Scene) -> Annotations:
    m = len(scene.boxes)
    boxes = scene.boxes.astype(np.float32)
    points = np.stack((boxes[:, :2] + 6, boxes[:, 2:] - 6), axis=1)
    return Annotations(
        owner=np.zeros(m, np.int64),
        boxes=boxes,
        labels=np.arange(m) + number % 2,
        crowd=np.arange(m) == 1,
        area=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
        id=100 * number + np.arange(m),
        keypoints=np.concatenate((points, np.full((m, 2, 1), 2)), axis=2).astype(np.float32),
        polygons=[[polygon(box)] for box in scene.boxes],
        extra={"difficult": np.arange(m) % 2},
    )


def encode(pixels: np.ndarray[Any, Any], kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.fixture(scope="module")
def make(pack_images: Callable[..., Path]) -> Callable[..., Path]:
    """``make(masks=None, **columns)``: the folder of the annotated dataset, masks as given."""

    def build(masks: list[bytes] | None = None, **columns: Any) -> Path:
        made = scenes()
        images = [encode(scene.pixels()) for scene in made]
        masks = masks or [encode(scene.mask()) for scene in made]
        plain = datasets.open(pack_images(images)).index
        headers = {name: plain.column(name) for name in ("codec", "height", "width", "orientation")}
        payloads = [image + mask for image, mask in zip(images, masks, strict=True)]
        both = datasets.open(pack_images(payloads, **headers)).index
        lengths = np.array([len(mask) for mask in masks])
        given = {name: plain.column(name) for name in ("length", "crc")}
        given |= {"offset": both.column("offset"), "mask_offset": both.column("offset") + given["length"]}
        given |= {"mask_length": lengths, "mask_crc": np.array([crc32c(mask) for mask in masks])}
        given |= headers | to_columns([annotations(i, scene) for i, scene in enumerate(made)])
        given |= {"label": [[i % 3, (i + 1) % 3] if i else [] for i in range(N)]}
        folder = pack_images(payloads, **(given | columns))
        manifest = datasets.open(folder).manifest
        info = AnnotationInfo(keypoints=("start", "end"), swap=(1, 0), ignore=255)
        (folder / MANIFEST_NAME).write_text(replace(manifest, annotations=info).to_json())
        return folder

    return build


@pytest.fixture(scope="module")
def annotated(make: Callable[..., Path]) -> Path:
    return make()


def load(folder: Path, **options: Any) -> ImageLoader:
    given = {
        "batch_size": N,
        "columns": COLUMNS,
        "num_threads": 2,
        "transforms": [Resize((30, 40))],
        **options,
    }
    return ImageLoader(folder, **given)


def first(folder: Path, **options: Any) -> Any:
    with load(folder, **options) as loader:
        return next(iter(loader))


def found(bright: np.ndarray[Any, Any]) -> list[int]:
    """The box around what is true."""
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]


CHAINS = {
    "resize": [Resize((30, 40))],
    "crop": [RandomResizedCrop((48, 64), scale=(0.5, 1.0)), RandomHorizontalFlip()],
    "rotation": [Resize((60, 80)), RandomRotation((90, 90))],
    "boxes decide": [RandomIoUCrop(), RandomHorizontalFlip(1.0), Resize((48, 64))],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_everything_follows_its_image(annotated: Path, chain: str) -> None:
    batch = first(annotated, transforms=CHAINS[chain], engine="auto")
    checked = 0
    for i in range(N):
        own = np.flatnonzero(batch.object_id[i] == 100 * i)  # the rectangle
        bright = batch.image[i, 0] > 100
        assert np.array_equal(bright, batch.segmentation[i] == 1) or (
            np.count_nonzero(bright != (batch.segmentation[i] == 1)) <= sum(bright.shape)
        )
        if not own.size:
            assert np.count_nonzero(bright) <= 8 * max(bright.shape)
            continue
        (k,) = own
        box = batch.boxes[i][k]
        assert np.abs(box - found(bright)).max() <= 1
        assert np.abs(box - found(batch.masks[i][k] > 0)).max() <= 1
        assert batch.area[i][k] == pytest.approx(np.prod(box[2:] - box[:2]), rel=0.02)
        points = batch.keypoints[i][k]
        for x, y, seen in points[points[:, 2] > 0]:
            assert bright[int(y), int(x)]
            assert seen == 2
        checked += 1
    assert checked >= 4


def test_objects_that_are_dropped_are_in_no_column(annotated: Path) -> None:
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
    assert sum(len(boxes) for boxes in first(annotated, **crop, min_visible=0.3).boxes) < sum(
        len(boxes) for boxes in first(annotated, **crop).boxes
    )


def test_flipped_keypoints_change_places(annotated: Path) -> None:
    plain = first(annotated)
    flipped = first(annotated, transforms=[Resize((30, 40)), RandomHorizontalFlip(1.0)])
    for before, after in zip(plain.keypoints, flipped.keypoints, strict=True):
        assert np.allclose(after[:, 0, 0], 40 - before[:, 1, 0])
        assert np.allclose(after[:, 0, 1], before[:, 1, 1])


@pytest.mark.parametrize("form", ["XYWH", "CXCYWH"])
def test_formats_of_boxes(annotated: Path, form: str) -> None:
    for xyxy, other in zip(first(annotated).boxes, first(annotated, box_format=form).boxes, strict=True):
        extent = xyxy[:, 2:] - xyxy[:, :2]
        assert np.allclose(other[:, 2:], extent)
        assert np.allclose(other[:, :2], xyxy[:, :2] + (extent / 2 if form == "CXCYWH" else 0))


def test_padded_to_the_most(annotated: Path) -> None:
    ragged, padded = first(annotated), first(annotated, objects="padded")
    assert padded.count.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert padded.boxes.shape == (N, 3, 4)
    assert padded.masks.shape == (N, 3, 30, 40)
    for name in COLUMNS[1:-1]:
        whole = getattr(padded, name)
        for i, (part, count) in enumerate(zip(getattr(ragged, name), padded.count, strict=True)):
            assert np.array_equal(whole[i, :count], part)
            assert not whole[i, count:].any()


def test_the_spec_says_what_comes(annotated: Path) -> None:
    for form in ("ragged", "padded"):
        with load(
            annotated, objects=form, columns=(*COLUMNS, "object_difficult", "label", "count")
        ) as loader:
            spec, batch = loader.element_spec(), next(iter(loader))
        assert batch._fields == tuple(column.name for column in spec)
        for column, value in zip(spec, batch, strict=True):
            one = value[2] if column.ragged else value
            assert one.dtype.name == column.dtype, column.name
            shape = (None, *column.shape) if not column.ragged else column.shape
            assert len(shape) == one.ndim, column.name
            assert all(a in (None, b) for a, b in zip(shape, one.shape, strict=True)), column.name
    assert ColumnSpec("boxes", "float32", (None, 4)) in spec


def test_several_labels_are_multi_hot(annotated: Path) -> None:
    labels = first(annotated, columns=("label",)).label
    assert labels.dtype == np.float32
    assert labels.tolist()[:3] == [[0, 0, 0], [0, 1, 1], [1, 0, 1]]


def test_order_and_ranks_carry_annotations_along(annotated: Path) -> None:
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


class TestBadAnnotations:
    def damaged(self, make: Callable[..., Path], number: int, mask: bytes) -> Path:
        masks = [encode(scene.mask()) for scene in scenes()]
        return make([*masks[:number], mask, *masks[number + 1 :]])

    @pytest.mark.parametrize(
        ("mask", "words"),
        [
            (b"no image", "cannot be decoded"),
            (encode(np.zeros((HEIGHT, WIDTH), np.uint8))[:50], "cannot be decoded"),
            (encode(np.zeros((8, 8), np.uint8)), "8 x 8 pixels, its image 60 x 80"),
            (encode(np.zeros((HEIGHT, WIDTH, 3), np.uint8)), "mode RGB"),
            (encode(np.zeros((HEIGHT, WIDTH), np.uint16)), "mode I;16"),
        ],
        ids=["no image", "truncated", "another size", "colours", "16 bits"],
    )
    def test_a_bad_mask_is_one_of_its_sample(
        self, make: Callable[..., Path], mask: bytes, words: str
    ) -> None:
        folder = self.damaged(make, 3, mask)
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

    def test_a_wrong_checksum(self, make: Callable[..., Path]) -> None:
        crc = np.zeros(N, np.uint32)
        with load(make(mask_crc=crc)) as loader, pytest.raises(CorruptRecordError, match="mask's checksum"):
            next(iter(loader))

    def test_run_lengths_of_another_size(self, make: Callable[..., Path]) -> None:
        parts = []
        for i, scene in enumerate(scenes()):
            m = len(scene.boxes)
            runs = [np.array([0, HEIGHT * WIDTH - (i == 4)], np.uint32)] * m
            parts.append(replace(annotations(i, scene), runs=runs, polygons=[[] for _ in range(m)]))
        folder = make(**to_columns(parts))
        with load(folder) as loader, pytest.raises(CorruptRecordError, match="run lengths") as caught:
            next(iter(loader))
        assert caught.value.key == "k4"
        with load(folder, on_error="skip", columns=("row", "masks")) as loader:
            batch = next(iter(loader))
        assert batch.row.tolist() == [0, 1, 2, 3, 5, 6]
        assert all((masks == 1).all() for masks in batch.masks)

    def test_a_polygon_without_a_place(self, make: Callable[..., Path]) -> None:
        parts = [annotations(i, scene) for i, scene in enumerate(scenes())]
        polygons = parts[2].polygons
        assert polygons is not None
        polygons[1][0][2, 1] = np.nan
        folder = make(**to_columns(parts))
        with (
            load(folder) as loader,
            pytest.raises(CorruptRecordError, match="a vertex that is no place") as caught,
        ):
            next(iter(loader))
        assert caught.value.key == "k2"
        with load(folder, on_error="skip", columns=("row", "masks")) as loader:
            assert next(iter(loader)).row.tolist() == [0, 1, 3, 4, 5, 6]

    @pytest.mark.parametrize("options", [{"compress_level": 0}, {"optimize": True}])
    def test_other_masks_go_to_pillow(self, make: Callable[..., Path], options: dict[str, Any]) -> None:
        """A palette, and one bit a pixel, beside a mask that is decoded in C++."""
        masks = [Image.fromarray(scene.mask()) for scene in scenes()]
        masks[1] = Image.fromarray(scenes()[1].mask() > 0)
        masks[2] = masks[2].convert("P")
        files = []
        for mask in masks:
            stream = io.BytesIO()
            mask.save(stream, "PNG", **options)
            files.append(stream.getvalue())
        assert {file[24:26] for file in files} >= {b"\x08\x00", b"\x01\x00"}
        assert np.array_equal(first(make(files)).segmentation, first(make()).segmentation)


class TestMixing:
    def test_mosaic_carries_all_along(self, annotated: Path) -> None:
        batch = first(annotated, transforms=[Resize((60, 80)), Mosaic()], columns=(*COLUMNS, "label"))
        assert batch.label.sum(axis=1).max() > 0
        checked = 0
        for i in range(N):
            bright = batch.image[i, 0] > 100
            assert np.count_nonzero(bright != (batch.segmentation[i] == 1)) <= 2 * sum(bright.shape)
            for box, number, mask in zip(batch.boxes[i], batch.object_id[i], batch.masks[i], strict=True):
                if number % 100 == 0 and min(box[2:] - box[:2]) > 8:
                    left, top, right, bottom = np.rint(box).astype(int)
                    assert bright[top + 2 : bottom - 2, left + 2 : right - 2].all()
                    assert np.abs(box - found(mask > 0)).max() <= 1
                    checked += 1
        assert checked > N

    def test_the_labels_of_several_are_mixed(self, annotated: Path) -> None:
        options = {"columns": ("image", "label")}
        plain = first(annotated, **options).label
        mixed = first(annotated, **options, transforms=[Resize((30, 40)), MixUp()]).label
        share = 1 - mixed[1, 1:]
        assert np.allclose(mixed[1], (1 - share[0]) * plain[1] + share[0] * plain[0])

    @pytest.mark.parametrize(
        ("transform", "column"),
        [(MixUp(), "boxes"), (CutMix(), "masks"), (MixUp(), "segmentation"), (CutMix(), "keypoints")],
    )
    def test_what_cannot_be_mixed_is_refused(self, annotated: Path, transform: Any, column: str) -> None:
        with pytest.raises(ConfigError, match=f"cannot mix the column '{column}'"):
            load(annotated, columns=("image", column), transforms=[Resize((30, 40)), transform])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objects": "list"}, "objects must be one of ragged, padded, found 'list'"),
        ({"box_format": "YXYX"}, "box_format must be one of XYXY"),
        ({"min_visible": 1.5}, "min_visible must be a share"),
        ({"min_size": -1}, "min_size must be pixels"),
        ({"columns": ("object_boxes",)}, "there is no 'object_boxes'"),
    ],
)
def test_refusals(annotated: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(annotated, **options)


def test_a_dataset_without_objects_has_no_such_columns(thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'boxes'"):
        load(thumbnails, columns=("boxes",))
    with pytest.raises(ConfigError, match="decides by boxes, and the dataset has none"):
        load(thumbnails, columns=("image",), transforms=[RandomIoUCrop(), Resize((8, 8))])


def test_threads_end_with_the_loader(annotated: Path) -> None:
    loader = load(annotated)
    next(iter(loader))
    del loader
    gc.collect()
    with load(annotated) as loader:
        next(iter(loader))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stoker-annotations")]


def test_only_what_the_columns_need_is_read(make: Callable[..., Path]) -> None:
    nobody = [[9] * len(scene.boxes) for scene in scenes()]
    folder = make(object_polygon_owner=nobody)
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
