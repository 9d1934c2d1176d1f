"""Packing and bucketing of streams: bounded buffers, resuming, and errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import StreamingBuckets, StreamingPacker, bucket_boundaries
from stoker.errors import CheckpointError, ConfigError

ANSWER = gsm8k_lengths("answer")
EDGES = bucket_boundaries(ANSWER, 8)


def test_a_packer_holds_no_more_than_its_buffer():
    packer = StreamingPacker(256, buffer_size=16, max_sequences=3)
    held = 0
    for row, length in enumerate(ANSWER[:500].tolist()):
        for packed in packer.push(row, length):
            assert len(packed.rows) <= 3
        held = max(held, len(packer))
    assert held == 15
    packer.flush()
    assert len(packer) == 0
    assert packer.flush() == []


def test_a_packer_splits_truncates_or_refuses_long_sequences():
    split = list(StreamingPacker(5, too_long="split").stream([(7, 12)]))
    assert sorted((row.rows.tolist(), row.begins.tolist()) for row in split) == [
        ([7], [0]),
        ([7], [5]),
        ([7], [10]),
    ]
    (cut,) = StreamingPacker(5, too_long="truncate").stream([(7, 12)])
    assert cut.lengths.tolist() == [5]
    with pytest.raises(ConfigError, match="row 7 has 12 tokens"):
        StreamingPacker(5).push(7, 12)
    with pytest.raises(ConfigError, match="row 7 has 0 tokens"):
        StreamingPacker(5).push(7, 0)


@pytest.mark.parametrize(("world_size", "buffer_size"), [(1, 64), (4, 100), (4, 4096)])
def test_buckets_hold_no_more_than_their_buffer(world_size, buffer_size):
    buckets = StreamingBuckets(EDGES, 16, buffer_size=buffer_size, world_size=world_size)
    batches, held = [], 0
    for row, length in enumerate(ANSWER.tolist()):
        batches += buckets.push(row, length)
        held = max(held, len(buckets))
    assert held < buffer_size
    assert all(len(batch.rows) == batch.valid == 16 * world_size for batch in batches)
    for batch in buckets.flush():
        assert len(batch.rows) == batch.shape[0] * world_size
        assert set(batch.rows[batch.valid :]) <= set(batch.rows[: batch.valid])


def test_packed_rows_of_a_stream_are_nearly_full():
    packed = list(StreamingPacker(256).stream(enumerate(ANSWER.tolist())))
    assert sum(int(row.lengths.sum()) for row in packed) / (256 * len(packed)) >= 0.998


def simple(batches):
    return [[np.asarray(part).tolist() for part in batch] for batch in batches]


@pytest.mark.parametrize("cut", [0, 1, 255, 256, 1000, 2999])
@pytest.mark.parametrize(
    "make",
    [
        lambda: StreamingPacker(256, max_sequences=8),
        lambda: StreamingBuckets(EDGES, 16, buffer_size=64, world_size=2),
    ],
)
def test_resumed_streams_go_on_as_if_undisturbed(make, cut):
    stream = list(enumerate(ANSWER[:3000].tolist()))
    undisturbed = simple(make().stream(stream))
    first = make()
    before = simple(batch for row, length in stream[:cut] for batch in first.push(row, length))
    second = make()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert before + simple(second.stream(stream[cut:])) == undisturbed


def test_a_state_of_other_options_is_refused():
    with pytest.raises(CheckpointError, match="another capacity"):
        StreamingPacker(256).load_state_dict(StreamingPacker(128).state_dict())
    with pytest.raises(CheckpointError, match="another batch_sizes"):
        StreamingBuckets(EDGES, 8).load_state_dict(StreamingBuckets(EDGES, 16).state_dict())


@pytest.mark.parametrize("damage", [{"buffer": [[1, 2]]}, {"buffer": 3}, {"held": [[1]]}, {"held": None}])
def test_a_damaged_state_is_refused(damage):
    stream = StreamingPacker(256) if "buffer" in damage else StreamingBuckets(EDGES, 8)
    with pytest.raises(CheckpointError, match="damaged"):
        stream.load_state_dict(stream.state_dict() | damage)


def test_buckets_of_two_lengths_may_have_different_batch_sizes():
    buckets = StreamingBuckets(np.array([[4, 4], [8, 8]]), [3, 2])
    assert buckets.push(0, (2, 3)) == []
    assert buckets.push(1, (5, 1)) == []
    (batch,) = buckets.push(2, (1, 8))
    assert batch.rows.tolist() == [1, 2]
    assert batch.shape == (2, 8, 8)


@pytest.mark.parametrize(
    "make",
    [
        lambda: StreamingPacker(0),
        lambda: StreamingPacker(5, buffer_size=0),
        lambda: StreamingPacker(5, max_sequences=0),
        lambda: StreamingPacker(5, too_long="spilt"),
        lambda: StreamingBuckets(EDGES, [1, 2]),
        lambda: StreamingBuckets(EDGES, 0),
        lambda: StreamingBuckets(EDGES, 32, buffer_size=31),
        lambda: StreamingBuckets(EDGES, 32).push(0, 217),
    ],
)
def test_bad_arguments_are_refused(make):
    with pytest.raises(ConfigError):
        make()
