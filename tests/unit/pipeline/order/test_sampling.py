"""Samplers: the order that a loader draws with each, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import FOLDERS, truth
from helpers.loaders import rows_of

import stoker
from stoker import BlockShuffle, ClassBalanced, Repeated, Weighted
from stoker.augment import Letterbox, RandomResizedCrop
from stoker.errors import CheckpointError, ConfigError, DatasetError
from stoker.pipeline.order.orders import FullShuffle, Sequential

Make = Callable[..., Any]


@pytest.fixture
def load(thumbnails: Path, open_loader: Make) -> Make:
    defaults: dict[str, Any] = {"batch_size": 8, "seed": 5, "num_threads": 1}
    defaults |= {"transforms": [RandomResizedCrop(12)], "columns": ("image", "row", "label")}
    return lambda dataset=thumbnails, **options: open_loader(dataset, **{**defaults, **options})


def rows(loader: stoker.ImageLoader) -> list[int]:
    """Rows of the index of all samples of an epoch."""
    return [int(row) for batch in loader for row in loader.dataset.rows[batch.row]]


def images_by_row(loader: stoker.ImageLoader) -> dict[int, list[bytes]]:
    """Bytes of all images of an epoch, by the row of their sample."""
    images: dict[int, list[bytes]] = {}
    for batch in loader:
        for row, image in zip(loader.dataset.rows[batch.row].tolist(), batch.image, strict=True):
            images.setdefault(row, []).append(image.tobytes())
    return images


def test_weights_can_be_a_column_or_an_array(load: Make) -> None:
    by_name = rows(load(sampler=Weighted("label")))
    assert by_name == rows(load(sampler=Weighted(np.arange(61))))
    assert len(by_name) == 61
    assert 0 not in by_name, "its weight is 0"
    assert len(rows(load(sampler=Weighted("label", samples=200)))) == 200


def test_without_replacement_no_sample_is_drawn_twice(load: Make) -> None:
    loader = load(sampler=Weighted("label", replacement=False))
    first, second = rows(loader), rows(loader)
    assert sorted(first) == sorted(second) == list(range(1, 61))
    assert first != second
    assert rows(load(sampler=Weighted("label", replacement=False, samples=60))) == first
    few = [rows(load(sampler=Weighted("label", replacement=False, samples=9), seed=s)) for s in range(40)]
    assert all(len(set(drawn)) == 9 for drawn in few)
    assert np.mean(few) > 35, "heavy samples come first"


def test_classes_can_be_a_column_or_an_array_also_of_a_selection(load: Make, thumbnails: Path) -> None:
    dataset = stoker.open(thumbnails)
    unbalanced = dataset.select([*range(20), 40])
    drawn = Counter(rows(load(unbalanced, sampler=ClassBalanced(samples=42))))
    assert drawn == dict.fromkeys([*range(20), 40], 2)
    assert rows(load(sampler=ClassBalanced())) == rows(load(sampler=ClassBalanced(np.arange(61))))
    drawn = Counter(rows(load(sampler=ClassBalanced("orientation"))))
    assert drawn == dict.fromkeys(range(61), 1), "one class"


def test_crops_follow_the_seed_and_the_epoch(load: Make) -> None:
    loader, same, other = load(), load(), load(seed=6)
    first, second = images_by_row(loader), images_by_row(loader)
    assert images_by_row(same) == first
    differing = images_by_row(other), second
    assert all(first[row] != images[row] for images in differing for row in range(61))


def test_repeats_have_different_crops(load: Make) -> None:
    loader = load(sampler=Repeated(3), shuffle=True)
    order = rows(loader)
    assert len(order) == len(loader) * 8 - 1 == 183
    assert order[::3] == order[1::3] == order[2::3] == rows(load(shuffle=True))
    loader.set_epoch(0)
    images = images_by_row(loader)
    assert all(len(set(crops)) == 3 for crops in images.values())


def test_repeats_fill_an_epoch_of_the_usual_length_as_in_deit(load: Make) -> None:
    """As with DeiT's RASampler: indices are repeated, spread over ranks, and cut to the usual length."""
    order = FullShuffle(61, 5).positions(0, np.arange(61))
    usual = np.repeat(order, 3)[:61]
    for rank in range(4):
        loader = load(sampler=Repeated(3, samples=61), shuffle=True, rank=rank, world_size=4, batch_size=2)
        assert rows(loader) == usual[rank::4].tolist()


