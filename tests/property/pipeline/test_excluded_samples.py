"""Samples that are excluded in mid-run: no other sample moves, on any rank, after a resume or in a replay."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import shards as text_shards
from helpers.loaders import image_arguments

import stoker
from stoker import AspectBuckets, BlockShuffle, ImageLoader, Patches
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop
from stoker.bucketing.aspect_shapes import nearest_shapes, ratio_groups
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.images.planners import patch_grids
from stoker.pipeline.preview.replay import replay

CROP = [RandomResizedCrop(8), RandomHorizontalFlip()]
COLUMNS = ("image", "row")
BUCKETS = AspectBuckets(area=100, multiple=4)
OF_PATCHES = ("row", "patches", "segment_ids", "patch_positions")
PLANNED = pytest.mark.parametrize(
    ("options", "number", "fits"),
    [
        ({"sizes": BUCKETS}, lambda sizes: nearest_shapes(sizes, BUCKETS.shapes(sizes)), operator.eq),
        (
            {"sizes": "ragged", "aspect_ratio_group_factor": 1},
            lambda sizes: ratio_groups(sizes, 1),
            operator.eq,
        ),
        (
            {"sizes": Patches(size=4, most=16, row=40), "batch_size": 1, "columns": OF_PATCHES},
            lambda sizes: patch_grids(sizes, 16).prod(axis=1),
            operator.le,
        ),
    ],
    ids=["buckets", "groups", "patches"],
)
"""Arguments of loaders that plan by sizes, a number of each image, and how a substitute's number compares."""


def rows_of(batch: Any) -> list[int]:
    return np.asarray(batch.row).ravel().tolist()


def run(loader: Any, passes: int, at: int = -1, bad: Any = (), **options: Any) -> list[Any]:
    """The batches of some passes; after ``at`` of them ``bad`` is excluded."""
    batches: list[Any] = []
    for _ in range(passes):
        for batch in loader:
            batches.append(batch)
            if len(batches) == at:
                loader.exclude(bad, **options)
    return batches


def check(before: list[Any], after: list[Any], first: int, bad: set[int]) -> int:
    """Compare runs without and with an exclusion; returns how many samples were replaced."""
    replaced = 0
    assert len(before) == len(after)
    for step, (old, new) in enumerate(zip(before, after, strict=True)):
        for i, (row, substitute) in enumerate(zip(rows_of(old), rows_of(new), strict=True)):
            if step >= first and row in bad:
                assert substitute not in bad
                assert substitute >= 0
                replaced += 1
            else:
                assert substitute == row, (step, i)
                assert not hasattr(old, "image") or np.array_equal(old.image[i], new.image[i])
    return replaced


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (2, {"batch_size": 5, "shuffle": True, "last_batch": "drop"}),
        (1, {"batch_size": 7, "shuffle": BlockShuffle(8), "last_batch": "pad"}),
        (3, {"batch_size": 2, "steps_per_epoch": 7, "sampler": stoker.ClassBalanced(np.arange(61) % 3)}),
        (2, {"batch_size": 4, "sampler": stoker.Repeated(2), "shuffle": True}),
        (1, {"batch_size": 8, "sampler": stoker.Weighted("label")}),
    ],
)
def test_excluded_images_are_replaced_and_no_other_sample_moves(
    thumbnails: Path, ranks: int, options: dict[str, Any]
) -> None:
    arguments = {"seed": 3, "columns": COLUMNS, "transforms": CROP, **options}
    bad, labels = {2, 11, 30}, np.arange(61) % 3
    state, replaced = None, 0
    for rank in range(ranks):
        with ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **arguments)) as loader:
            before = run(loader, 2)
        with ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **arguments)) as loader:
            after = run(loader, 2, 4, bad)
            replaced += check(before, after, 4, bad)
            if "Balanced" in str(options.get("sampler")):
                for old, new in zip(before, after, strict=True):
                    assert labels[rows_of(old)].tolist() == labels[rows_of(new)].tolist()
            for step in (0, 3, 4, 5):
                assert rows_of(loader.batch(0, step)) == rows_of(after[step]), "batch() obeys the ledger"
            described = json.loads(json.dumps(loader.describe()))
            for step in (3, 4, len(after) - 1):
                assert rows_of(replay(described, step, rank=rank).batch) == rows_of(after[step])
            state = loader.state_dict()
    assert replaced
    assert state is not None
    with ImageLoader(
        thumbnails, **image_arguments(rank=0, world_size=1, **{**arguments, "batch_size": 3})
    ) as loader:
        loader.load_state_dict(state)  # on another number of ranks
        assert not {row for batch in loader for row in rows_of(batch)} & bad
        assert loader.state_dict()["excluded"] == state["excluded"]


