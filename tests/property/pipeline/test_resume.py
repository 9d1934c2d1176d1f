"""Loaders stopped anywhere and resumed on any number of ranks: the other samples come once, unchanged."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from helpers.images import encode

import stoker
from stoker import ClassBalanced, ImageLoader, Repeated, Weighted
from stoker.augment import (
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    SubtractMean,
    Transform,
    compile_image,
)
from stoker.augment.steps import Step
from stoker.pipeline.order.orders import BlockShuffle

Make = Callable[..., Any]

Int64 = npt.NDArray[np.int64]

TRANSFORMS = [RandomResizedCrop(12), RandomHorizontalFlip(), RandomVerticalFlip()]


@dataclass(frozen=True)
class Half(Step):
    """A custom step."""

    def apply(self, i: int, pixels: Any) -> Any:
        return pixels // 2


@dataclass(frozen=True)
class RandomHalf(Transform):
    """A custom transform, which changes every second sample."""

    draws: ClassVar[int] = 1

    def params(self, state: Any, u: npt.NDArray[np.float64]) -> None:
        state.add_steps(Half(u[:, 0] < 0.5))


@pytest.fixture
def load(thumbnails: Path, open_loader: Make) -> Make:
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 11, "num_threads": 1}
    arguments |= {"transforms": TRANSFORMS, "columns": ("image", "row")}
    return lambda dataset=thumbnails, **options: open_loader(dataset, **{**arguments, **options})


def samples(batches: Any) -> list[tuple[int, str]]:
    """Row and digest of the pixels of every sample, in order."""
    return [
        (int(row), hashlib.sha256(np.ascontiguousarray(image)).hexdigest())
        for batch in batches
        for row, image in zip(batch.row, batch.image, strict=True)
    ]


def together(ranks: list[ImageLoader], steps: int | None = None) -> list[tuple[int, str]]:
    """Samples of the first steps of a pass, in the global order: a batch of each rank, interleaved."""
    received = []
    for parts in itertools.islice(zip(*ranks, strict=True), steps):
        turns = itertools.zip_longest(*(samples([part]) for part in parts))
        received += [sample for turn in turns for sample in turn if sample]
    return received


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(state)
    assert len(text) < 2000
    return json.loads(text)


@pytest.mark.parametrize("epoch", [0, 3])
def test_every_stop_goes_on_with_exactly_the_next_batch(load: Make, epoch: int) -> None:
    loader = load()
    loader.set_epoch(epoch)
    whole = samples(loader) + samples(loader)
    resumed = load(batch_size=7)
    loader.set_epoch(epoch)
    states = [loader.state_dict()]
    states += [loader.state_dict() for _ in loader]
    for state in states:
        resumed.load_state_dict(through_json(state))
        seen = state["position"] if state["epoch"] == epoch else 61
        assert samples(resumed) == whole[seen : 61 if seen < 61 else 122]
        assert resumed.state_dict()["epoch"] == (epoch + 1 if seen < 61 else epoch + 2)


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
def test_two_stops_in_an_epoch_lose_nothing(load: Make) -> None:
    whole = samples(load())
    found, state = [], load().state_dict()
    for world_size, steps in ((1, 3), (2, 2), (3, None)):
        ranks = [load(rank=rank, world_size=world_size) for rank in range(world_size)]
        for rank in ranks:
            rank.load_state_dict(state)
        found += together(ranks, steps)
        states = [through_json(rank.state_dict()) for rank in ranks]
        assert all(other == states[0] for other in states)
        state = states[0]
    assert found == whole
    assert (state["epoch"], state["position"]) == (1, 0)


SAMPLERS = {
    "weighted": {"sampler": Weighted("height"), "shuffle": False},
    "weighted, each once": {"sampler": Weighted("height", replacement=False), "shuffle": False},
    "classes balanced": {"sampler": ClassBalanced("width"), "shuffle": False},
    "repeated": {"sampler": Repeated(2), "shuffle": True},
    "stream": {"steps_per_epoch": 2, "shuffle": True},
    "blocks": {"shuffle": BlockShuffle(block=4, window=2)},
    "mixed": {"shuffle": True},
}


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_stop_of_every_sampler_loses_nothing(load: Make, thumbnails: Path, name: str) -> None:
    few = stoker.open(thumbnails).select(np.arange(17))
    dataset = stoker.mix([(few.select(np.arange(5)), 1), (few, 2)], samples=17) if name == "mixed" else few
    # The stream's epochs are twelve samples on two ranks, and eighteen on three.
    options = {"dataset": dataset, **SAMPLERS[name]}
    passes = 4 if name == "stream" else 2
    alone = load(batch_size=6, **options)
    whole = [sample for _ in range(passes) for sample in samples(alone)]
    for stop in range(len(alone)):
        ranks = [load(batch_size=3, rank=r, world_size=2, **options) for r in range(2)]
        seen = together(ranks, stop)
        assert seen == whole[: len(seen)]
        states = [rank.state_dict() for rank in ranks]
        assert states[0] == states[1]
        others = [load(batch_size=3, num_threads=2, rank=r, world_size=3, **options) for r in range(3)]
        for other in others:
            other.load_state_dict(through_json(states[0]))
        rest = together(others)
        assert rest == whole[len(seen) : len(seen) + len(rest)]
        assert len(seen) + len(rest) == (18 if name == "stream" else len(whole) // 2)
        slow = load(batch_size=5, engine="reference", **options)
        slow.load_state_dict(through_json(states[0]))
        rows = [row for row, _ in samples(slow)]
        assert rows == [row for row, _ in whole[len(seen) : len(seen) + len(rows)]]
        assert rows


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
@pytest.mark.parametrize(
    ("color", "dtype", "steps"),
    [("as_stored", np.uint16, ()), ("rgb", np.uint8, (RandomHalf(),))],
    ids=["16 bits", "custom step"],
)
def test_every_stop_of_images_less_their_mean_loses_nothing(
    load: Make, pack_images: Make, tmp_path: Path, color: str, dtype: Any, steps: tuple[Transform, ...]
) -> None:
    shape = (13, 12, 16) if color == "as_stored" else (13, 12, 16, 3)
    pixels = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype)
    np.save(tmp_path / "mean.npy", pixels.mean(axis=0, dtype=np.float32))
    options = {
        "dataset": pack_images([encode(image, "PNG") for image in pixels]),
        "color": color,
        "transforms": [RandomCrop(8), RandomHorizontalFlip(), *steps, SubtractMean(tmp_path / "mean.npy")],
    }
    whole = samples(load(**options))
    assert len({digest for _, digest in whole}) == 13
    for stop, ranks in enumerate((3, 1, 3, 1)):
        pair = [load(batch_size=2, rank=rank, world_size=2, **options) for rank in range(2)]
        seen = together(pair, stop)
        others = [load(batch_size=2, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
        for other in others:
            other.load_state_dict(through_json(pair[0].state_dict()))
        assert seen + together(others) == whole


@dataclass(frozen=True)
class RecordingSampler:
    """A sampler that draws all samples, and records which draws a loader asks for."""

    asked: list[Int64] = field(default_factory=list, repr=False)

    def order(self, dataset: Any, shuffled: Any, seed: int) -> Any:
        def positions(epoch: int, draws: Int64) -> Int64:
            self.asked.append(draws)
            return shuffled.positions(epoch, draws)

        return SimpleNamespace(n=shuffled.n, distinct=True, positions=positions)


def test_loading_a_state_asks_for_no_draw_before_its_position(load: Make) -> None:
    sampler = RecordingSampler()
    loader = load(batch_size=1, prefetch=1, read_ahead=0, sampler=sampler)
    state = {**loader.state_dict(), "epoch": 10**6, "position": 50}
    loader.load_state_dict(state)
    assert not sampler.asked
    next(iter(loader))
    assert np.concatenate(sampler.asked).min() == 50


def test_batches_that_are_ready_and_not_received_do_not_count(load: Make) -> None:
    loader = load(prefetch=12)
    running = iter(loader)
    for _ in range(2):
        next(running)
    assert loader.state_dict()["position"] == 8
    running = iter(load())
    expected = [samples([next(running)]) for _ in range(3)][2]
    other = load(prefetch=1)
    other.load_state_dict(loader.state_dict())
    assert samples([next(iter(other))]) == expected


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("prefetch", [1, 2, 9])
def test_threads_and_prefetching_change_no_sample(load: Make, num_threads: int, prefetch: int) -> None:
    expected = samples(load())
    assert samples(load(num_threads=num_threads, prefetch=prefetch)) == expected


@pytest.mark.parametrize("shuffle", [False, BlockShuffle(0, block=4, window=3)])
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_a_global_batch_is_the_same_on_any_number_of_ranks(load: Make, shuffle: Any, world_size: int) -> None:
    alone = list(load(batch_size=24, shuffle=shuffle))
    ranks = [
        load(batch_size=24 // world_size, shuffle=shuffle, rank=r, world_size=world_size)
        for r in range(world_size)
    ]
    for batch, parts in zip(alone, zip(*ranks, strict=True), strict=True):
        assert sorted(samples([batch])) == sorted(samples(parts))


def test_engines_draw_the_same_samples_crops_and_flips(load: Make) -> None:
    pytest.importorskip("nvidia.dali")
    native, dali = load(engine="native"), load(engine="dali")
    for left, right in zip(native, dali, strict=True):
        assert np.array_equal(left.row, right.row)
        difference = np.abs(left.image.astype(int) - right.image.astype(int))
        assert difference.mean() < 3, "the same crops and flips, up to the border's filter"
    native.set_epoch(0)
    next(iter(native))
    dali.load_state_dict(through_json(native.state_dict()))
    assert next(iter(dali)).row.tolist() == [row for row, _ in samples(load(engine="native"))][4:8]


# A checkpoint stores no parameters of transforms: a later version must draw the same ones.
GOLDEN = {
    (0, 0): "b6921db4f9a8372c",
    (0, 1): "8d45a3fc322b1050",
    (7, 0): "cd70ea78e7232bc1",
    (-(2**66), 2**40): "0c6f63e69b5d7664",
}


@pytest.mark.parametrize(("seed", "epoch", "expected"), [(*key, value) for key, value in GOLDEN.items()])
def test_parameters_are_those_of_earlier_versions(seed: int, epoch: int, expected: str) -> None:
    plan = compile_image(TRANSFORMS)
    rows = np.arange(64)
    params = plan.draw(300 + rows, 500 - 3 * rows, rows, seed, epoch)
    digest = hashlib.sha256()
    for array in (params.crop, params.region, params.flip):
        digest.update(array.tobytes())
    assert digest.hexdigest()[:16] == expected