def test_repeated_repeats_the_draws_of_another_sampler(load: Make) -> None:
    base = rows(load(sampler=ClassBalanced()))
    assert rows(load(sampler=Repeated(2, of=ClassBalanced()))) == np.repeat(base, 2).tolist()


def test_repeats_in_a_selection_have_different_crops(load: Make, thumbnails: Path) -> None:
    chosen = stoker.open(thumbnails).select([3, 3, 3, 9])
    images = images_by_row(load(chosen))
    assert len(set(images[3])) == 3
    plain = images_by_row(load(stoker.open(thumbnails).select([3, 9])))
    assert plain[9] == images_by_row(load())[9], "without repeats a sample's crop is its own wherever it is"


def test_a_loader_draws_by_a_sampler_of_the_user(load: Make) -> None:
    class Backwards:
        def order(self, dataset: Any, shuffled: Any, seed: int) -> Any:
            assert seed == 5
            assert shuffled == Sequential(61)

            class Order:
                n, distinct = len(dataset), True

                def positions(self, epoch: int, draws: Any) -> Any:
                    return self.n - 1 - draws

                def __repr__(self) -> str:
                    return "Backwards()"

            return Order()

    assert rows(load(sampler=Backwards())) == list(range(61))[::-1]


class TestStream:
    def test_continues_from_pass_to_pass_of_any_length(self, load: Make) -> None:
        loader = load(steps_per_epoch=3, shuffle=True)
        assert len(loader) == 3
        drawn = [row for _ in range(6) for row in rows(loader)]
        order = FullShuffle(61, 5)
        assert drawn == [int(row) for e in range(3) for row in order.positions(e, np.arange(61))][:144]
        loader = load(steps_per_epoch=20)
        assert rows(loader) == [i % 61 for i in range(160)]
        loader.set_epoch(5)
        assert rows(loader)[:3] == [800 % 61, 801 % 61, 802 % 61]

    def test_draws_different_crops_of_a_sample_each_time(self, load: Make) -> None:
        images = images_by_row(load(steps_per_epoch=23))
        assert all(len(set(crops)) == len(crops) >= 3 for crops in images.values())

    @pytest.mark.parametrize(("batch_size", "steps_per_epoch"), [(8, 7), (4, 7), (7, 3), (16, 50)])
    def test_resumes_with_another_length(self, load: Make, batch_size: int, steps_per_epoch: int) -> None:
        def drawn(loader: stoker.ImageLoader, samples: int) -> list[tuple[int, bytes]]:
            samples_drawn: list[tuple[int, bytes]] = []
            while len(samples_drawn) < samples:
                for batch in loader:
                    images = [image.tobytes() for image in batch.image]
                    samples_drawn += zip(batch.row.tolist(), images, strict=True)
            return samples_drawn[:samples]

        loader = load(steps_per_epoch=7, shuffle=True)
        whole = drawn(load(steps_per_epoch=7, shuffle=True), 300)
        loader.set_epoch(1)
        running = iter(loader)
        for _ in range(3):
            next(running)
        other = load(steps_per_epoch=steps_per_epoch, shuffle=True, batch_size=batch_size)
        other.load_state_dict(loader.state_dict())
        seen = (7 + 3) * 8
        state = other.state_dict()
        assert state["epoch"] * steps_per_epoch * batch_size + state["position"] == seen
        assert drawn(other, 200) == whole[seen : seen + 200]

    def test_refuses_the_state_of_an_epoch_order_and_the_reverse(self, load: Make) -> None:
        stream, plain = load(steps_per_epoch=3), load()
        with pytest.raises(CheckpointError, match=r"order was 'Stream\(.*' and is 'Sequential"):
            plain.load_state_dict(stream.state_dict())
        with pytest.raises(CheckpointError, match=r"order was 'Sequential\(.*' and is 'Stream"):
            stream.load_state_dict(plain.state_dict())
        with pytest.raises(CheckpointError, match="samples_per_epoch, epoch and position must be whole"):
            stream.load_state_dict({**stream.state_dict(), "samples_per_epoch": "3"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps_per_epoch": 0}, "steps_per_epoch must be at least 1"),
        ({"sampler": Weighted("label"), "shuffle": True}, "Weighted draws at random itself"),
        ({"sampler": ClassBalanced(), "shuffle": BlockShuffle(1)}, "ClassBalanced draws at random itself"),
        ({"sampler": Weighted(np.ones(3))}, r"weights must be one number a sample, 61, found shape \(3,\)"),
        ({"sampler": Weighted(np.ones((61, 1)))}, r"weights must be one number a sample, 61, found shape"),
        ({"sampler": Weighted(np.zeros(61))}, "finite numbers from 0, with at least one above 0"),
        ({"sampler": Weighted(np.full(61, np.inf))}, "finite numbers from 0"),
        ({"sampler": Weighted(np.arange(61) - 1)}, "finite numbers from 0"),
        ({"sampler": Weighted(np.full(61, np.nan))}, "finite numbers from 0"),
        ({"sampler": Weighted(np.full(61, 1e308))}, r"sum of the weights must be finite.* is 1e\+308"),
        ({"sampler": Weighted(np.ones(61), samples=0)}, "samples must be at least 1, found 0"),
        (
            {"sampler": Weighted("label", replacement=False, samples=61)},
            "samples must be at most 60, found 61",
        ),
        ({"sampler": ClassBalanced(samples=-1)}, "samples must be at least 1, found -1"),
        ({"sampler": ClassBalanced(np.zeros(7))}, "classes must be one number a sample, 61, found float64"),
        ({"sampler": ClassBalanced(["cat"] * 61)}, "classes must be one number a sample"),
        ({"sampler": range(61)}, r"sampler must have a method order\(\), found range"),
        ({"sampler": Repeated(2, samples=123)}, "samples must be at most 122, found 123"),
    ],
)
def test_a_loader_refuses_samplers_that_do_not_fit(load: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**options)


