"""Requests to read ahead: one for each part of a small dataset, and for each payload of a large one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stoker.pipeline.text.token_reader import ReadAhead

PART = 128 << 10
SIZES = [10 * PART + 5, 3 * PART]


def requests(
    ahead: ReadAhead, shard: list[int], offset: list[int], length: list[int]
) -> list[tuple[int, ...]]:
    needed = ahead.needed(np.array(shard, np.int32), np.array(offset), np.array(length))
    return list(zip(*(column.tolist() for column in needed), strict=True))


def test_each_part_of_a_small_dataset_is_requested_once() -> None:
    ahead = ReadAhead(SIZES)
    assert requests(ahead, [0, 1], [5, PART + 9], [10, 20]) == [(0, 0, PART), (1, PART, PART)]
    assert requests(ahead, [0, 1, 0], [900, PART, 3 * PART], [10, 20, 1]) == [(0, 3 * PART, PART)]
    assert requests(ahead, [0], [10 * PART + 1], [4]) == [(0, 10 * PART, 5)]
    assert requests(ahead, [0], [PART - 1], [2]) == [(0, 0, 2 * PART)]


def test_all_bytes_of_every_payload_are_requested() -> None:
    draw = np.random.default_rng(0)
    ahead, known = ReadAhead(SIZES), np.zeros((2, SIZES[0]), np.bool_)
    for _ in range(200):
        shard = int(draw.integers(2))
        begin, end = sorted(draw.integers(0, SIZES[shard], 2).tolist())
        for file, first, count in requests(ahead, [shard], [begin], [end - begin]):
            known[file, first : first + count] = True
        assert known[shard, begin:end].all()


def test_each_payload_of_a_dataset_larger_than_the_memory_is_requested() -> None:
    ahead = ReadAhead([1 << 60, 1 << 60])
    first, second = pairwise([requests(ahead, [0, 1], [5, 9], [10, 20]) for _ in range(3)])
    assert first[0] == first[1] == second[1] == [(0, 5, 10), (1, 9, 20)]
