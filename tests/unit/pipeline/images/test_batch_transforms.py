"""Transforms of batches and functions of the user, which follow the engine."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader
from stoker.augment import (
    AllColumns,
    CutMix,
    MixUp,
    Normalize,
    RandomChoice,
    RandomHorizontalFlip,
    Resize,
    load_recipe,
    save_recipe,
)
from stoker.augment.plan import compile_image
from stoker.errors import ConfigError
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.open import open as open_dataset
from stoker.pipeline.execution.pipeline import ColumnSpec
from stoker.pipeline.images.batch_transforms import BatchTransformPlan, function_name, split_transforms

KEYS = np.arange(9, dtype=np.int64)


def load(folder: Path, *transforms: Any, **options: Any) -> ImageLoader:
    arguments = {"batch_size": 9, "num_threads": 1, "columns": ("image", "label", "row"), **options}
    return ImageLoader(folder, **image_arguments(transforms=[Resize((12, 16)), *transforms], **arguments))


def first(folder: Path, *transforms: Any, **options: Any) -> Any:
    with load(folder, *transforms, **options) as loader:
        return next(iter(loader))


@pytest.fixture
def labelled(pack_images: Any, thumbnails: Path) -> Path:
    """The first twenty thumbnails, of three classes."""
    dataset = open_dataset(thumbnails)
    return pack_images([dataset.read(i) for i in range(20)], label=np.arange(20) % 3)


class TestTransformsOfBatches:
    @pytest.mark.parametrize("transform", [MixUp(0.5), CutMix()], ids=lambda t: type(t).__name__)
    @pytest.mark.parametrize("normalize", [(), (Normalize(),)])
    def test_images_and_labels_are_what_the_transform_says(
        self, labelled: Path, transform: Any, normalize: tuple[Any, ...]
    ) -> None:
        plain = first(labelled, *normalize, shuffle=True, seed=5)
        mixed = first(labelled, *normalize, transform, shuffle=True, seed=5)
        params = transform.draw(plain.row.astype(np.int64), (12, 16), 5, 0)
        assert np.array_equal(mixed.image, params.images(plain.image))
        assert mixed.label.dtype == np.float32
        assert np.array_equal(mixed.label, params.labels(plain.label, 3))
        assert np.array_equal(mixed.row, plain.row)

    @pytest.mark.filterwarnings("ignore:.*an empty last batch")
    @pytest.mark.parametrize("transform", [MixUp(), RandomChoice([MixUp(), CutMix()])])
    def test_a_batch_of_none_has_labels_of_the_same_form(self, labelled: Path, transform: Any) -> None:
        with load(labelled, transform, batch_size=1, rank=5, world_size=6) as loader:
            *_, last = loader
            spec = loader.element_spec()[1]
        assert last.image.shape == (0, 3, 12, 16)
        assert (last.label.dtype.name, last.label.shape) == (spec.dtype, (0, *spec.shape))

    def test_their_parameters_change_with_the_epoch(self, labelled: Path) -> None:
        with load(labelled, MixUp()) as loader:
            first_epoch, second_epoch = loader.batch(0, 0), loader.batch(1, 0)
        assert np.array_equal(first_epoch.row, second_epoch.row)
        assert not np.array_equal(first_epoch.label, second_epoch.label)

    def test_a_random_choice_takes_each_of_its_transforms_for_some_batches(self, labelled: Path) -> None:
        choice = RandomChoice([MixUp(), CutMix()], p=(0.25, 0.75))
        with load(labelled, choice) as loader:
            for _ in range(40):
                list(loader)
            assert {"MixUp", "CutMix"} <= loader.stats().producer.keys()

    def test_each_choice_follows_its_weights_its_index_and_the_seed(self) -> None:
        transforms = [MixUp(), CutMix()]
        plan = BatchTransformPlan(
            (RandomChoice(transforms, p=(0.25, 0.75)), RandomChoice(transforms, p=(1, 3)))
        )
        names = {
            tuple(plan.draw(number, KEYS, (12, 16), seed, epoch)[0] for epoch in range(400))
            for number in (0, 1)
            for seed in (0, 1)
        }
        assert len(names) == 4
        assert all(60 < drawn.count("MixUp") < 140 for drawn in names)

    def test_a_short_batch_mixes_with_itself(self, labelled: Path) -> None:
        with load(labelled, MixUp(), batch_size=19) as loader:
            *_, last = loader
        assert last.label.tolist() == [[0, 1, 0]]
        two = load(labelled, MixUp(), rank=1, world_size=2, batch_size=19)
        assert [batch.label.shape for batch in two] == [(10, 3)]
        two.close()

    @pytest.mark.filterwarnings("ignore:a bad sample was")
    def test_skipped_samples_are_no_partners(self, pack_images: Any, make_jpeg: Any) -> None:
        payloads = [make_jpeg(i) if i != 2 else make_jpeg(2)[:200] for i in range(5)]
        whole = open_dataset(pack_images([make_jpeg(i) for i in range(5)])).index
        size = {name: whole.column(name) for name in ("codec", "height", "width", "orientation")}
        folder = pack_images(payloads, **size, label=np.arange(5) % 3)
        mixed = first(folder, CutMix(), on_error="skip", batch_size=5)
        assert mixed.row.tolist() == [0, 1, 3, 4]
        plain = first(folder, on_error="skip", batch_size=5)
        params = CutMix().draw(plain.row.astype(np.int64), (12, 16), 0, 0)
        assert np.array_equal(mixed.image, params.images(plain.image))

    def test_labels_without_names_count_up_to_the_largest(self, labelled: Path) -> None:
        path = labelled / MANIFEST_NAME
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "classes": []}))
        assert stoker.open(labelled).num_classes == len(document["classes"])
        assert first(labelled, MixUp()).label.shape == (9, len(document["classes"]))

    def test_several_labels_without_names_do_too(self, tmp_path: Path, thumbnails: Path) -> None:
        with stoker.Writer(tmp_path / "out") as writer:
            for label in ([0, 2], [1]):
                writer.write(open_dataset(thumbnails).read(0), label=label, key=str(label))
        assert first(tmp_path / "out").label.tolist() == [[1, 0, 1], [0, 1, 0]]
        assert first(tmp_path / "out", MixUp()).label.shape == (2, 3)

    def test_labels_that_number_no_classes_are_refused(self, tmp_path: Path, thumbnails: Path) -> None:
        with stoker.Writer(tmp_path / "out") as writer:
            writer.write(open_dataset(thumbnails).read(0), label=1 << 40)
        assert first(tmp_path / "out").label.tolist() == [1 << 40]
        with pytest.raises(
            ConfigError, match="1 to 1,000,000 classes, and the dataset has 1,099,511,627,777"
        ):
            load(tmp_path / "out", MixUp())


def double(images: Any) -> Any:
    return images * 2


class TestFunctions:
    @pytest.mark.parametrize(("output", "array_type"), [("numpy", "ndarray"), ("torch", "Tensor")])
    def test_they_get_and_return_images_as_they_are_handed_out(
        self, labelled: Path, output: str, array_type: str
    ) -> None:
        if output == "torch":
            pytest.importorskip("torch")
        calls = []

        def record(images: Any) -> Any:
            calls.append((type(images).__name__, tuple(images.shape)))
            return images

        options = {"output": output, "last_batch": "drop"}  # a last batch is shorter, and may be made ahead
        doubled = first(labelled, Normalize(), record, double, **options).image
        assert type(doubled).__name__ == array_type
        assert np.allclose(np.asarray(doubled), 2 * first(labelled, Normalize()).image)
        assert set(calls) == {(array_type, (9, 3, 12, 16))}

    def test_the_statistics_name_them(self, labelled: Path) -> None:
        with load(labelled, double) as loader:
            list(loader)
            assert {"double", "handing over"} <= loader.stats().producer.keys()

    def test_an_error_in_a_function_is_raised(self, labelled: Path) -> None:
        def fail(images: Any) -> Any:
            raise ZeroDivisionError

        with load(labelled, fail) as loader, pytest.raises(ZeroDivisionError):
            next(iter(loader))

    @pytest.mark.parametrize("function", [lambda images: images[:3], lambda images: None, len])
    def test_a_result_that_is_no_batch_of_images_is_refused(self, labelled: Path, function: Any) -> None:
        wanted = "must return an array of 9 images"
        with load(labelled, function) as loader, pytest.raises(ConfigError, match=wanted):
            next(iter(loader))


class TestFunctionsOfAllColumns:
    def test_they_get_and_change_every_column(self, labelled: Path) -> None:
        def swap(batch: Any) -> Any:
            return batch._replace(image=batch.image[::-1], label=-batch.label)

        plain = first(labelled, double)
        with load(labelled, double, AllColumns(swap)) as loader:
            swapped = next(iter(loader))
            assert swap.__qualname__ in loader.stats().producer
        assert np.array_equal(swapped.image, plain.image[::-1])
        assert np.array_equal(swapped.label, -plain.label)

    def test_a_result_that_is_no_batch_is_refused(self, labelled: Path) -> None:
        wanted = "must return the batch, a named tuple with the columns image, label"
        transforms = AllColumns(lambda batch: batch.image)
        with load(labelled, transforms) as loader, pytest.raises(ConfigError, match=wanted):
            next(iter(loader))

    def test_they_stand_last_and_states_hold_their_names(self, labelled: Path) -> None:
        _, plan = split_transforms([Resize(8), double, AllColumns(double)])
        assert plan.to_json() == [{"function": f"{__name__}.double"}, {"all_columns": f"{__name__}.double"}]
        with pytest.raises(ConfigError, match="AllColumns takes a function"):
            AllColumns(dict)


def halve(images: Any) -> Any:
    """Every other row and column, in half precision."""
    return images[:, :, ::2, ::2].astype(np.float16)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_element_spec_describes_the_images_that_functions_return(labelled: Path, dtype: Any) -> None:
    with load(labelled, Normalize(), MixUp(), halve, dtype=dtype) as loader:
        spec, batch = loader.element_spec(), next(iter(loader))
        assert spec == loader.element_spec()
        for column, values in zip(spec[:2], batch[:2], strict=True):
            assert (column.dtype, column.shape) == (values.dtype.name, values.shape[1:])
        assert spec[0] == ColumnSpec("image", "float16", (3, 6, 8))
        assert loader.columns == tuple(column.name for column in spec)


def test_a_function_has_the_name_that_its_user_knows() -> None:
    assert function_name(double) == "double"
    assert function_name(functools.partial(double, 3), module=True) == f"{__name__}.double"
    assert function_name(np.negative) == "negative"

    class Adds:
        def __call__(self, images: Any) -> Any:
            return images

    assert function_name(Adds()).endswith("Adds")


def test_a_recipe_may_hold_a_choice_of_batch_transforms(tmp_path: Path) -> None:
    transforms = [Resize((8, 8)), RandomChoice([MixUp(0.1), CutMix()], p=[1, 3])]
    save_recipe(transforms, tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == transforms


def test_transforms_of_images_and_batches_and_functions_are_told_apart() -> None:
    flip = RandomChoice([RandomHorizontalFlip(), Resize(9)])
    images, plan = split_transforms([Resize(8), flip, MixUp(), CutMix(), double])
    assert images == (Resize(8), flip)
    assert plan.transforms == (MixUp(), CutMix())
    assert plan.functions == (double,)
    assert plan.columns == {"label"}
    assert plan.to_json()[-1] == {"function": f"{__name__}.double"}


def of_torchvision(name: str) -> Any:
    """A stand-in for a transform of torchvision, which need not be installed."""
    return type(name, (), {"__module__": "torchvision.transforms.v2._x", "__call__": lambda *_: None})()


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([MixUp(), Resize(8)], "stands after"),
        ([double, Resize(8)], "stands after"),
        ([double, MixUp()], "stands after"),
        ([Resize(8), AllColumns(double), double], "double stands after AllColumns"),
        ([Resize], "the class Resize"),
        (["Resize"], r"transforms must be transforms of stoker\.augment, found 'Resize'"),
        (of_torchvision("Compose"), "torchvision's Compose\nGive a list"),
        ([of_torchvision("FiveCrop"), Resize(8)], "torchvision's FiveCrop\n.*wrap it in a function"),
        ([Resize(8), of_torchvision("ToTensor")], "torchvision's ToTensor\nLeave it out: batches are arrays"),
        ([of_torchvision("RandomErasing")], "Write stoker.augment.RandomErasing, which"),
    ],
)
def test_what_is_no_list_of_transforms_in_their_order_is_refused(transforms: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_image(split_transforms(transforms)[0])


def test_a_choice_of_batch_transforms_is_refused_among_transforms_of_images() -> None:
    with pytest.raises(ConfigError, match="only a loader applies"):
        compile_image([Resize((8, 8)), RandomChoice([MixUp()])])
    with pytest.raises(ConfigError, match="transforms must be"):
        RandomChoice([MixUp(), Resize(8)])
