"""Sizes that differ between batches: the same samples on any number of ranks and after any stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.loaders import image_arguments
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import AspectBuckets, ImageLoader, Patches, Pixels, RandomSizes
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop, RandomShortestSize
from stoker.pipeline.execution.ranks import Process
from stoker.pipeline.images.sizes import make_size_plan

SIZES = [{0: 8, 1: (12, 6)}, RandomSizes(6, 10, step=2, every=1), RandomSizes(6, 8, step=2, every=3)]


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
@settings(max_examples=10)
@given(st.data())
def test_ranks_agree_on_sizes_and_a_stopped_loader_goes_on(thumbnails: Path, data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, 3))
    amount = data.draw(st.sampled_from([{"batch_size": 3}, {"pixels_per_batch": 300}]))
    options: dict[str, Any] = {
        "shuffle": True,
        "transforms": [RandomResizedCrop(9), RandomHorizontalFlip()],
        "columns": ("image", "row"),
        "sizes": data.draw(st.sampled_from([*SIZES, "padded"])),
        "last_batch": data.draw(st.sampled_from(["partial", "drop", "pad"])),
        "world_size": ranks,
        **amount,
    }
    if options["sizes"] == "padded":
        options |= {"transforms": [RandomShortestSize((6, 9))], "batch_size": 3, "pixels_per_batch": None}
    if options["last_batch"] == "pad":
        options["columns"] = ("image", "row", "mask")
    epoch = data.draw(st.integers(0, 1))
    runs = []
    for rank in range(ranks):
        with ImageLoader(thumbnails, **image_arguments(rank=rank, **options)) as loader:
            loader.set_epoch(epoch)
            assert len(loader) == loader.steps_left
            runs.append(list(loader))
    steps = {len(run) for run in runs}
    assert len(steps) == 1
    for batches in zip(*runs, strict=True):
        assert len({batch.image.shape[2:] for batch in batches}) == 1 or options["sizes"] == "padded"
    shown = [row for run in runs for batch in run for row in _shown(batch)]
    assert len(set(shown)) == len(shown)
    assert len(shown) == 61 or options["last_batch"] == "drop"
    stop = data.draw(st.integers(0, max(0, steps.pop() - 1)))
    _check_resume(thumbnails, runs[-1], epoch, stop, {**options, "rank": ranks - 1})


PLANNED: list[dict[str, Any]] = [
    {"sizes": AspectBuckets(area=100, multiple=4)},
    {"sizes": "padded", "pad_to_multiple_of": 4, "aspect_ratio_group_factor": 1},
    {"sizes": "ragged", "aspect_ratio_group_factor": 0},
    {"sizes": Patches(size=4, most=16, row=40), "columns": ("row", "mask", "patches")},
]


@settings(max_examples=12)
@given(st.data())
def test_planned_epochs_show_each_sample_once_on_any_ranks_after_any_stop(
    thumbnails: Path, data: st.DataObject
) -> None:
    options: dict[str, Any] = {
        "columns": ("row", "mask"),
        **data.draw(st.sampled_from(PLANNED)),
        "batch_size": data.draw(st.integers(1, 9)),
        "shuffle": data.draw(st.booleans()),
        "last_batch": data.draw(st.sampled_from(["partial", "pad"])),
    }
    seen: list[int] = []
    states: list[dict[str, Any]] = [{}]
    for ranks in data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)):
        loaders = [
            ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **options))
            for rank in range(ranks)
        ]
        if states[0]:
            for loader in loaders:
                loader.load_state_dict(states[0])
        steps = {loader.steps_left for loader in loaders}
        assert len(steps) == 1
        stop = data.draw(st.integers(0, steps.pop()))
        for loader in loaders:
            batches = [batch for _, batch in zip(range(stop), loader, strict=False)]
            if "patches" in options["columns"]:
                assert all(batch.patches.shape == (len(batch.mask), 40, 48) for batch in batches)
            seen += [row for batch in batches for row in _shown(batch)]
        states = [loader.state_dict() for loader in loaders]
        assert all(state == states[0] for state in states)
        for loader in loaders:
            loader.close()
        if states[0]["epoch"]:
            break
    last = ImageLoader(thumbnails, **image_arguments(rank=0, world_size=1, **options))
    last.load_state_dict(states[0])
    if states[0]["epoch"] == 0:
        seen += [row for batch in last for row in _shown(batch)]
    assert sorted(seen) == list(range(61))


def _shown(batch: Any) -> list[int]:
    rows = batch.row[batch.mask] if "mask" in batch._fields else batch.row
    shown: list[int] = rows[rows >= 0].tolist()  # packed rows of patches have -1 after their last image
    return shown


def _check_resume(dataset: Path, whole: list[Any], epoch: int, stop: int, options: dict[str, Any]) -> None:
    with ImageLoader(dataset, **image_arguments(**options)) as loader:
        loader.set_epoch(epoch)
        for _, _ in zip(range(stop), loader, strict=False):
            pass
        state = loader.state_dict()
    with ImageLoader(dataset, **image_arguments(**options)) as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert len(rest) == len(whole) - stop
    for found, expected in zip(rest, whole[stop:], strict=True):
        assert all((found[i] == expected[i]).all() for i in range(len(found)))


@settings(max_examples=50)
@given(st.data())
def test_a_resume_on_other_ranks_draws_the_rest_once(data: st.DataObject) -> None:
    n, seed = data.draw(st.integers(1, 300)), data.draw(st.integers(0, 9))
    plan = make_size_plan(data.draw(st.sampled_from(SIZES)), Pixels(data.draw(st.integers(100, 400))), seed)
    start, seen = 0, []
    for _ in range(3):
        ranks = data.draw(st.integers(1, 4))
        steps = [
            plan.steps(n, Process(rank, ranks), "partial", epoch=1, start=start) for rank in range(ranks)
        ]
        stop = data.draw(st.integers(0, len(steps[0])))
        seen += [draw for rank in steps for step in range(stop) for draw in rank.draws(step)[0].tolist()]
        middle = data.draw(st.integers(0, stop))
        rest = plan.steps(n, Process(0, ranks), "partial", epoch=1, start=steps[0].consumed(middle))
        again = [(rest.size(step), rest.draws(step)[0].tolist()) for step in range(len(rest))]
        whole = [(steps[0].size(step), steps[0].draws(step)[0].tolist()) for step in range(len(steps[0]))]
        assert again == whole[middle:]
        start = steps[0].consumed(stop)
    assert sorted(seen) == list(range(start))