def test_an_unknown_column_and_zero_repeats_are_refused(load: Make) -> None:
    with pytest.raises(DatasetError, match="no column 'weight'"):
        load(sampler=Weighted("weight"))
    with pytest.raises(ConfigError, match="times must be at least 1, found 0"):
        Repeated(0)


SAMPLERS = [
    None,
    Weighted("label"),
    Weighted("height"),
    Weighted("label", replacement=False),
    ClassBalanced(),
    Repeated(2),
    Repeated(3),
    Repeated(2, samples=61),
    Repeated(2, of=ClassBalanced()),
]


def test_a_state_is_refused_by_another_sampler(load: Make) -> None:
    loaders = [load(sampler=sampler) for sampler in SAMPLERS]
    for i, saved in enumerate(loaders):
        for j, other in enumerate(loaders):
            if i == j:
                other.load_state_dict(saved.state_dict())
                continue
            with pytest.raises(CheckpointError, match="the state belongs to another loader: order was"):
                other.load_state_dict(saved.state_dict())


pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    """Three images, with people only on the first and cars on all; and one without objects."""
    source = FOLDERS["coco"](tmp_path / "source")
    content = truth()
    content["annotations"] = [
        entry for entry in content["annotations"] if entry["image_id"] == 1 or entry["category_id"] == 2
    ]
    (tmp_path / "source" / "3.png").write_bytes((tmp_path / "source" / "2.png").read_bytes())
    content["images"].append({"id": 9, "file_name": "3.png", "height": 80, "width": 80})
    source.src.write_text(json.dumps(content))
    stoker.convert(source.src, tmp_path / "shards")
    return stoker.open(tmp_path / "shards")


def load_objects(dataset: Any, **options: Any) -> stoker.ImageLoader:
    sampler = ClassBalanced("object_labels", samples=12)
    defaults = {"batch_size": 4, "columns": ("row",), "transforms": [Letterbox(8)], "sampler": sampler}
    return stoker.ImageLoader(dataset, **{**defaults, **options})


def test_classes_of_objects_are_drawn_equally_often(dataset: Any) -> None:
    with load_objects(dataset) as loader:
        assert Counter(rows_of(loader)) == {0: 6 + 2, 1: 2, 2: 2}
    people = dataset.select(classes=["person"])
    with load_objects(people) as loader:
        assert Counter(rows_of(loader)) == {0: 12}


def test_a_state_resumes_with_the_same_classes_only(dataset: Any) -> None:
    with load_objects(dataset) as loader, load_objects(dataset) as again:
        whole = rows_of(loader)
        steps = iter(again)
        first = next(steps).row.tolist()
        state = again.state_dict()
    with (
        load_objects(dataset) as resumed,
        load_objects(dataset, sampler=ClassBalanced("image_id", samples=12)) as other,
    ):
        resumed.load_state_dict(state)
        assert first + rows_of(resumed) == whole
        with pytest.raises(CheckpointError, match="order was"):
            other.load_state_dict(state)


def test_images_without_objects_are_refused(thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="needs objects, and the dataset has none"):
        load_objects(thumbnails)
