"""Ownership of objects by processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.processes import Cleanup, OwnerProcess, PerProcess


@pytest.fixture
def fork(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """``fork()``: from here on the test runs as a forked child would."""
    return lambda: monkeypatch.setattr("os.getpid", lambda: -1)


class Owner:
    """An object that weak references can name."""


def test_each_process_makes_its_value_once(fork: Callable[[], None]) -> None:
    values = PerProcess(object)
    first = values.get()
    owner = OwnerProcess()
    assert values.get() is first
    assert owner.is_current()
    fork()
    assert not owner.is_current()
    second = values.get()
    assert second is not first
    assert values.get() is second


@pytest.mark.parametrize("called", [False, True])
def test_a_cleanup_runs_once_at_a_call_or_when_its_owner_is_dropped(called: bool) -> None:
    log: list[str] = []
    owner = Owner()
    cleanup = Cleanup(owner, log.append, "freed")
    if called:
        cleanup()
    del owner
    assert log == ["freed"]


def test_an_interrupted_cleanup_runs_again_when_its_owner_is_dropped() -> None:
    log: list[str] = []

    def free() -> None:
        log.append("freeing")
        if len(log) == 1:
            raise KeyboardInterrupt

    owner = Owner()
    cleanup = Cleanup(owner, free)
    with pytest.raises(KeyboardInterrupt):
        cleanup()
    del owner
    assert log == ["freeing", "freeing"]


def test_a_cleanup_does_nothing_in_a_forked_child(fork: Callable[[], None]) -> None:
    log: list[str] = []
    owner = Owner()
    cleanup = Cleanup(owner, log.append, "freed")
    fork()
    cleanup()
    del owner
    assert log == []
