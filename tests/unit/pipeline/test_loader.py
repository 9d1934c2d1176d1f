"""Loaders: their passes, states, errors and threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.datasets import flip_bit
from helpers.loaders import rows_of
from helpers.processes import wait_until
from helpers.shards import write_shards

from stoker import ImageLoader, TextLoader
from stoker.augment import RandomResizedCrop, Resize
from stoker.errors import CheckpointError, CorruptRecordError, LoaderClosedError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.adapters import LoaderView
from stoker.pipeline.images import image_pipeline

Make = Callable[..., Any]

Threads = Callable[[str], list[threading.Thread]]

CROP = [RandomResizedCrop(8)]


class TestPasses:
    def test_a_pass_after_one_left_early_is_the_next_epoch(self, load: Make) -> None:
        loader = load(shuffle=True)
        for _ in loader:
            break
        assert loader.state_dict()["position"] == 16
        second = rows_of(loader)
        assert sorted(second) == list(range(61))
        again = load(shuffle=True)
        again.set_epoch(1)
        assert rows_of(again) == second

    def test_a_newer_pass_ends_the_older(self, load: Make) -> None:
        loader = load()
        older = iter(loader)
        next(older)
        newer = iter(loader)
        with pytest.raises(LoaderClosedError, match="newer pass"):
            next(older)
        assert len(list(newer)) == 4

    def test_a_complete_pass_takes_no_batch_of_the_next(self, load: Make) -> None:
        loader = load()
        older = iter(loader)
        for _ in range(4):
            next(older)
        next(iter(loader))
        assert list(older) == []
        assert rows_of(loader) == list(range(61))

    def test_a_pass_that_gave_no_batch_does_not_end_its_epoch(self, load: Make) -> None:
        loader, again = load(shuffle=True), load(shuffle=True)
        epochs = [rows_of(again) for _ in range(2)]
        for epoch in epochs:
            iter(loader)
            iter(loader)
            assert rows_of(loader) == epoch

    def test_two_loaders_run_at_once(self, load: Make) -> None:
        loaders = load(shuffle=True), load(shuffle=True)
        for left, right in zip(*loaders, strict=True):
            assert np.array_equal(left.row, right.row)

    def test_a_closed_loader_ends_its_pass_and_begins_no_other(self, load: Make) -> None:
        with load() as loader:
            running = iter(loader)
            next(running)
        loader.close()
        with pytest.raises(LoaderClosedError):
            next(running)
        with pytest.raises(LoaderClosedError, match="this loader is closed"):
            iter(loader)

    def test_a_forked_child_cannot_use_the_loader(self, load: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        loader = load()
        running = iter(loader)
        monkeypatch.setattr("os.getpid", lambda: -1)  # as in a forked child
        for use in (lambda: iter(loader), lambda: next(running), lambda: loader.batch(0, 0)):
            with pytest.raises(LoaderClosedError, match="after the fork"):
                use()
        monkeypatch.undo()
        assert len(list(running)) == 4


class TestTheEpochThatIsSet:
    """``set_epoch`` as training loops call it, at the top of each epoch, and looks at a first batch."""

    @pytest.fixture
    def epochs(self, load: Make) -> list[list[int]]:
        loader = load(shuffle=True)
        return [rows_of(loader) for _ in range(4)]

    def test_it_keeps_a_state_inside_that_epoch(self, load: Make, epochs: list[list[int]]) -> None:
        saved, loader = load(shuffle=True), load(shuffle=True)
        saved.set_epoch(1)
        running = iter(saved)
        next(running), next(running)
        loader.load_state_dict(saved.state_dict())
        loader.set_epoch(1)
        iter(loader)  # without a batch
        loader.set_epoch(1)
        next(iter(loader))  # a look
        loader.set_epoch(1)
        assert rows_of(loader) == epochs[1][32:]
        loader.load_state_dict(saved.state_dict())
        loader.set_epoch(2)
        assert rows_of(loader) == epochs[2]

    def test_it_redirects_a_pass_that_has_returned_nothing(self, load: Make, epochs: list[list[int]]) -> None:
        loader = load(shuffle=True)
        running = iter(loader)
        loader.set_epoch(3)
        loader.set_epoch(2)
        loader.set_epoch(2)
        assert [row for batch in running for row in batch.row.tolist()] == epochs[2]
        assert loader.state_dict()["epoch"] == 3
        assert rows_of(loader) == epochs[3]

    def test_it_begins_an_epoch_that_was_left_again(self, load: Make, epochs: list[list[int]]) -> None:
        loader = load(shuffle=True)
        running = iter(loader)
        next(running), next(running)
        loader.set_epoch(0)
        assert rows_of(loader) == epochs[0]

    def test_a_look_uses_no_epoch_up(self, load: Make, epochs: list[list[int]]) -> None:
        loader = load(shuffle=True)
        next(iter(loader))
        assert [rows_of(loader) for _ in range(2)] == epochs[:2]
        next(iter(loader))  # an epoch has run: the loop takes one batch of this one
        assert rows_of(loader) == epochs[3]

    def test_a_loop_of_one_batch_a_pass_goes_on(self, load: Make, epochs: list[list[int]]) -> None:
        loader = load(shuffle=True)
        firsts = [next(iter(loader)).row.tolist() for _ in range(5)]
        assert firsts[:4] == [epochs[k][:16] for k in (0, 0, 1, 2)]

    def test_a_batch_whose_state_was_taken_was_no_look(self, load: Make, epochs: list[list[int]]) -> None:
        loader = load(shuffle=True)
        next(iter(loader))
        assert loader.state_dict()["position"] == 16
        assert rows_of(loader) == epochs[1]


@pytest.mark.usefixtures("every_event")
class TestALoaderForEachEpoch:
    def repeats(self, caplog: pytest.LogCaptureFixture) -> int:
        return sum("repeats epoch 0" in message for message in caplog.messages)

    def test_its_repeated_epochs_are_warned_of(self, load: Make, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(3):
            list(load(shuffle=True, seed=41))
        assert self.repeats(caplog) == 2

    def test_others_are_not(self, load: Make, caplog: pytest.LogCaptureFixture) -> None:
        """Those of a validation or another seed, that are told the epoch, or run several epochs."""
        for epoch in range(2):
            list(load())
            list(load(shuffle=True, seed=42 + epoch))
            told = load(shuffle=True, seed=44)
            told.set_epoch(epoch)
            list(told)
            several = load(shuffle=True, seed=45)
            for _ in range(2):
                list(several)
        assert not self.repeats(caplog)


class TestTheNextPass:
    """Batches of the next pass, which are made while the consumer receives the pass before it."""

    @pytest.fixture
    def submitted(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Epoch of each batch that was submitted, in order; a loader does not show batches that it drops."""
        epochs: list[int] = []
        start = image_pipeline.start_contents

        def spy(pipeline: Any, config: Any, epoch: int, *arguments: Any) -> Any:
            epochs.append(epoch)
            return start(pipeline, config, epoch, *arguments)

        monkeypatch.setattr(image_pipeline, "start_contents", spy)
        return epochs

    def test_its_batches_are_made_early(self, load: Make, submitted: list[int]) -> None:
        loader = load(shuffle=True, prefetch=3)
        first = rows_of(loader)
        wait_until(lambda: submitted == [0, 0, 0, 0, 1, 1, 1])
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == (1, 0)
        assert loader.stats().samples == 61
        loader.set_epoch(1)  # as many loops do; it is the next epoch anyway
        second = rows_of(loader)
        assert submitted.count(0) == submitted.count(1) == 4
        assert sorted(first) == sorted(second) == list(range(61))
        again = load(shuffle=True)
        again.load_state_dict(state)
        assert rows_of(again) == second

    @pytest.mark.parametrize("how", ["set_epoch", "load_state_dict", "close"])
    def test_a_change_of_epoch_drops_its_batches(
        self, load: Make, submitted: list[int], new_threads: Threads, how: str
    ) -> None:
        loader = load(shuffle=True, prefetch=3)
        start = loader.state_dict()
        first = rows_of(loader)
        wait_until(lambda: 1 in submitted)
        assert new_threads("stoker-prefetch")
        getattr(loader, how)(*{"set_epoch": [0], "load_state_dict": [start], "close": []}[how])
        assert not new_threads("stoker-prefetch")
        if how != "close":
            assert rows_of(loader) == first
            assert (loader.stats().batches, loader.stats().samples) == (8, 122)

    def test_an_epoch_that_is_set_during_a_pass_is_the_next(self, load: Make) -> None:
        loader = load(shuffle=True)
        first = []
        for batch in loader:
            loader.set_epoch(0)
            assert loader.state_dict()["position"] == 0
            first += batch.row.tolist()
        assert rows_of(loader) == first

    def test_its_errors_are_raised_when_it_has_begun(self, load: Make) -> None:
        failures = [ZeroDivisionError]

        class Failing:
            """A sampler that fails once, in epoch 1."""

            def order(self, dataset: Any, shuffled: Any, seed: int) -> Any:
                return SimpleNamespace(n=61, distinct=True, positions=self.positions)

            def positions(self, epoch: int, draws: Any) -> Any:
                if epoch == 1 and failures:
                    raise failures.pop()
                return draws

        loader = load(sampler=Failing())
        assert rows_of(loader) == list(range(61))
        running = iter(loader)
        with pytest.raises(ZeroDivisionError):
            next(running)
        assert rows_of(loader) == list(range(61))

    def test_dropping_the_loader_ends_its_thread(self, thumbnails: Path, new_threads: Threads) -> None:
        loader = ImageLoader(thumbnails, batch_size=16, transforms=CROP, num_threads=1)
        for _ in loader:
            pass
        del loader
        gc.collect()
        wait_until(lambda: not new_threads("stoker-prefetch"))


