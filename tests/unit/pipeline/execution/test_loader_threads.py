"""Threads that share a loader: they share a pass, or one gets an error, and no epoch is lost or repeated."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.loaders import rows_of

from stoker import ImageLoader
from stoker.errors import LoaderClosedError


def test_threads_that_share_a_pass_share_its_batches_and_no_more(load: Callable[..., ImageLoader]) -> None:
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
    load: Callable[..., ImageLoader], monkeypatch: pytest.MonkeyPatch
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
    load: Callable[..., ImageLoader], monkeypatch: pytest.MonkeyPatch
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