def test_datasets_of_a_mixture_keep_their_shares(thumbnails: Path) -> None:
    opened = stoker.open(thumbnails)
    mixture = stoker.mix([(opened.select(np.arange(5)), 0.5), (opened.select(np.arange(5, 61)), 0.5)])
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "transforms": CROP, "columns": COLUMNS}
    with ImageLoader(mixture, **image_arguments(**options)) as loader:
        before = run(loader, 2)
    bad = {0, 1, 2, 3}  # one sample of the first dataset is left
    with ImageLoader(mixture, **image_arguments(**options)) as loader:
        after = run(loader, 2, 3, bad)
        with pytest.raises(ConfigError, match="would leave no sample that could replace sample 0"):
            loader.exclude(4)
    assert check(before, after, 3, bad)
    for old, new in zip(before, after, strict=True):
        assert [row < 5 for row in rows_of(old)] == [row < 5 for row in rows_of(new)]


def planned_loader(thumbnails: Path, options: dict[str, Any], rank: int, ranks: int) -> ImageLoader:
    arguments = {
        "seed": 3,
        "batch_size": 2,
        "shuffle": True,
        "last_batch": "pad",
        "transforms": (),
        **options,
    }
    return ImageLoader(
        thumbnails, **image_arguments(rank=rank, world_size=ranks, **{"columns": COLUMNS, **arguments})
    )


def sizes_of(shards: Path) -> Any:
    dataset = stoker.open(shards)
    return np.stack([dataset.column(name).astype(np.int64) for name in ("height", "width")], axis=1)


def images_of(batches: list[Any]) -> list[Any]:
    """The same batches; for packed rows an image is its patches with their coordinates."""
    if not hasattr(batches[0], "patches"):
        return batches
    unpacked = []
    for batch in batches:
        segments, images = np.argwhere(batch.row >= 0), []
        for row, segment in segments.tolist():
            mask = batch.segment_ids[row] == segment + 1
            images.append(np.hstack((batch.patches[row][mask], batch.patch_positions[row][mask])))
        unpacked.append(SimpleNamespace(row=batch.row[tuple(segments.T)], image=images))
    return unpacked


@PLANNED
def test_substitutes_fit_in_batches_that_are_planned_by_sizes(
    thumbnails: Path, options: dict[str, Any], number: Callable[..., Any], fits: Callable[..., bool]
) -> None:
    numbers, bad, content = number(sizes_of(thumbnails)), {2, 11, 30}, dict[int, Any]()
    replaced = 0
    for rank in range(2):
        with planned_loader(thumbnails, options, rank, 2) as loader:
            before = images_of(run(loader, 2))
        with planned_loader(thumbnails, options, rank, 2) as loader:
            after = images_of(run(loader, 2, 4, bad))
            replaced += check(before, after, 4, bad)
            for old, new in zip(before, after, strict=True):
                assert fits(numbers[rows_of(new)], numbers[rows_of(old)]).all()
                if options["sizes"] is not BUCKETS:  # which are cropped at random
                    content |= dict(zip(rows_of(old), old.image, strict=True))
                    for row, image in zip(rows_of(new), new.image, strict=True):
                        assert np.array_equal(content.setdefault(row, image), image)
            for step in (3, 4):
                check([after[step]], images_of([loader.batch(0, step)]), 0, set())  # obeys the ledger
            described = json.loads(json.dumps(loader.describe()))
            shown = images_of([replay(described, len(after) - 1, rank=rank).batch])
            assert rows_of(shown[0]) == rows_of(after[-1])
            with pytest.raises(ConfigError, match="no sample that could replace sample"):
                loader.exclude(np.flatnonzero(numbers == numbers.min()).tolist())
    assert replaced


@PLANNED
def test_exclusions_hold_in_planned_batches_after_a_resume_on_other_ranks(
    thumbnails: Path, options: dict[str, Any], number: Callable[..., Any], fits: Callable[..., bool]
) -> None:
    numbers, state = number(sizes_of(thumbnails)), None
    common = set(np.flatnonzero(np.bincount(numbers)[numbers] > 6).tolist())

    def stop(ranks: int, state: Any, left_out: set[int]) -> Any:
        """The state after three batches; the exclusion follows the second one."""
        with planned_loader(thumbnails, options, 0, ranks) as loader:
            if state:
                loader.load_state_dict(state)
            running = iter(loader)
            _, second = next(running), next(running)
            if left_out:
                past = common & set(rows_of(second))
                assert past
                loader.exclude(left_out | past)
                assert rows_of(loader.batch(0, 1)) == rows_of(second), "the past stays"
            next(running)
            return json.loads(json.dumps(loader.state_dict()))

    def rest(rank: int, ranks: int, state: Any) -> list[Any]:
        with planned_loader(thumbnails, options, rank, ranks) as loader:
            loader.load_state_dict(state)
            return images_of(run(loader, 1))

    for ranks, following in ((2, 1), (1, 3)):  # the second stop is in the resumed part of the epoch
        begun = stop(ranks, state, set())
        before = [rest(rank, following, begun) for rank in range(following)]
        bad = common & set(rows_of(before[0][0]) + rows_of(before[0][2]))
        assert bad
        ended = stop(ranks, state, bad)
        assert {**ended, "excluded": None} == {**begun, "excluded": None}
        after = [rest(rank, following, ended) for rank in range(following)]
        assert sum(check(*pair, 0, bad) for pair in zip(before, after, strict=True))
        state = begun


