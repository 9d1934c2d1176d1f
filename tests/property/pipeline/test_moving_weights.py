"""Mixtures whose weights change: by a schedule, or where a training resumes with other weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import shards as text_shards
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.order.quotas import apportion_draws
from stoker.pipeline.preview.replay import replay

COLUMNS = ("row", "dataset")


def mixed(thumbnails: Path, weights: tuple[float, float], **options: Any) -> Any:
    opened = stoker.open(thumbnails)
    parts = (opened.select(np.arange(20)), opened.select(np.arange(20, 61)))
    return stoker.mix(list(zip(parts, weights, strict=True)), **options)


def load(mixture: Any, **options: Any) -> ImageLoader:
    options = {
        "batch_size": 8,
        "shuffle": True,
        "transforms": [Resize((4, 4))],
        "columns": COLUMNS,
        "seed": 2,
        "last_batch": "drop",
        **options,
    }
    return ImageLoader(mixture, **image_arguments(**options))


def drawn(loader: Any, passes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Row and dataset of each sample of some passes."""
    batches = [batch for _ in range(passes) for batch in loader]
    return tuple(np.concatenate([getattr(batch, name) for batch in batches]) for name in COLUMNS)  # type: ignore[return-value]


def check_cycles(rows: np.ndarray[Any, Any]) -> None:
    """Checks that each sample of a dataset was drawn as often as the others, or once more."""
    for dataset in (np.arange(20), np.arange(20, 61)):
        counts = np.bincount(rows, minlength=61)[dataset]
        assert counts.max() - counts.min() <= 1