class TestState:
    def test_a_state_counts_received_batches(self, load: Make) -> None:
        loader = load(shuffle=True)
        states = [loader.state_dict()]
        for _ in loader:
            states.append(loader.state_dict())  # noqa: PERF401 - the state at each step
        assert [(s["epoch"], s["position"]) for s in states] == [(0, 0), (0, 16), (0, 32), (0, 48), (1, 0)]

    @pytest.mark.parametrize(
        "change",
        [{"seed": 1}, {"shuffle": True}, {"transforms": [RandomResizedCrop(9)]}, {"dtype": "float32"}],
    )
    def test_a_loader_with_other_arguments_refuses_a_state(self, load: Make, change: dict[str, Any]) -> None:
        with pytest.raises(CheckpointError, match="belongs to another loader"):
            load(**change).load_state_dict(load().state_dict())

    def test_a_loader_of_a_selection_refuses_the_state_of_the_dataset(
        self, load: Make, thumbnails: Path
    ) -> None:
        with pytest.raises(CheckpointError, match="dataset was"):
            load(dataset=open_dataset(thumbnails).select(range(60))).load_state_dict(load().state_dict())

    def test_a_refused_state_changes_nothing(self, load: Make) -> None:
        loader = load()
        running = iter(loader)
        next(running)
        with pytest.raises(CheckpointError):
            loader.load_state_dict({})
        assert len(list(running)) == 3

    def test_a_loaded_state_ends_the_running_pass_and_changes_the_next_one_only(self, load: Make) -> None:
        loader = load()
        running = iter(loader)
        next(running)
        loader.load_state_dict({**loader.state_dict(), "position": 40})
        with pytest.raises(LoaderClosedError):
            next(running)
        assert loader.state_dict()["position"] == 40
        assert rows_of(loader) == list(range(40, 61))
        assert rows_of(loader) == list(range(61))
        assert len(loader) == 4

    def test_a_pass_from_the_end_of_an_epoch_is_empty(self, load: Make) -> None:
        loader = load(last_batch="drop")
        loader.load_state_dict({**loader.state_dict(), "position": 61})
        assert rows_of(loader) == []
        assert loader.state_dict()["epoch"] == 1


