"""What is made for the last two keys."""

from __future__ import annotations

from stoker.pipeline.execution.epoch_cache import EpochCache


def test_the_last_two_are_kept() -> None:
    made: list[int] = []
    recent: EpochCache[int, int] = EpochCache()

    def make(key: int) -> int:
        made.append(key)
        return 10 * key

    assert [recent.get(key, make) for key in (1, 2, 1, 2, 3, 2, 3, 1)] == [10, 20, 10, 20, 30, 20, 30, 10]
    assert made == [1, 2, 3, 1]
