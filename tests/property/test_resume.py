"""Any stop, any number of ranks afterwards: what was not seen is seen once, and it is the same."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stoker import ImageLoader
from stoker.augment import (
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    compile_image,
)
from stoker.pipeline.order import BlockShuffle, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORLDS = (1, 2, 3, 4, 8)
TRANSFORMS = [RandomResizedCrop(12), RandomHorizontalFlip(), RandomVerticalFlip()]


def positions_of(schedules: list[Schedule], first: int, last: int) -> list[int]:
    """Positions that all ranks together get in steps first..last-1, without padding."""
    drawn = [schedule.positions(step) for step in range(first, last) for schedule in schedules]
    return [int(position) for positions, mask in drawn for position in positions[mask]]


@pytest.mark.parametrize("last_batch", ["partial", "pad"])
@pytest.mark.parametrize("before", WORLDS)
@pytest.mark.parametrize("after", WORLDS)
def test_every_stop_on_every_other_number_of_ranks(last_batch: Any, before: int, after: int) -> None:
    n = 53
    ranks = [Schedule(n, 3, rank, before, last_batch) for rank in range(before)]
    for stop in range(len(ranks[0]) + 1):
        seen = positions_of(ranks, 0, stop)
        start = {schedule.consumed(stop) for schedule in ranks}
        assert len(start) == 1, "every rank saves the same position"
        others = [Schedule(n, 2, rank, after, last_batch, start.copy().pop()) for rank in range(after)]
        seen += positions_of(others, 0, len(others[0]))
        assert sorted(seen) == list(range(n)), f"stopped after {stop} steps"


@pytest.fixture
def load(thumbnails: Path) -> Iterator[Callable[..., ImageLoader]]:
    made = []

    def make(**options: Any) -> ImageLoader:
        given = {"batch_size": 4, "shuffle": True, "seed": 11, "num_threads": 1, **options}
        made.append(ImageLoader(thumbnails, transforms=TRANSFORMS, columns=("image", "row"), **given))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def samples(batches: Any) -> list[tuple[int, str]]:
    """Row and digest of the pixels of every sample, in order."""
    return [
        (int(row), hashlib.sha256(np.ascontiguousarray(image)).hexdigest())
        for batch in batches
        for row, image in zip(batch.row, batch.image, strict=True)
    ]


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(state)
    assert len(text) < 2000
    return json.loads(text)


@pytest.mark.parametrize("epoch", [0, 3])
def test_every_stop_goes_on_with_exactly_the_next_batch(load: Callable[..., ImageLoader], epoch: int) -> None:
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


def test_a_stop_twice_an_epoch(load: Callable[..., ImageLoader]) -> None:
    whole = samples(load())
    found, state = [], load().state_dict()
    for world_size, steps in ((1, 3), (2, 2), (3, None)):
        ranks = [load(rank=rank, world_size=world_size) for rank in range(world_size)]
        for rank in ranks:
            rank.load_state_dict(state)
        for parts in itertools.islice(zip(*ranks, strict=True), steps):
            # A global batch is the ranks' batches, interleaved.
            turns = itertools.zip_longest(*(samples([part]) for part in parts))
            found += [sample for turn in turns for sample in turn if sample]
        states = [through_json(rank.state_dict()) for rank in ranks]
        assert all(other == states[0] for other in states)
        state = states[0]
    assert found == whole
    assert (state["epoch"], state["position"]) == (1, 0)


def test_what_is_ready_and_not_received_does_not_count(load: Callable[..., ImageLoader]) -> None:
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
def test_threads_and_prefetching_change_nothing(
    load: Callable[..., ImageLoader], num_threads: int, prefetch: int
) -> None:
    expected = samples(load())
    assert samples(load(num_threads=num_threads, prefetch=prefetch)) == expected


@pytest.mark.parametrize("shuffle", [False, BlockShuffle(0, block=4, window=3)])
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_a_global_batch_is_the_same_on_any_number_of_ranks(
    load: Callable[..., ImageLoader], shuffle: Any, world_size: int
) -> None:
    one = list(load(batch_size=24, shuffle=shuffle))
    ranks = [
        load(batch_size=24 // world_size, shuffle=shuffle, rank=r, world_size=world_size)
        for r in range(world_size)
    ]
    for batch, parts in zip(one, zip(*ranks, strict=True), strict=True):
        assert sorted(samples([batch])) == sorted(samples(parts))


def test_engines_draw_the_same(load: Callable[..., ImageLoader]) -> None:
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


# What samples look like is part of what a checkpoint relies on, too.
GOLDEN = {
    (0, 0): "b6921db4f9a8372c",
    (0, 1): "8d45a3fc322b1050",
    (7, 0): "cd70ea78e7232bc1",
    (-(2**66), 2**40): "0c6f63e69b5d7664",
}


@pytest.mark.parametrize(("seed", "epoch", "expected"), [(*key, value) for key, value in GOLDEN.items()])
def test_parameters_are_those_of_every_version(seed: int, epoch: int, expected: str) -> None:
    plan = compile_image(TRANSFORMS)
    rows = np.arange(64)
    params = plan.draw(300 + rows, 500 - 3 * rows, rows, seed, epoch)
    digest = hashlib.sha256()
    for array in (params.crop, params.region, params.flip):
        digest.update(array.tobytes())
    assert digest.hexdigest()[:16] == expected
