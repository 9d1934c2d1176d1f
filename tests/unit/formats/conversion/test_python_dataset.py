"""``stoker.convert`` of datasets in Python, and of samples that a function makes of their items."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import read_files
from helpers.images import noise
from helpers.options import convert
from PIL import Image

import stoker
from stoker.errors import ConfigError, EngineError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


class MapStyle:
    """A dataset of PyTorch's kind, without PyTorch."""

    classes = ("cat", "dog")

    def __init__(self, item: Callable[[int], Any], number: int = 6) -> None:
        self.item, self.number = item, number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, i: int) -> Any:
        return self.item(i)


class Subset(MapStyle):
    """As ``torch.utils.data.Subset`` is."""

    def __init__(self, dataset: Any, indices: list[int]) -> None:
        super().__init__(lambda i: dataset[indices[i]], len(indices))
        self.dataset, self.indices = dataset, indices
        self.classes = ()  # type: ignore[assignment]  # a subset has none of its own


Pair = namedtuple("Pair", "image label")


@pytest.mark.parametrize(
    "item",
    [
        lambda i: (noise(i), i % 2),
        lambda i: (Image.fromarray(noise(i)), np.int64(i % 2)),
        lambda i: {"image": noise(i), "label": i % 2},
        lambda i: {"img": noise(i), "label": ("cat", "dog")[i % 2]},
        lambda i: Pair(noise(i), i % 2),
    ],
)
def test_items_of_every_form_give_the_same_dataset(tmp_path: Path, item: Callable[[int], Any]) -> None:
    summary = stoker.convert(MapStyle(item), tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    assert (summary.written, dataset.classes, dataset.labels.tolist()) == (6, ("cat", "dog"), [0, 1] * 3)
    assert dataset.keys(range(6)) == [f"{i:08d}" for i in range(6)]
    stoker.convert(MapStyle(lambda i: (noise(i), i % 2)), tmp_path / "pairs")
    assert read_files(tmp_path / "out") == read_files(tmp_path / "pairs")


def test_a_subset_has_the_classes_of_its_dataset(tmp_path: Path) -> None:
    whole = MapStyle(lambda i: (noise(i), i % 2))
    stoker.convert(Subset(whole, [3, 5]), tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    assert (dataset.classes, dataset.labels.tolist()) == (("cat", "dog"), [1, 1])


def test_an_iterable_of_unknown_length_is_converted(tmp_path: Path) -> None:
    def samples() -> Iterator[dict[str, Any]]:
        for i in range(5):
            yield {"image": noise(i), "label": "xyx"[i % 3], "half": i / 2}

    stoker.convert(samples(), tmp_path / "out")
    assert stoker.open(tmp_path / "out").classes == ("x", "y")
    assert stoker.open(tmp_path / "out").column("half").tolist() == [0, 0.5, 1, 1.5, 2]


def test_a_list_of_paths_keeps_the_bytes_of_their_files(photos: Path, tmp_path: Path) -> None:
    paths = sorted(photos.rglob("*.jpg"))[:3]
    stoker.convert(paths, tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    assert dataset.keys(range(3)) == [str(path) for path in paths]
    assert dataset.read(1) == paths[1].read_bytes()


def test_a_seed_shuffles_and_keys_stay_those_of_the_items(tmp_path: Path) -> None:
    names = list(map(str, range(50)))
    stoker.convert(MapStyle(lambda i: (noise(i), i), 50), tmp_path / "out", seed=1, classes=names)
    dataset = stoker.open(tmp_path / "out")
    assert dataset.labels.tolist() != sorted(dataset.labels.tolist())
    assert dataset.keys(range(50)) == [f"{label:08d}" for label in dataset.labels.tolist()]
    with pytest.raises(ConfigError, match="a seed shuffles items by their indices"):
        stoker.convert(iter([noise(0)]), tmp_path / "other", seed=1)


def test_fields_are_named_renamed_and_left_out(tmp_path: Path) -> None:
    def item(i: int) -> dict[str, Any]:
        return {"picture": noise(i), "fine": i % 2, "uuid": f"u{i}", "junk": object()}

    fields = {"picture": "image", "fine": "label", "uuid": "key", "junk": None}
    convert(MapStyle(item), tmp_path / "out", fields=fields)
    dataset = stoker.open(tmp_path / "out")
    assert dataset.keys(range(2)) == ["u0", "u1"]
    assert "junk" not in dataset.columns
    with pytest.raises(ConfigError, match="no field of an item is its image: 'picture', 'fine'"):
        stoker.convert(MapStyle(item), tmp_path / "other")


def test_targets_of_torchvision_become_boxes_and_masks(tmp_path: Path) -> None:
    def detection(i: int) -> Any:
        return noise(i), {"boxes": [[0, 0, 4, 4]] * i, "labels": [1] * i, "image_id": i}

    stoker.convert(MapStyle(detection, 3), tmp_path / "boxes")
    assert stoker.open(tmp_path / "boxes").annotations(range(3)).owner.tolist() == [1, 2, 2]
    stoker.convert(MapStyle(lambda i: (noise(i), np.full((6, 8), i, np.uint8))), tmp_path / "masks")
    assert "segmentation" in stoker.open(tmp_path / "masks").tasks


def default_loader(path: str) -> Any:
    return Image.open(path).convert("RGB")


class ImageFolder(MapStyle):
    """As torchvision's, whose items are decoded images."""

    def __init__(self, root: Path, transform: Any = None) -> None:
        self.root, self.transform, self.loader = str(root), transform, default_loader
        self.classes = sorted(folder.name for folder in root.iterdir())  # type: ignore[assignment]  # a list there
        self.samples = [
            (str(file), label)
            for label, name in enumerate(self.classes)
            for file in sorted((root / name).iterdir())
        ]
        super().__init__(
            lambda i: (default_loader(self.samples[i][0]), self.samples[i][1]), len(self.samples)
        )


def test_an_image_folder_of_torchvision_keeps_the_bytes_of_its_files(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "folder")
    stoker.convert(ImageFolder(photos), tmp_path / "out", strict=False)
    folder, out = stoker.open(tmp_path / "folder"), stoker.open(tmp_path / "out")
    assert folder.classes == out.classes == ("cat", "dog", "eel")
    assert out.keys(range(30)) == folder.keys(range(30))
    assert [out.read(i) for i in range(30)] == [folder.read(i) for i in range(30)]
    stoker.convert(Subset(ImageFolder(photos), [7]), tmp_path / "subset")
    assert stoker.open(tmp_path / "subset").read(0) == folder.read(7)


def test_the_images_of_an_image_folder_with_a_transform_are_encoded(photos: Path, tmp_path: Path) -> None:
    stoker.convert(ImageFolder(photos, transform=lambda image: image), tmp_path / "out")
    assert stoker.open(tmp_path / "out").read(0)[:4] == b"\x89PNG"


def make_sample(number: int) -> dict[str, Any] | None:
    if number == 13:
        return None
    return {"image": noise(number), "label": number % 3, "key": f"n{number}", "vector": np.arange(number % 4)}


def raise_for_five(number: int) -> Any:
    return make_sample(number + 0 // (number - 5))


def end_process(number: int) -> Any:
    import os

    os._exit(1)


def test_a_function_makes_the_same_samples_in_any_number_of_processes(tmp_path: Path) -> None:
    for threads in (1, 2):
        summary = convert(
            range(40), tmp_path / str(threads), num_threads=threads, make=make_sample, shard_records=9
        )
        assert (summary.written, summary.skipped) == (39, {"left out by make": 1})
    assert read_files(tmp_path / "1") == read_files(tmp_path / "2")
    dataset = stoker.open(tmp_path / "1")
    assert dataset.keys([0, 12, 13]) == ["n0", "n12", "n14"]
    assert dataset.array("vector", 3).tolist() == [0, 1, 2]
    assert stoker.verify(tmp_path / "1", decode=True).ok


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (raise_for_five, SourceError, "make raised ZeroDivisionError for input 5"),
        (end_process, EngineError, "a process that makes samples has died"),
    ],
)
def test_an_error_or_death_in_the_function_leaves_no_folder(
    tmp_path: Path, make: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        convert(range(40), tmp_path / "out", num_threads=2, make=make)
    assert not (tmp_path / "out").exists()


def test_progress_counts_items(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    stoker.convert(
        MapStyle(noise),
        tmp_path / "out",
        progress=lambda done, total, size, stage: seen.append((done, total, stage)),
    )
    assert seen[-1] == (6, 6, "publishing")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (3, {}, "the source is a int, which has neither"),
        ({"train": [1], "test": [2]}, {}, "the source is a dict of 'train', 'test'"),
        ([noise(0)], {"val": 0.1}, "val is for sources of files"),
        ([noise(0)], {"engine": "ray"}, "engine='ray' needs a function"),
        ([noise(0)], {"engine": "spark"}, "engine must be one of local, ray"),
        ([(noise(0), 1, 2)], {}, "an item of the dataset is a tuple of 3 values"),
        ([noise(0).astype(float)], {}, "image is ndarray of float64 with the shape"),
        (
            Path(__file__).parent,
            {"fields": {"a": "image"}},
            "fields is for sources of the format table or mds",
        ),
        ([], {}, "no sample was written"),
    ],
)
def test_sources_and_options_that_do_not_fit_are_refused(
    tmp_path: Path, source: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, SourceError), match=message):
        convert(source, tmp_path / "out", **options)


def test_hugging_faces_transforms_are_left_out_and_minus_one_is_no_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    rows = {"image": [Image.fromarray(noise(i)) for i in range(3)], "label": [1, -1, 0]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.set_transform(lambda rows: {"pixels": [image.convert("L") for image in rows["image"]]})
    summary = stoker.convert(dataset, tmp_path / "out")
    assert summary.skipped == {"row without a label": 1}
    assert stoker.open(tmp_path / "out").labels.tolist() == [1, 0]
    assert "set_transform" in caplog.text
    assert "pixels" in dataset[0]


def test_classes_that_are_given_number_the_names_of_the_dataset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    of_class = datasets.ClassLabel(names=["a", "b", "c"])
    for name, kind, labels, expected in (
        ("one", of_class, [0, None, 2], [1, 0]),
        ("several", datasets.Sequence(of_class), [[0, 2], [2], []], [[1, 0], [0], []]),
    ):
        rows = {"image": [Image.fromarray(noise(i)) for i in range(3)], "label": labels}
        features = datasets.Features({"image": datasets.Image(), "label": kind})
        dataset = datasets.Dataset.from_dict(rows, features=features)
        stoker.convert(dataset, tmp_path / name, classes=["c", "a"])
        assert [sample.label for sample in stoker.open(tmp_path / name)] == expected
        summary = stoker.convert(dataset, tmp_path / f"{name} own")
        assert stoker.open(tmp_path / f"{name} own").classes == ("a", "b", "c")
        assert summary.skipped == ({"row without a label": 1} if name == "one" else {})
    with pytest.raises(ConfigError, match="label is 'c', which is not among the classes"):
        stoker.convert(dataset, tmp_path / "fewer", classes=["a", "b"])
    with pytest.raises(ConfigError, match="label_type is for sources of files") as caught:
        stoker.convert(dataset, tmp_path / "x", source_options=stoker.SourceOptions(label_type="first"))
    assert "split" not in str(caught.value.hint)
