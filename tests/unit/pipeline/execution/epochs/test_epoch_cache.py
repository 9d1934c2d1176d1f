"""The cache of the running and the next epoch."""

from __future__ import annotations

from stoker.pipeline.order.schedule import EpochCache


def test_the_cache_keeps_the_last_two_values() -> None:
    computed: list[int] = []
    cache: EpochCache[int, int] = EpochCache()

    def make(key: int) -> int:
        computed.append(key)
        return 10 * key

    assert [cache.get(key, make) for key in (1, 2, 1, 2, 3, 2, 3, 1)] == [10, 20, 10, 20, 30, 20, 30, 10]
    assert computed == [1, 2, 3, 1]