@pytest.fixture
def folder(make_dataset: Make, make_jpeg: Make) -> Path:
    return make_dataset(payloads=[make_jpeg(i) for i in range(20)])


def load(folder: Path, **options: Any) -> ImageLoader:
    defaults = {"batch_size": 2, "columns": ("row",), "shuffle": True, "num_threads": 1}
    return ImageLoader(folder, transforms=[Resize((8, 8))], **{**defaults, **options})


def receive(batches: Iterable[Any], received: list[int]) -> None:
    for batch in batches:
        received += batch.row.tolist()


def epochs(loader: ImageLoader | TextLoader, n: int) -> list[list[int]]:
    """Rows of the next ``n`` epochs."""
    orders: list[list[int]] = []
    for _ in range(n):
        orders.append([])
        receive(loader, orders[-1])
    return orders


@pytest.mark.parametrize("position", [0, 8, 18])
@pytest.mark.parametrize("view", [iter, LoaderView])
def test_the_next_pass_continues_where_an_error_stopped_one(
    folder: Path, position: int, view: Callable[[ImageLoader], Iterable[Any]]
) -> None:
    with load(folder) as whole:
        orders = epochs(whole, 2)
    damaged = open_dataset(folder)
    flip_bit(damaged, orders[0][position])
    received: list[int] = []
    with load(folder) as loader:
        batches = view(loader)
        for _ in range(2):  # the damage is there the second time, too
            with pytest.raises(CorruptRecordError):
                receive(batches if view is LoaderView else iter(loader), received)
            assert received == orders[0][:position]
            assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (0, position)
        flip_bit(damaged, orders[0][position])
        receive(batches if view is LoaderView else iter(loader), received)
        assert received == orders[0]
        assert epochs(loader, 1) == orders[1:]


