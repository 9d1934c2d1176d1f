"""Mixtures of datasets: their draws, tasks and classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.annotations import FOLDERS, AnnotatedSource, truth
from helpers.datasets import flip_bit, list_column
from helpers.images import decode, png
from helpers.options import convert_options

import stoker
from stoker import BlockShuffle, ClassBalanced, Weighted
from stoker.augment import Letterbox, RandomHorizontalFlip, Resize
from stoker.errors import CheckpointError, ConfigError, CorruptRecordError, DatasetError
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.order.mixture import Mixture, mix

Make = Callable[..., Any]

COLUMNS = ("image", "row", "dataset", "label", "key")


@pytest.fixture
def folders(make_dataset: Make, make_jpeg: Make) -> list[Path]:
    """Three datasets with 20, 6 and 4 samples, in both containers."""
    payloads = [make_jpeg(i) for i in range(30)]
    parts = payloads[:20], payloads[20:26], payloads[26:]
    kinds = "tfrecord", "lmdb", "tfrecord"
    return [
        make_dataset(kind, part, 2, name=f"dataset {i}")
        for i, (kind, part) in enumerate(zip(kinds, parts, strict=True))
    ]


@pytest.fixture
def load(open_loader: Make) -> Make:
    """``load(dataset, **options)``: an ImageLoader of a dataset or mixture."""
    defaults = {"batch_size": 7, "transforms": [Resize((12, 16))], "columns": COLUMNS, "num_threads": 1}
    return lambda dataset, **options: open_loader(dataset, **{**defaults, **options})


def drawn(loader: stoker.ImageLoader) -> list[tuple[int, int]]:
    """Number of the dataset, and row in the indexes, of every sample."""
    samples: list[tuple[int, int]] = []
    for batch in loader:
        rows = loader.dataset.rows[batch.row]
        samples += zip(batch.dataset.tolist(), rows.tolist(), strict=True)
    return samples


@pytest.mark.parametrize("shuffle", [False, True, BlockShuffle(0, block=2, window=2)])
def test_quotas_are_exact_and_cycles_continue(load: Make, folders: list[Path], shuffle: Any) -> None:
    mixture = mix([(folders[0], 0.5), (stoker.open(folders[1]), 0.3), (folders[2], 0.2)])
    loader = load(mixture, shuffle=shuffle)
    assert len(loader) == 5
    epochs = [drawn(loader) for _ in range(8)]
    for epoch in epochs:
        assert Counter(which for which, _ in epoch) == {0: 15, 1: 9, 2: 6}
    rows = Counter(row for epoch in epochs for _, row in epoch)
    # 120 draws of 20 samples, 72 of 6, 48 of 4: whole cycles.
    assert rows == {**dict.fromkeys(range(20), 6), **dict.fromkeys(range(20, 30), 12)}
    nothing = stoker.open(folders[1]).select([])
    loader = load(mix([(nothing, 0), (folders[2], 1)]), shuffle=shuffle)
    for _ in range(2):
        assert sorted(drawn(loader)) == [(1, 6 + row) for row in range(4)]


def test_samples_are_those_of_their_datasets(load: Make, folders: list[Path]) -> None:
    expected = [
        (image.tobytes(), label, key)
        for folder in folders
        for batch in load(folder, columns=("image", "label", "key"))
        for image, label, key in zip(batch.image, batch.label, batch.key, strict=True)
    ]
    seen = set()
    for batch in load(mix([(folder, 1) for folder in folders], samples=90), shuffle=True):
        for image, row, _, label, key in zip(*batch, strict=True):
            assert (image.tobytes(), label, key) == expected[row]
            seen.add(int(row))
    assert seen == set(range(30))


def test_selections_can_be_mixed(load: Make, folders: list[Path]) -> None:
    odd = stoker.open(folders[0]).select("label == 1")
    rows = Counter(drawn(load(mix([(odd, 1), (folders[2], 1)], samples=28))))
    assert rows == {
        **{(0, row): 2 for row in range(1, 20, 3)},
        **{(1, 20 + i): [4, 4, 3, 3][i] for i in range(4)},
    }


def test_a_mixture_joins_the_columns_of_its_datasets(folders: list[Path]) -> None:
    mixture = mix([(folder, weight) for folder, weight in zip(folders, (3, 0, 1), strict=True)])
    assert isinstance(mixture, Mixture)
    assert len(mixture) == 30
    assert repr(mixture).startswith("<Mixture: an epoch draws 23 of <Dataset ")
    assert mixture.classes == ("cat", "dog", "eel")
    assert mixture.num_classes == 3
    assert mixture.quotas.tolist() == [23, 0, 7]
    assert mixture.column("label").tolist() == [i % 3 for i in [*range(20), *range(6), *range(4)]]
    assert mixture.column("dataset").tolist() == [0] * 20 + [1] * 6 + [2] * 4
    assert mixture.keys([0, 20, 29, 19]) == ["k0", "k0", "k3", "k19"]
    assert mixture.keys([]) == []
    assert len(mixture.samples([])) == 0
    assert mixture.tasks == {"label"}
    assert {"dataset", "label", "height"} <= mixture.types.keys()
    assert mixture.is_distinct
    assert not mix([(folders[0], 1), (stoker.open(folders[1]).select([1, 1]), 1)]).is_distinct
    for position in (30, -1):
        with pytest.raises(IndexError, match=f"positions go from 0 to 29, found {position} to {position}"):
            mixture.samples([position])


def test_columns_that_only_some_datasets_have_are_left_out(folders: list[Path], pack_images: Make) -> None:
    payloads = [np.random.default_rng(0).bytes(36)] * 3
    sizes = {"codec": np.zeros(3), "height": np.full(3, 3), "width": np.full(3, 4)}
    other = pack_images(payloads, **sizes, score=np.arange(3.0))
    mixture = mix([(folders[0], 1), (other, 1)])
    assert "score" not in mixture.types
    with pytest.raises(DatasetError, match="no column 'score'"):
        mixture.values("score", [1, 21])
    with pytest.raises(ConfigError, match="there is no 'score'"):
        stoker.ImageLoader(mixture, batch_size=1, columns=("image", "score"), transforms=[Resize((3, 4))])


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_errors_name_the_right_dataset(load: Make, folders: list[Path]) -> None:
    dataset = stoker.open(folders[2])
    flip_bit(dataset, 3, byte=100)
    file = dataset.data_files[int(dataset.samples([3]).shard[0])]
    mixture = mix([(folder, 1) for folder in folders])
    with pytest.raises(CorruptRecordError) as caught:
        list(load(mixture))
    error = caught.value
    assert (str(error.path), error.shard, error.key) == (str(file), file.name, "k3")
    loader = load(mixture, on_error="skip", transforms=[RandomHorizontalFlip(), Resize((12, 16))])
    assert (2, 29) not in drawn(loader)
    assert loader.stats().bad_keys == ("k3",) * loader.stats().skipped


def test_random_parameters_differ_between_cycles(load: Make, folders: list[Path]) -> None:
    mixture = mix([(folders[0], 1), (folders[2], 9)], samples=100)
    images: dict[int, set[bytes]] = {}
    for batch in load(mixture, transforms=[RandomHorizontalFlip(), Resize((12, 16))]):
        for row, image in zip(batch.row.tolist(), batch.image, strict=True):
            images.setdefault(row, set()).add(image.tobytes())
    assert all(len(images[row]) == 2 for row in range(20, 24)), "flipped and not"


def test_datasets_of_one_size_have_different_permutations(folders: list[Path]) -> None:
    mixture = mix([(folders[0], 1), (folders[0], 1)])
    orders = [order for seed in (0, 1, 3) for order in mixture.order(shuffle=True, seed=seed).rounds]
    rows = {tuple(order.positions(0, np.arange(20)).tolist()) for order in orders}
    assert len(rows) == len(orders), "nor with one seed as with another"


def test_a_state_is_refused_when_weights_or_datasets_differ(load: Make, folders: list[Path]) -> None:
    state = load(mix([(folders[0], 1), (folders[1], 1)])).state_dict()
    assert len(str(state)) < 2000
    load(mix([(folders[0], 2), (folders[1], 2)])).load_state_dict(state)
    with pytest.raises(CheckpointError, match=r"weights of the mixture were \[\[0, \[13, 13\]\]\] and are"):
        load(mix([(folders[0], 1), (folders[1], 2)])).load_state_dict(state)
    with pytest.raises(CheckpointError, match="dataset was"):
        load(mix([(folders[1], 1), (folders[0], 1)])).load_state_dict(state)
    with pytest.raises(CheckpointError, match="order was"):
        load(mix([(folders[0], 1), (folders[1], 1)]), shuffle=True).load_state_dict(state)


def test_a_mixture_refuses_wrong_datasets_weights_and_samplers(
    load: Make, folders: list[Path], tmp_path: Path
) -> None:
    cases: list[tuple[list[Any], dict[str, int], str]] = [
        ([], {}, "at least one dataset"),
        ([folders[0]], {}, "needs pairs of a dataset and its weight"),
        ([(folders[0], 0)], {}, "weights must be numbers from 0"),
        ([(folders[0], 1)], {"samples": 0}, "at least 1 sample in an epoch, found 0"),
        ([(folders[0], 1), (stoker.open(folders[1]).select([]), 1)], {}, "has a weight and no samples"),
    ]
    for pairs, options, message in cases:
        with pytest.raises(ConfigError, match=message):
            mix(pairs, **options)
    with pytest.raises(DatasetError):
        mix([(tmp_path / "nothing", 1)])
    for sampler in (Weighted("label"), ClassBalanced()):
        with pytest.raises(ConfigError, match="itself, so it takes no shuffle and no mixture"):
            load(mix([(folders[0], 1)]), sampler=sampler)


def detection(pack_images: Make, make_jpeg: Make, start: int, **more: Any) -> Path:
    """Three images with 2, 0 and 1 objects, numbered from ``start``."""
    boxes = [[start, 0, 4, 4, start + 1, 0, 4, 4], [], [start + 2, 0, 4, 4]]
    objects = {
        "object_boxes": list_column(boxes, pa.float32()),
        "object_labels": list_column([[start, start + 1], [], [start + 2]], pa.int64()),
        "object_difficult": list_column([[0, 1], [], [1]], pa.uint8()),
    }
    return pack_images([make_jpeg(start + i) for i in range(3)], **objects, **more)


def test_objects_of_a_batch_come_from_the_right_datasets(pack_images: Make, make_jpeg: Make) -> None:
    polygons = {
        "object_polygons": list_column([[0, 0, 4, 0, 4, 4] * 2, [], [0, 0, 9, 0, 9, 9]], pa.float32()),
        "object_polygon_sizes": list_column([[3, 3], [], [3]], pa.int32()),
        "object_polygon_owner": list_column([[0, 1], [], [0]], pa.int32()),
    }
    plain = [detection(pack_images, make_jpeg, start) for start in (10, 20)]
    with_polygons = detection(pack_images, make_jpeg, 30, **polygons)
    mixture = mix([(folder, 1) for folder in (*plain, with_polygons)])
    assert mixture.tasks == {"label", "boxes"}
    objects = mixture.annotations([5, 0, 1, 8, 3, 0])
    assert objects.owner.tolist() == [0, 1, 1, 3, 4, 4, 5, 5]
    assert objects.labels.tolist() == [22, 10, 11, 32, 20, 21, 10, 11]
    assert objects.boxes[:, 0].tolist() == objects.labels.tolist()
    assert objects.extra["difficult"].tolist() == [1, 0, 1, 1, 0, 1, 0, 1]
    assert objects.polygons is None
    labels = mixture.lists("object_labels", [5, 1, 0, 3, 2])
    assert labels.counts.tolist() == [1, 0, 2, 2, 1]
    assert labels.values.tolist() == [22, 10, 11, 20, 21, 12]
    doubtful = detection(
        pack_images, make_jpeg, 40, object_doubtful=list_column([[7, 8], [], [9]], pa.uint8())
    )
    assert set(mix([(doubtful, 1), (plain[0], 1)]).annotations([3, 0]).extra) == {"difficult"}
    assert len(mix([(with_polygons, 1)]).annotations([2, 1]).polygons) == 1
    assert len(mixture.annotations([1, 4])) == len(mixture.annotations([])) == 0


def test_a_mask_comes_from_the_right_dataset(tmp_path: Path) -> None:
    for number, name in enumerate(("a/0", "a/1", "b/0")):
        for kind in ("images", "masks"):
            (tmp_path / kind / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / kind / f"{name}.png").write_bytes(png(np.full((4, 4), number, np.uint8)))
    folders = [tmp_path / "shards" / name for name in "ab"]
    for folder in folders:
        masks = tmp_path / "masks" / folder.name
        stoker.convert(
            tmp_path / "images" / folder.name,
            folder,
            source_options=stoker.SourceOptions(masks=masks, source_format="pairs"),
        )
    mixture = mix([(folder, 1) for folder in folders])
    assert [int(decode(mixture.mask(position))[0, 0]) for position in range(3)] == [0, 1, 2]


pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def by_format(tmp_path: Path) -> dict[str, Path]:
    """COCO's objects with keypoints and polygons; VOC's with run lengths and class masks; boxes alone."""
    converted = {}
    for name in ("coco", "voc SegmentationObject", "yolo"):
        source = FOLDERS[name](tmp_path / f"source {name}")
        converted[name.split()[0]] = convert(source, tmp_path / name.split()[0])
    return converted


def convert(source: AnnotatedSource, target: Path) -> Path:
    stoker.convert(source.src, target, **convert_options(source.options))
    return target


def test_objects_of_polygons_and_of_run_lengths_share_a_column_of_masks(by_format: dict[str, Path]) -> None:
    mixture = stoker.mix([(by_format["coco"], 1), (by_format["voc"], 1)])
    assert mixture.tasks == {"boxes", "instances"}
    voc, coco = (by_format["voc"],), (by_format["coco"],)
    assert mixture.left_out == {"keypoints": voc, "image_id": voc, "segmentation": coco}
    assert repr(mixture).endswith("; without image_id, keypoints, segmentation>")
    columns = ("image", "boxes", "box_labels", "masks", "segmentation")
    with stoker.ImageLoader(mixture, batch_size=6, columns=columns, transforms=[Letterbox(120)]) as loader:
        batch = next(iter(loader))
    for boxes, masks in zip(batch.boxes, batch.masks, strict=True):
        areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
        np.testing.assert_allclose(masks.sum(axis=(1, 2)), areas, rtol=0.05)
    names = [{mixture.classes[label] for label in labels} for labels in batch.box_labels]
    assert names == [{"person", "car"}] * 6


def test_a_column_that_one_dataset_lacks_names_this_dataset(by_format: dict[str, Path]) -> None:
    mixture = stoker.mix([(folder, 1) for folder in by_format.values()])
    assert mixture.tasks == {"boxes"}
    lacking = r"no 'masks', which \S+yolo lacks; a mixture has the columns"
    with pytest.raises(ConfigError, match=lacking) as caught:
        stoker.ImageLoader(mixture, batch_size=2, columns=("image", "masks"), transforms=[Letterbox(64)])
    assert "box_labels" in str(caught.value)


def test_masks_of_classes_mix_with_objects_without_a_column_of_labels(
    by_format: dict[str, Path], tmp_path: Path
) -> None:
    source = tmp_path / "source voc SegmentationObject"
    masks = convert(
        AnnotatedSource(source / "JPEGImages", {"masks": source / "SegmentationClass"}), tmp_path / "masks"
    )
    mixture = stoker.mix([(masks, 1), (by_format["voc"], 1)])
    assert (mixture.tasks, mixture.classes) == ({"segmentation"}, ())
    columns = ("image", "segmentation")
    with stoker.ImageLoader(mixture, batch_size=6, columns=columns, transforms=[Letterbox(64)]) as loader:
        assert set(np.unique(next(iter(loader)).segmentation)) == {0, 7, 15, 255}


def test_keypoints_with_different_names_are_refused(by_format: dict[str, Path], tmp_path: Path) -> None:
    source = FOLDERS["coco"](tmp_path / "other")
    content = truth()
    for category in content["categories"]:
        category["keypoints"] = ["head", "tail"]
    source.src.write_text(json.dumps(content))
    other = convert(source, tmp_path / "tails")
    with pytest.raises(ConfigError, match="have different meanings: keypoints and swap differ"):
        stoker.mix([(by_format["coco"], 1), (other, 1)])
    assert stoker.mix([(by_format["yolo"], 1), (other, 1)]).tasks == {"boxes"}


def named(folder: Path, *classes: str) -> Dataset:
    """The dataset with other names of classes."""
    dataset = stoker.open(folder)
    object.__setattr__(dataset.manifest, "classes", classes)
    return dataset


def test_classes_are_merged_by_name(load: Make, folders: list[Path]) -> None:
    renamed = named(folders[1], "fox", "cat", "owl"), named(folders[2], "owl", "fox", "cat")
    mixture = mix([(folders[0], 1), *((dataset, 1) for dataset in renamed)])
    assert mixture.classes == ("cat", "dog", "eel", "fox", "owl")
    assert mixture.num_classes == 5
    names = [mixture.classes[label] for label in mixture.column("label")]
    assert names[:20] == [("cat", "dog", "eel")[i % 3] for i in range(20)]
    assert names[20:26] == ["fox", "cat", "owl"] * 2
    assert names[26:] == ["owl", "fox", "cat", "owl"]
    assert mixture.values("label", [27, 0, 20]).tolist() == [3, 0, 3]
    for batch in load(mixture, shuffle=True):
        assert batch.label.tolist() == mixture.values("label", batch.row).tolist()
    assert mix([(folders[0], 1), (folders[2], 1)]).values("label", [20]).tolist() == [0]


def test_merged_classes_are_part_of_a_state(load: Make, folders: list[Path]) -> None:
    pair = [(folders[0], 1), (named(folders[1], "fox", "cat", "owl"), 1)]
    state = load(mix(pair)).state_dict()
    load(mix(pair)).load_state_dict(state)
    with pytest.raises(CheckpointError, match="dataset was"):
        load(mix([(folders[0], 1), (named(folders[1], "fox", "owl", "cat"), 1)])).load_state_dict(state)


def test_classes_that_cannot_be_merged_are_refused(folders: list[Path]) -> None:
    for classes, message in (((), "one has no names of classes"), (("a", "b", "a"), "the name 'a' for two")):
        with pytest.raises(ConfigError, match=message) as caught:
            mix([(folders[0], 1), (named(folders[1], *classes), 1)])
        assert caught.value.path == str(folders[1])
    mixture = mix([(folders[0], 1), (named(folders[1], "fox", "cat"), 1)])
    with pytest.raises(DatasetError, match="labels go from 0 to 2, but the dataset has 2 classes") as caught:
        mixture.column("label")
    assert caught.value.path == str(folders[1])


def test_images_and_text_are_not_mixed(tmp_path: Path, folders: list[Path]) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    stoker.convert_text(tmp_path / "a.txt", tmp_path / "text", tokenizer="bytes")
    with pytest.raises(ConfigError, match="hold image and text"):
        mix([(folders[0], 1), (tmp_path / "text", 1)])
    with pytest.raises(ConfigError, match="ImageLoader reads image, but this dataset holds text"):
        stoker.ImageLoader(mix([(tmp_path / "text", 1)]), batch_size=1)


def test_labels_of_objects_and_several_labels_of_a_sample_are_merged(
    pack_images: Make, make_jpeg: Make
) -> None:
    several = {
        "label": list_column([[0, 1], [], [2]], pa.int64()),
        "object_boxes": list_column([[0, 0, 4, 4] * 2, [], [0, 0, 4, 4]], pa.float32()),
        "object_labels": list_column([[2, 0], [], [1]], pa.int64()),
    }
    payloads = [make_jpeg(i) for i in range(3)]
    first, other = (pack_images(payloads, **several) for _ in range(2))
    second = named(other, "eel", "fox", "dog")
    mixture = mix([(first, 1), (second, 1)])
    assert mixture.classes == ("cat", "dog", "eel", "fox")
    assert mixture.annotations([3, 0, 5]).labels.tolist() == [1, 2, 2, 0, 3]
    assert mixture.lists("object_labels", [5, 0]).values.tolist() == [3, 2, 0]
    with stoker.ImageLoader(mixture, batch_size=6, transforms=[Resize((4, 4))], columns=("label",)) as loader:
        labels = {tuple(np.flatnonzero(row)) for batch in loader for row in batch.label}
    assert labels == {(0, 1), (), (2,), (2, 3), (1,)}