@pytest.mark.parametrize(
    "options",
    [{"max_tokens": 64}, {"pack": 32, "batch_size": 4}, {"pack": 12, "batch_size": 4, "too_long": "split"}],
)
def test_excluded_texts_are_replaced_in_batches_of_the_same_shapes(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    shards = text_shards.write_shards(tmp_path)
    keys, bad = stoker.open(shards).keys(np.arange(97)), {0, 5, 29, 88}

    def make(rank: int, ranks: int = 2) -> Any:
        columns = ("input_ids", "row", *(["segment_ids"] if "pack" in options else ["attention_mask"]))
        return text_shards.make(shards, rank=rank, world_size=ranks, columns=columns, **options)

    sequences = text_shards.read_sequences(shards)
    for rank in range(2):
        with make(rank) as loader:
            before = run(loader, 2)
        with make(rank) as loader:
            after = run(loader, 2, 3, [keys[row] for row in bad])
            assert check(before, after, 3, bad)
            assert [batch.input_ids.shape for batch in after] == [batch.input_ids.shape for batch in before]
            described, state = json.loads(json.dumps(loader.describe())), loader.state_dict()
            last = len(after) - 1
            assert np.array_equal(replay(described, last, rank=rank).batch.input_ids, after[last].input_ids)
        if "max_tokens" in options:
            for batch in after:
                for row, ids, shown in zip(batch.row, batch.input_ids, batch.attention_mask, strict=True):
                    assert ids[shown.astype(bool)].tolist() == sequences[int(row)][0]
    with make(0, 1) as loader:
        loader.load_state_dict(state)
        assert not {row for batch in loader for row in rows_of(batch)} & bad


def test_from_step_makes_exclusions_at_different_steps_equal(thumbnails: Path) -> None:
    options: dict[str, Any] = {"batch_size": 4, "shuffle": True, "columns": COLUMNS, "transforms": CROP}
    with ImageLoader(thumbnails, **image_arguments(**options)) as loader:
        before = run(loader, 1)
    bad = {rows_of(before[step])[0] for step in (1, 2, 5, 7)}
    for called_after in (1, 3, 6):
        with ImageLoader(thumbnails, **image_arguments(**options)) as loader:
            after = run(loader, 1, called_after, bad, from_step=6)
        assert check(before, after, 6, bad) == 1


def test_wrong_exclusions_are_refused_and_the_pass_goes_on(thumbnails: Path) -> None:
    with ImageLoader(thumbnails, batch_size=16, transforms=CROP) as loader:
        running = iter(loader)
        next(running)
        for options, message in [
            ({"keys": "nobody"}, "no sample has the key 'nobody'"),
            ({"keys": []}, "needs the key of a sample, found none"),
            ({"keys": 61}, "positions go from 0 to 60, found 61"),
            (
                {"keys": 3, "from_step": 0},
                "from_step must be from 1, the next batch of the pass, to 3, found 0",
            ),
            ({"keys": range(61)}, "would leave no sample of the dataset"),
        ]:
            with pytest.raises(ConfigError, match=message):
                loader.exclude(**options)  # type: ignore[arg-type]
        assert "excluded" not in loader.state_dict()
        assert loader.exclude(3) == 1
        assert len(list(running)) == 3


def test_a_key_of_two_datasets_is_refused_and_one_of_two_selections_is_not(
    thumbnails: Path, tmp_path: Path
) -> None:
    dataset = stoker.open(thumbnails)
    key = dataset.keys([3])[0]
    both = stoker.mix([(dataset.select([3, 4, 3]), 1), (dataset.select([5, 3]), 1)])
    with ImageLoader(both, batch_size=1, transforms=CROP, columns=COLUMNS) as loader:
        loader.exclude(key)
        assert {row for batch in loader for row in rows_of(batch)} <= {1, 3}
    for part in ("a", "b"):
        with stoker.Writer(tmp_path / part) as writer:
            for name in (key, part):
                writer.write(dataset.read(3), key=name)
    both = stoker.mix([(tmp_path / part, 1) for part in ("a", "b")])
    with ImageLoader(both, batch_size=1, transforms=CROP, columns=COLUMNS) as loader:
        with pytest.raises(ConfigError, match="names 2 samples"):
            loader.exclude(key)
        assert loader.exclude("b") == 0


def test_a_state_replaces_exclusions_and_a_damaged_one_is_refused(thumbnails: Path) -> None:
    with ImageLoader(thumbnails, batch_size=16, transforms=CROP) as loader:
        loader.exclude(3)
        state = loader.state_dict()
        for damaged in (
            [{"from": [0]}],
            [{"from": [0], "rows": [61]}],
            {"from": 1},
            [{"from": [-1], "rows": [0]}],
        ):
            with pytest.raises(
                CheckpointError, match=r"excluded samples cannot be read|leaves out sample 61"
            ):
                loader.load_state_dict({**state, "excluded": damaged})
        loader.load_state_dict({name: value for name, value in state.items() if name != "excluded"})
        assert "excluded" not in loader.state_dict()