def test_an_iterator_that_an_error_stopped_raises_and_a_set_epoch_runs_from_its_beginning(
    folder: Path,
) -> None:
    with load(folder) as whole:
        orders = epochs(whole, 1)
    damaged = open_dataset(folder)
    flip_bit(damaged, orders[0][8])
    with load(folder) as loader:
        batches = iter(loader)
        with pytest.raises(CorruptRecordError):
            receive(batches, [])
        with pytest.raises(LoaderClosedError, match="by a newer pass or by an error"):
            next(batches)
        flip_bit(damaged, orders[0][8])
        loader.set_epoch(0)
        assert epochs(loader, 1) == orders


def test_the_next_pass_over_text_continues_where_an_error_stopped_one(tmp_path: Path) -> None:
    folder = write_shards(tmp_path)
    options: dict[str, Any] = {"batch_size": 2, "columns": ("row",), "shuffle": True, "fields": ("q",)}
    with TextLoader(folder, **options) as whole:
        orders = epochs(whole, 2)
    damaged, row = open_dataset(folder), orders[0][len(orders[0]) // 2]
    flip_bit(damaged, row)
    received: list[int] = []
    with TextLoader(folder, **options) as loader:
        with pytest.raises(CorruptRecordError):
            receive(loader, received)
        assert 0 < len(received) < len(orders[0])
        flip_bit(damaged, row)
        receive(loader, received)
        assert [received, *epochs(loader, 1)] == orders


def test_threads_that_share_a_pass_share_its_batches_and_no_more(load: Make) -> None:
    loader = load(batch_size=2, shuffle=True)
    for epoch in range(1, 6):
        batches = iter(loader)
        received: list[Any] = []
        threads = [threading.Thread(target=lambda: received.extend(batches)) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(rows_of(received)) == list(range(61))
        assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (epoch, 0)


def test_a_pass_of_another_thread_ends_one_that_is_just_beginning(
    load: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two share no batch, and none of them sees an empty epoch or the other's.

    The patch begins the other pass inside the first one's beginning, which no schedule of threads ensures.
    """
    loader, epoch = load(shuffle=True), rows_of(load(shuffle=True))
    received: list[int] = []
    other = threading.Thread(target=lambda: received.extend(rows_of(loader)))
    make = ImageLoader.producer

    def begin_the_other(*arguments: Any) -> Any:
        monkeypatch.undo()
        other.start()
        other.join(0.5)  # for ever if it waits for this pass, as it should
        return make(*arguments)

    monkeypatch.setattr(ImageLoader, "producer", begin_the_other)
    batches = iter(loader)
    other.join(60)
    assert received == epoch
    with pytest.raises(LoaderClosedError, match="newer pass"):
        next(batches)
    assert loader.state_dict()["epoch"] == 1


def test_a_pass_that_begins_at_the_end_of_another_loses_no_batch(
    load: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a pass keeps batches that were made ahead. They must not replace those of the newer pass.

    The patch begins the newer pass at that moment, which no schedule of threads ensures.
    """
    loader, again = load(shuffle=True), load(shuffle=True)
    epochs = [rows_of(again) for _ in range(3)]
    newer: list[Any] = []
    keep = ImageLoader._keep

    def begin_a_newer_pass(*arguments: Any) -> None:
        monkeypatch.undo()
        newer.append(iter(loader))
        keep(*arguments)

    monkeypatch.setattr(ImageLoader, "_keep", begin_a_newer_pass)
    assert rows_of(loader) == epochs[0]
    assert next(newer[0]).row.tolist() == epochs[1][:16]
    assert rows_of(loader) == epochs[2]