def test_parts_of_a_schedule_have_exact_shares(thumbnails: Path) -> None:
    weights = {0: (0.9, 0.1), 13: (0.5, 0.5), 20: (0.25, 0.75)}
    schedule = {step: pair for step, pair in weights.items() if step}
    mixture = mixed(thumbnails, weights[0], samples=64, schedule=schedule, global_batch=16)
    with load(mixture, rank=0, world_size=1, batch_size=16) as loader:
        rows, datasets = drawn(loader, 11)  # 44 steps, which begin and end parts inside epochs
        described = json.loads(json.dumps(loader.describe()))
    ends = [13, 20, 44]
    for (first, pair), end in zip(weights.items(), ends, strict=True):
        part = datasets[first * 16 : end * 16]
        counts = apportion_draws(pair, len(part)).tolist()
        if end == 44:  # rounds of an epoch, 64 draws
            counts = (apportion_draws(pair, 64) * (len(part) // 64)).tolist()
        assert np.bincount(part, minlength=2).tolist() == counts
        assert np.bincount(part[: len(part) // 2], minlength=2)[0] == pytest.approx(counts[0] / 2, abs=8)
    check_cycles(rows)
    check_cycles(rows[: 20 * 16])
    for step in (0, 12, 13, 30):
        assert replay(described, step).batch.row.tolist() == rows[step * 16 : step * 16 + 16].tolist()
    halves = [load(mixture, rank=rank, world_size=2) for rank in range(2)]
    both = [drawn(loader, 11)[0].reshape(-1, 8) for loader in halves]
    assert np.stack(both, axis=-1).ravel().tolist() == rows.tolist(), "ranks share the same draws"


@pytest.mark.parametrize("stream", [False, True])
def test_changed_weights_leave_the_past_and_the_begun_block_as_they_were(
    thumbnails: Path, stream: bool
) -> None:
    options: dict[str, Any] = {"steps_per_epoch": 50} if stream else {}
    old, new = (mixed(thumbnails, weights, samples=320) for weights in ((0.8, 0.2), (0.2, 0.8)))
    with load(old, **options) as loader:
        expected, _ = drawn(loader, 2)
    with load(old, **options) as loader:
        running = iter(loader)
        for _ in range(13):
            next(running)
        state = loader.state_dict()
    with load(new, **options) as loader:
        with pytest.raises(
            CheckpointError, match=r"weights of the mixture were \[\[0, \[256, 64\]\]\] and are"
        ):
            loader.load_state_dict(state)
        loader.load_state_dict(state, allow=("weights",))
        rows = np.concatenate([expected[: 13 * 8], drawn(loader, 3)[0]])
        begin = loader.dataset.moving.parts[1].begin  # type: ignore[attr-defined]  # it is a mixture
        past = np.concatenate([loader.batch(0, step).row for step in range(13)])
        described, again = json.loads(json.dumps(loader.describe())), loader.state_dict()
    assert 104 <= begin < 104 + 128
    assert np.array_equal(past, expected[:104]), "batch() shows the past as it was"
    assert np.array_equal(rows[:begin], expected[:begin]), "the block that was begun ends as it was"
    check_cycles(rows[:begin])
    for end in (begin + 320, begin + 640):
        assert np.bincount(rows[end - 320 : end] >= 20).tolist() == [64, 256]
        check_cycles(rows[:end])
    with load(new, **options) as loader:  # the state has the parts
        loader.load_state_dict(again)
        following = next(iter(loader)).row
    assert replay(described, after=0).batch.row.tolist() == following.tolist()
    with (
        load(mixed(thumbnails, (0.8, 0.2), samples=60), **options) as loader,
        pytest.raises(CheckpointError, match="had 320 samples and has 60"),
    ):
        loader.load_state_dict(again, allow=("weights",))


@pytest.mark.parametrize("options", [{"max_tokens": 64}, {"pack": 32, "batch_size": 4}])
def test_changed_weights_of_text_hold_from_the_next_epoch_on(tmp_path: Path, options: dict[str, Any]) -> None:
    opened = stoker.open(text_shards.write_shards(tmp_path))
    columns = {"columns": ("input_ids", "row")}

    def make(weights: tuple[float, float]) -> Any:
        parts = zip((opened.select(np.arange(40)), opened.select(np.arange(40, 97))), weights, strict=True)
        return text_shards.make(stoker.mix(list(parts), samples=90), **options, **columns)

    def rows_of(batch: Any) -> list[int]:
        return [row for row in np.asarray(batch.row).ravel().tolist() if row >= 0]

    with make((0.7, 0.3)) as loader:
        running = iter(loader)
        for _ in range(3):
            next(running)
        state = loader.state_dict()
        rest = [rows_of(batch) for batch in running]
    with make((0.1, 0.9)) as loader:
        loader.load_state_dict(state, allow=("weights",))
        assert [rows_of(batch) for batch in loader] == rest
        for _ in range(2):
            rows = np.array([row for batch in loader for row in rows_of(batch)])
            assert np.bincount(rows >= 40).tolist() == [9, 81]
        again, following = loader.state_dict(), [rows_of(batch) for batch in loader]
    with make((0.1, 0.9)) as loader:
        loader.load_state_dict(again)
        assert [rows_of(batch) for batch in loader] == following


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": {5: (1, 1)}}, "give both, or neither"),
        ({"schedule": {0: (1, 1)}, "global_batch": 8}, r"ascending from 1, found steps \[0\]"),
        ({"schedule": {5: (1,)}, "global_batch": 8}, "a weight for each of 2 datasets"),
        ({"schedule": {5: (0, 0)}, "global_batch": 8}, "with at least one above 0"),
    ],
)
def test_a_wrong_schedule_is_refused(thumbnails: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mixed(thumbnails, (1, 1), **options)


def test_states_with_damaged_weights_are_refused(thumbnails: Path) -> None:
    with load(mixed(thumbnails, (1, 1))) as loader:
        state = loader.state_dict()
        with pytest.raises(ConfigError, match="allow can name only 'weights'"):
            loader.load_state_dict(state, allow=("seed",))
        for damaged in ("[[0, [1]]]", "[[5, [30, 31]]]", "[[0, [30, 31]], [0, [30, 31]]]"):
            order = state["identity"]["order"][:-1] + f", parts={damaged})"
            broken = {**state, "identity": {**state["identity"], "order": order}}
            with pytest.raises(CheckpointError, match="weights of the state's mixture cannot be read"):
                loader.load_state_dict(broken, allow=("weights",))
