"""The text loader: every sample once, one shape on all ranks, resumable anywhere, the same batches again."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.bucketing import Dict, Flatten, List, Pad, SortedBucketSampler, TokenBudgetSampler
from stoker.errors import CheckpointError, ConfigError, CorruptRecordError, LoaderClosedError

N = 97


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """97 samples of two fields of bytes; sample i has 1 + i % 30 and 1 + i % 7 tokens, all different."""
    folder = tmp_path_factory.mktemp("text")
    for name, period in (("q", 30), ("a", 7)):
        lines = ["".join(chr(33 + (i * i + j) % 90) for j in range(1 + i % period)) for i in range(N)]
        (folder / f"t.{name}").write_text("\n".join(lines))
    stoker.convert_text([folder / "t.q", folder / "t.a"], folder / "d", tokenizer="bytes", shards=3, seed=1)
    return folder / "d"


@pytest.fixture(scope="module")
def sequences(shards: Path) -> dict[int, tuple[list[int], list[int]]]:
    """Token ids of both fields by row, read sample by sample."""
    dataset = stoker.open(shards)
    lengths = dataset.column("q_length")
    found = {}
    for row in range(len(dataset)):
        shard, offset, size = (int(dataset.column(name)[row]) for name in ("shard", "offset", "length"))
        data = dataset.data_files[shard].read_bytes()[offset : offset + size]
        ids = np.frombuffer(data, "<u2").tolist()
        found[row] = (ids[: lengths[row]], ids[lengths[row] :])
    return found


def make(shards: Path, **options: Any) -> stoker.TextLoader:
    given: dict[str, Any] = {"shuffle": True, "seed": 7, "rank": 0, "world_size": 1, "fields": ("q",)}
    given |= {"batch_size": 8} if "max_tokens" not in options else {}
    return stoker.TextLoader(shards, **{**given, **options})


def same(first: Any, second: Any) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(x, y) for a, b in zip(first, second, strict=True) for x, y in zip(a, b, strict=True)
    )


COLUMNS = ("input_ids", "attention_mask", "row")


def test_every_sample_comes_once_with_its_own_tokens(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]]
) -> None:
    loader = make(shards, columns=COLUMNS)
    seen = []
    for batch in loader:
        for ids, mask, row in zip(*batch, strict=True):
            assert ids[mask].tolist() == sequences[row][0]
            assert (ids[~mask] == loader.pad_id).all()
            seen.append(int(row))
    assert sorted(seen) == list(range(N))


def test_shapes_are_listed_beforehand_and_few(shards: Path) -> None:
    for options in (
        {},
        {"max_tokens": 200},
        {"pack": 40},
        {"pad_multiple": 8, "buckets": 3},
        {"buckets": [9, 30]},
    ):
        loader = make(shards, **options)
        listed = set(loader.shapes())
        for _ in range(2):
            assert {batch[0].shape for batch in loader} <= listed
        assert len(listed) <= 2 * (1 if "pack" in options else 8)


def test_padded_lengths_are_the_boundaries(shards: Path) -> None:
    loader = make(shards, buckets=4, pad_multiple=8)
    assert loader.boundaries is not None
    assert {batch[0].shape[1] for batch in loader} <= set(loader.boundaries[:, 0].tolist())
    assert all(batch[0].shape[1] % 8 == 0 for batch in loader)


def test_without_buckets_a_batch_is_padded_to_its_longest(shards: Path) -> None:
    loader = make(shards, buckets=None, columns=("input_ids", "lengths"))
    for ids, lengths in loader:
        assert ids.shape[1] == lengths.max()
    assert len(loader.shapes()) > 1


def test_a_token_budget_is_kept_and_used(shards: Path) -> None:
    sizes = [batch[0].size for batch in make(shards, max_tokens=120, last_batch="drop")]
    assert max(sizes) <= 120
    assert np.mean(sizes) > 90


@pytest.mark.parametrize("options", [{}, {"pack": 40}, {"max_tokens": 150}, {"buckets": None}])
def test_epochs_differ_and_come_again(shards: Path, options: dict[str, Any]) -> None:
    loader = make(shards, **options)
    epochs = [list(loader) for _ in range(3)]
    assert not same(epochs[0], epochs[1])
    loader.set_epoch(1)
    assert same(list(loader), epochs[1])
    assert same(list(make(shards, prefetch=1, **options)), epochs[0])
    assert len(loader) == len(epochs[0])


def test_without_shuffle_every_epoch_is_the_same_and_in_order_within_a_bucket(shards: Path) -> None:
    loader = make(shards, shuffle=False, buckets=1, columns=("row",))
    epochs = [list(loader) for _ in range(2)]
    assert same(*epochs)
    assert np.concatenate([batch.row for batch in epochs[0]]).tolist() == list(range(N))


@pytest.mark.parametrize(
    "options", [{}, {"pack": 40}, {"max_tokens": 150}, {"buckets": None}, {"last_batch": "pad"}]
)
def test_it_goes_on_after_any_batch(shards: Path, options: dict[str, Any]) -> None:
    whole = list(itertools.chain(*[list(epoch) for epoch in _passes(make(shards, **options), 2)]))
    steps = len(make(shards, **options))
    for stop in range(steps + 1):
        first = make(shards, **options)
        _take(first, stop)
        second = make(shards, prefetch=1, **options)
        second.load_state_dict(first.state_dict())
        rest = list(second) + list(second)
        assert same(rest[: len(whole) - stop], whole[stop:])


def test_it_goes_on_again_and_again(shards: Path) -> None:
    whole = list(make(shards))
    state, found = make(shards).state_dict(), []
    while state["epoch"] == 0:
        loader = make(shards)
        loader.load_state_dict(state)
        found += _take(loader, 2)
        state = loader.state_dict()
    assert same(found, whole)


def _passes(loader: stoker.TextLoader, number: int) -> list[list[Any]]:
    return [list(loader) for _ in range(number)]


def _take(loader: stoker.TextLoader, number: int) -> list[Any]:
    return list(itertools.islice(loader, number)) if number else []


@pytest.mark.parametrize("last_batch", ["partial", "pad", "drop"])
@pytest.mark.parametrize("options", [{}, {"max_tokens": 60}])
def test_ranks_see_one_shape_at_each_step_and_every_sample_once(
    shards: Path, options: dict[str, Any], last_batch: str
) -> None:
    columns = ("input_ids", "row", "mask")
    each = [
        list(
            make(
                shards,
                batch_size=None if options else 5,
                rank=r,
                world_size=3,
                columns=columns,
                last_batch=last_batch,
                **options,
            )
        )
        for r in range(3)
    ]
    assert len({len(batches) for batches in each}) == 1
    for step in zip(*each, strict=True):
        assert len({batch.input_ids.shape for batch in step}) == 1
    rows = [row for batches in each for batch in batches for row in batch.row[batch.mask].tolist()]
    assert len(rows) == len(set(rows))
    assert len(rows) == N if last_batch != "drop" else N - 15 <= len(rows) <= N


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_epoch_goes_on_with_another_number_of_ranks(shards: Path, steps: int) -> None:
    columns = ("row", "mask")
    loaders = [make(shards, rank=r, world_size=2, columns=columns, batch_size=4) for r in range(2)]
    seen = [_take(loader, steps) for loader in loaders]
    state = loaders[0].state_dict()
    for world_size in (3, 1):
        resumed = []
        for rank in range(world_size):
            loader = make(shards, rank=rank, world_size=world_size, columns=columns, batch_size=4)
            loader.load_state_dict(state)
            taken = _take(loader, 2) if world_size == 3 else list(loader)
            resumed.append(taken)
            after = loader.state_dict()
        seen += resumed
        state = after
    rows = [row for batches in seen for batch in batches for row in batch.row[batch.mask].tolist()]
    assert sorted(rows) == list(range(N))
    assert state["epoch"] == 1
    assert state["history"] == []


def test_packed_rows_hold_whole_sequences_apart_from_each_other(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]]
) -> None:
    loader = make(
        shards, pack=40, columns=("input_ids", "segment_ids", "position_ids", "cu_seqlens", "max_seqlen")
    )
    found = []
    shapes = set()
    for ids, segments, positions, cu_seqlens, max_seqlen in loader:
        assert max_seqlen == 40
        assert cu_seqlens[-1] == ids.size
        shapes.add((ids.shape, cu_seqlens.shape))
        for row, segment, position in zip(ids, segments, positions, strict=True):
            for number in range(1, segment.max() + 1):
                found.append(row[segment == number].tolist())
                assert position[segment == number].tolist() == list(range(len(found[-1])))
    assert sorted(found) == sorted(q for q, _ in sequences.values())
    assert len(shapes) == len(loader.shapes())


def test_packed_rows_hold_as_many_sequences_as_they_may(shards: Path) -> None:
    loader = make(shards, pack=40, max_sequences=3, columns=("segment_ids", "cu_seqlens"))
    shapes = {batch.cu_seqlens.shape for batch in loader}
    assert max(batch.segment_ids.max() for batch in loader) == 3
    assert shapes <= {(n * (3 + 1) + 1,) for n, _ in loader.shapes()}


def test_a_batch_sampler_of_the_users_choice(shards: Path) -> None:
    def windows(window: int) -> Callable[..., Any]:
        return partial(SortedBucketSampler, batch_size=8, window=window)

    def load(sampler: Callable[..., Any], **options: Any) -> stoker.TextLoader:
        return make(shards, batch_size=None, batch_sampler=sampler, columns=("lengths", "row"), **options)

    def padding(loader: stoker.TextLoader) -> int:
        return sum(int((batch.lengths.max() - batch.lengths).sum()) for batch in loader)

    sorted_ones = load(windows(6))
    assert padding(sorted_ones) < padding(load(windows(1))) / 2
    assert sorted(row for batch in sorted_ones for row in batch.row) == list(range(N))
    assert len(sorted_ones) == 13
    with pytest.raises(CheckpointError, match="batch_sampler was"):
        load(windows(2)).load_state_dict(sorted_ones.state_dict())
    load(windows(6)).load_state_dict(sorted_ones.state_dict())
    budget = partial(TokenBudgetSampler, max_tokens=200, boundaries=np.array([8, 30]), batch_multiple=4)
    assert {len(batch.row) for batch in load(budget, last_batch="drop")} == {24, 4}
    with pytest.raises(ConfigError, match=r"must make a stoker\.bucketing\.Sampler, found 3"):
        load(lambda lengths, **shared: 3)


def test_who_shares_a_packed_row_changes_from_epoch_to_epoch(shards: Path) -> None:
    def rows(loader: stoker.TextLoader) -> set[bytes]:
        return {row.tobytes() for batch in loader for row in batch.input_ids}

    shuffled = make(shards, pack=40)
    assert rows(shuffled) != rows(shuffled)
    fixed = make(shards, pack=40, shuffle=False)
    assert rows(fixed) == rows(fixed)


def test_what_is_too_long_is_refused_truncated_or_split(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]]
) -> None:
    for options in ({"pack": 10}, {"max_length": 10}, {"buckets": [4, 10]}):
        with pytest.raises(ConfigError, match=r"row \d+ has"):
            make(shards, **options)
        batches = list(make(shards, too_long="truncate", **options))
        found = np.concatenate([batch.input_ids[batch[1] > 0] for batch in batches])
        expected = [token for q, _ in sequences.values() for token in q[:10]]
        assert sorted(found.tolist()) == sorted(expected)
    pieces = [q[begin : begin + 10] for q, _ in sequences.values() for begin in range(0, len(q), 10)]
    found = [
        row[segment == number].tolist()
        for batch in make(shards, pack=10, too_long="split")
        for row, segment in zip(batch.input_ids, batch.segment_ids, strict=True)
        for number in range(1, segment.max() + 1)
    ]
    assert sorted(found) == sorted(pieces)


def test_two_fields_have_two_lengths(shards: Path, sequences: dict[int, tuple[list[int], list[int]]]) -> None:
    loader = make(
        shards, fields=None, columns=("q_input_ids", "q_lengths", "a_input_ids", "a_lengths", "row")
    )
    for q, q_lengths, a, a_lengths, rows in loader:
        for i, row in enumerate(rows):
            assert (q[i, : q_lengths[i]].tolist(), a[i, : a_lengths[i]].tolist()) == sequences[row]
    assert all(len(shape) == 3 for shape in loader.shapes())
    assert make(shards, fields=("a",), columns=("input_ids",)).shapes()[-1][1] == 7


def test_batchify_of_the_users_own(shards: Path) -> None:
    flat = make(shards, batchify=Flatten(outputs=("input_ids", "cu_seqlens"), max_sequences=8))
    assert next(iter(flat)).cu_seqlens.shape == (10,)
    pair = make(shards, fields=None, batchify=Dict({"q": Pad(side="left"), "a": Pad(prefix="target_")}))
    assert next(iter(pair))._fields == (
        "input_ids",
        "attention_mask",
        "target_input_ids",
        "target_attention_mask",
    )
    with pytest.raises(ConfigError, match="dict"):
        make(shards, batchify=List())


def test_the_spec_says_what_batches_look_like(shards: Path) -> None:
    columns = ("input_ids", "attention_mask", "lengths", "row", "key", "q_length")
    loader = make(shards, columns=columns, output="numpy", dtype="int64")
    batch = next(iter(loader))
    for spec, value in zip(loader.element_spec(), batch, strict=True):
        if spec.name != "key":
            assert spec.dtype == value.dtype.name
            assert len(spec.shape) == value.ndim - 1
    assert batch.q_length.tolist() == batch.lengths.tolist()
    assert loader.dataset.keys(batch.row) == batch.key
    assert make(shards, pack=40).element_spec()[0].shape == (40,)


def test_a_selection_is_loaded_by_its_own_positions(shards: Path) -> None:
    dataset = stoker.open(shards)
    chosen = np.flatnonzero(dataset.column("q_length") > 20)
    loader = make(shards)
    part = stoker.TextLoader(dataset.select(chosen), batch_size=4, fields=("q",), columns=("row", "lengths"))
    batches = list(part)
    assert sorted(np.concatenate([batch.row for batch in batches]).tolist()) == chosen.tolist()
    assert min(batch.lengths.min() for batch in batches) > 20
    with pytest.raises(CheckpointError, match="dataset was"):
        part.load_state_dict(loader.state_dict())


@pytest.mark.parametrize("verify", [True, False])
def test_a_damaged_payload_is_named(
    shards: Path, tmp_path: Path, verify: bool, copy: Callable[[Path], Path]
) -> None:
    folder = copy(shards)
    dataset = stoker.open(folder)
    row = 50
    file = dataset.data_files[dataset.column("shard")[row]]
    data = bytearray(file.read_bytes())
    data[dataset.column("offset")[row]] ^= 1
    file.write_bytes(data)
    loader = make(folder, verify=verify)
    if not verify:
        assert len(list(loader)) == len(loader)
        return
    with pytest.raises(CorruptRecordError, match="checksum") as error:
        list(loader)
    assert error.value.shard == dataset.manifest.shards[dataset.column("shard")[row]].name
    assert error.value.record == dataset.column("record")[row]
    assert error.value.key == dataset.keys([row])[0]


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    def make_copy(folder: Path) -> Path:
        target = tmp_path / "copy"
        target.mkdir()
        for path in folder.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        return target

    return make_copy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": None}, "either batch_size or max_tokens"),
        ({"batch_size": 8, "max_tokens": 100}, "either batch_size or max_tokens"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"max_tokens": 10}, "max_tokens is 10"),
        ({"max_tokens": 100, "buckets": None}, "max_tokens needs buckets"),
        ({"buckets": 0}, "num_buckets"),
        ({"pad_multiple": 0}, "pad_multiple"),
        ({"pack": 40, "fields": None}, "packing takes one field"),
        ({"pack": 40, "max_length": 3}, "leave out max_length"),
        ({"pack": 40, "columns": ("row",)}, "no 'row'"),
        ({"too_long": "split"}, "needs pack"),
        ({"max_sequences": 2}, "needs pack"),
        ({"pack": 40, "max_sequences": 0}, "max_sequences must be at least 1"),
        ({"pack": 40, "batch_size": None, "batch_sampler": partial}, "all of one length"),
        ({"batch_sampler": partial}, "or a batch_sampler"),
        ({"too_long": "hope", "max_length": 4}, "too_long"),
        ({"fields": ("z",)}, "fields must be of q, a"),
        ({"columns": ("image",)}, "no 'image'"),
        ({"columns": ("key", "key")}, "key"),
        ({"columns": ()}, "at least one"),
        ({"shuffle": 1}, "shuffle"),
        ({"last_batch": "maybe"}, "last_batch"),
        ({"dtype": "uint8"}, "dtype"),
        ({"output": "pandas"}, "output"),
        ({"device": "tpu"}, "device"),
        ({"prefetch": 0}, "prefetch"),
        ({"rank": 3, "world_size": 2}, "rank"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_meant_is_refused(shards: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(shards, **options)


def test_a_column_that_is_not_there_is_told_with_those_that_are(shards: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'input_ids' of the fields q, a") as caught:
        make(shards, fields=None, columns=("input_ids",))
    names = str(caught.value).partition("There are ")[2].partition(";")[0].split(", ")
    assert {"q_input_ids", "a_labels", "row"} <= {*names}
    assert "input_ids" not in names


def test_a_dataset_of_images_is_refused(make_dataset: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="TextLoader reads text, and this dataset holds image"):
        stoker.TextLoader(make_dataset(), batch_size=2)


def test_states_of_others_are_refused(shards: Path) -> None:
    loader = make(shards)
    good = loader.state_dict()
    with pytest.raises(CheckpointError, match="batch_size was 8 and is 9"):
        make(shards, batch_size=9).load_state_dict(good)
    for bad in ({}, {**good, "history": [[0, 1]]}, {**good, "history": [[1]]}, {**good, "world_size": "2"}):
        with pytest.raises(CheckpointError):
            loader.load_state_dict(bad)
    loader.load_state_dict({**good, "position": N - 1})
    with pytest.raises(CheckpointError, match="at step 96, and what is left of its epoch has 1"):
        iter(loader)


def test_a_closed_loader_says_so_and_figures_count(shards: Path) -> None:
    with make(shards) as loader:
        list(loader)
        assert loader.stats().batches == len(loader)
        assert loader.stats().samples == N
    with pytest.raises(LoaderClosedError):
        iter(loader)
