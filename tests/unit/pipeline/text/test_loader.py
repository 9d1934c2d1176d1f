"""TextLoader: its columns, shapes and epochs, and the errors that name a sample."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import flip_bit, rewrite_index
from helpers.loaders import text_arguments
from helpers.shards import N, Sequences, make, same

import stoker
from stoker.bucketing import Dict, Flatten, List, Pad, SortedBucketSampler, TokenBudgetSampler
from stoker.errors import CheckpointError, ConfigError, CorruptRecordError, LoaderClosedError

COLUMNS = ("input_ids", "attention_mask", "row")


def test_every_sample_comes_once_with_its_tokens(shards: Path, sequences: Sequences) -> None:
    loader = make(shards, columns=COLUMNS)
    seen = []
    for batch in loader:
        for ids, mask, row in zip(*batch, strict=True):
            assert ids[mask].tolist() == sequences[row][0]
            assert (ids[~mask] == loader.pad_id).all()
            seen.append(int(row))
    assert sorted(seen) == list(range(N))
    assert loader.pad_id == 256, "of bytes, as the dataset says"


def test_shapes_lists_all_shapes_of_batches_and_they_are_few(shards: Path) -> None:
    for options in (
        {},
        {"max_tokens": 200},
        {"pack": 40},
        {"pad_to_multiple_of": 8, "buckets": 3},
        {"buckets": [9, 30]},
    ):
        loader = make(shards, **options)
        listed = set(loader.shapes())
        assert all(length % options.get("pad_to_multiple_of", 1) == 0 for _, length in listed)
        for _ in range(2):
            assert {batch[0].shape for batch in loader} <= listed
        assert len(listed) <= 2 * (1 if "pack" in options else 8)


def test_without_buckets_a_batch_is_padded_to_its_longest_sample(shards: Path) -> None:
    loader = make(shards, buckets=None, columns=("input_ids", "lengths"))
    for ids, lengths in loader:
        assert ids.shape[1] == lengths.max()
    assert len(loader.shapes()) > 1
    multiples = make(shards, buckets=None, pad_to_multiple_of=8, columns=("input_ids", "lengths"))
    assert all(ids.shape[1] == -(-lengths.max() // 8) * 8 for ids, lengths in multiples)


def test_batches_fill_max_tokens_and_do_not_exceed_it(shards: Path) -> None:
    sizes = [batch[0].size for batch in make(shards, max_tokens=120, last_batch="drop")]
    assert max(sizes) <= 120
    assert np.mean(sizes) > 90


def test_an_epoch_without_batches_is_refused(shards: Path) -> None:
    with pytest.raises(ConfigError, match="an epoch has no batch"):
        make(shards, batch_size=1000, last_batch="drop")


@pytest.mark.parametrize("options", [{}, {"pack": 40}, {"max_tokens": 150}, {"buckets": None}])
def test_epochs_differ_from_each_other_and_are_repeatable(shards: Path, options: dict[str, Any]) -> None:
    loader = make(shards, **options)
    epochs = [list(loader) for _ in range(3)]
    assert not same(epochs[0], epochs[1])
    together = [{tuple(sorted(map(bytes, batch[0]))) for batch in epoch} for epoch in epochs[:2]]
    assert len(together[0] & together[1]) < len(together[0]) / 2, (
        "batches hold other samples in the next epoch"
    )
    loader.set_epoch(1)
    assert same(list(loader), epochs[1])
    assert same(list(make(shards, prefetch=1, **options)), epochs[0])
    assert len(loader) == len(epochs[0])


def test_a_batch_sampler_makes_the_batches(shards: Path) -> None:
    def windows(window: int) -> Callable[..., Any]:
        return partial(SortedBucketSampler, batch_size=8, window=window)

    def load(sampler: Callable[..., Any], **options: Any) -> stoker.TextLoader:
        return make(shards, batch_size=None, batch_sampler=sampler, columns=("lengths", "row"), **options)

    def padding(loader: stoker.TextLoader) -> int:
        return sum(int((batch.lengths.max() - batch.lengths).sum()) for batch in loader)

    by_length = load(windows(6))
    assert padding(by_length) < padding(load(windows(1))) / 2
    assert sorted(row for batch in by_length for row in batch.row) == list(range(N))
    assert len(by_length) == 13
    assert not by_length.has_equal_epochs
    with pytest.raises(CheckpointError, match="batch_sampler was"):
        load(windows(2)).load_state_dict(by_length.state_dict())
    load(windows(6)).load_state_dict(by_length.state_dict())
    budget = partial(TokenBudgetSampler, max_tokens=200, boundaries=np.array([8, 30]), batch_multiple=4)
    assert {len(batch.row) for batch in load(budget, last_batch="drop")} == {24, 4}
    with pytest.raises(ConfigError, match=r"must make a stoker\.bucketing\.BatchSampler, found 3"):
        load(lambda lengths, **shared: 3)


def test_each_field_has_its_own_padded_length(shards: Path, sequences: Sequences) -> None:
    loader = make(
        shards, fields=None, columns=("q_input_ids", "q_lengths", "a_input_ids", "a_lengths", "row")
    )
    for q, q_lengths, a, a_lengths, rows in loader:
        for i, row in enumerate(rows):
            assert (q[i, : q_lengths[i]].tolist(), a[i, : a_lengths[i]].tolist()) == sequences[row]
    assert all(len(shape) == 3 for shape in loader.shapes())
    assert make(shards, fields=("a",), columns=("input_ids",)).shapes()[-1][1] == 7


@pytest.mark.parametrize("size", [{"batch_size": 8}, {"max_tokens": 160}])
def test_several_fields_have_windows_by_default_which_pad_less_than_buckets(
    shards: Path, size: dict[str, int]
) -> None:
    windows, buckets = (
        stoker.TextLoader(shards, **text_arguments(shuffle=True, **size, **options))
        for options in ({}, {"buckets": 8})
    )
    assert windows.boundaries is None
    assert len({shape[1:] for shape in buckets.shapes()}) <= 8
    batches = list(windows)
    assert sum(a.size for batch in batches for a in batch) < sum(a.size for batch in buckets for a in batch)
    if "batch_size" in size:
        sampler = partial(SortedBucketSampler, batch_size=8)
        assert same(batches, list(stoker.TextLoader(shards, batch_sampler=sampler, shuffle=True)))


@pytest.mark.parametrize("fields", [("a", "q"), ("q",), ("a",)])
def test_fields_are_read_in_the_order_that_was_asked_for(
    shards: Path, sequences: Sequences, fields: tuple[str, ...]
) -> None:
    prefixes = [f"{field}_" if len(fields) > 1 else "" for field in fields]
    columns = [prefix + name for prefix in prefixes for name in ("input_ids", "lengths")]
    for *arrays, rows in make(shards, fields=fields, columns=(*columns, "row")):
        for field, ids, lengths in zip(fields, arrays[::2], arrays[1::2], strict=True):
            texts = [row_ids[:length].tolist() for row_ids, length in zip(ids, lengths, strict=True)]
            assert texts == [sequences[row]["qa".index(field)] for row in rows]


def test_batchify_makes_the_arrays(shards: Path) -> None:
    flat = make(shards, batchify=Flatten(outputs=("input_ids", "cu_seqlens"), max_sequences=8))
    assert next(iter(flat)).cu_seqlens.shape == (10,)
    pair = make(shards, fields=None, batchify=Dict({"q": Pad(side="left"), "a": Pad(prefix="target_")}))
    names = ("input_ids", "attention_mask")
    assert next(iter(pair))._fields == (*names, *(f"target_{name}" for name in names))
    single = make(shards, fields=("a",), batchify=Dict({"a": Pad(prefix="only_")}))
    assert next(iter(single))._fields == tuple(f"only_{name}" for name in names)
    for fields in (("a",), ("q", "a")):
        with pytest.raises(ConfigError, match=f"Dict must name fields of {', '.join(fields)}, found 'text'"):
            make(shards, fields=fields, batchify=Dict({"text": Pad()}))
    with pytest.raises(ConfigError, match="dict"):
        make(shards, batchify=List())


def test_element_spec_describes_the_columns(shards: Path) -> None:
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


def test_a_loader_of_a_selection_draws_its_samples_only(shards: Path) -> None:
    dataset = stoker.open(shards)
    chosen = np.flatnonzero(dataset.column("q_length") > 20)
    loader = make(shards)
    part = stoker.TextLoader(dataset.select(chosen), batch_size=4, fields=("q",), columns=("row", "lengths"))
    batches = list(part)
    rows = part.dataset.rows[np.concatenate([batch.row for batch in batches])]
    assert sorted(rows.tolist()) == chosen.tolist()
    assert min(batch.lengths.min() for batch in batches) > 20
    with pytest.raises(CheckpointError, match="dataset was"):
        part.load_state_dict(loader.state_dict())


@pytest.fixture
def damaged(shards: Path, tmp_path: Path) -> stoker.Dataset:
    """A copy of the dataset in which row 50 is damaged."""
    dataset = stoker.open(shutil.copytree(shards, tmp_path / "damaged"))
    flip_bit(dataset, 50)
    return dataset


def test_without_verify_a_damaged_payload_is_loaded(damaged: stoker.Dataset) -> None:
    loader = make(damaged.path, verify=False)
    assert len(list(loader)) == len(loader)


def test_a_damaged_payload_is_named_after_the_batches_before_it(damaged: stoker.Dataset) -> None:
    row = 50
    received: list[Any] = []
    with pytest.raises(CorruptRecordError, match="checksum") as error:
        received.extend(make(damaged.path))
    rows = [batch.row for batch in make(damaged.path, verify=False, columns=("row",))]
    assert len(received) == next(step for step, batch_rows in enumerate(rows) if row in batch_rows)
    assert error.value.shard == damaged.manifest.shards[damaged.column("shard")[row]].name
    assert error.value.record == damaged.column("record")[row]
    assert error.value.key == damaged.keys([row])[0]


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda folder: shutil.copytree(folder, tmp_path / "copy")


@pytest.mark.parametrize("by", [-1, 1])
def test_a_payload_of_another_length_than_its_tokens_is_named(
    shards: Path, copy: Callable[[Path], Path], by: int
) -> None:
    folder = copy(shards)
    lengths = stoker.open(folder).column("q_length").copy()
    lengths[50] += by
    rewrite_index(folder, q_length=lengths)
    with pytest.raises(CorruptRecordError, match="bytes, and its tokens take") as error:
        list(make(folder))
    assert error.value.key == stoker.open(shards).keys([50])[0]


def test_close_unmaps_the_shards_and_ends_the_loader(shards: Path, copy: Callable[[Path], Path]) -> None:
    folder, maps = copy(shards), Path("/proc/self/maps")
    with make(folder) as loader:
        list(loader)
        assert str(loader.dataset.data_files[0]) in maps.read_text()
        assert loader.stats().batches == len(loader)
        assert loader.stats().samples == N
    assert str(loader.dataset.data_files[0]) not in maps.read_text()
    with pytest.raises(LoaderClosedError):
        iter(loader)


def test_the_column_row_holds_positions_in_the_loaders_dataset(shards: Path) -> None:
    selected = stoker.open(shards).select("q_length > 20")
    for dataset in (selected, stoker.mix([(selected, 1), (stoker.open(shards).select([9, 3]), 1)])):
        for batch in make(dataset, columns=("row", "key", "q_length")):
            assert batch.row.dtype == np.int64
            assert dataset.keys(batch.row) == batch.key
            assert dataset.column("q_length")[batch.row].tolist() == batch.q_length.tolist()


def test_packed_rows_hold_whole_sequences_with_distinct_segment_ids(
    shards: Path, sequences: Sequences
) -> None:
    loader = make(
        shards, pack=40, columns=("input_ids", "segment_ids", "position_ids", "cu_seqlens", "max_seqlen")
    )
    packed = []
    shapes = set()
    for ids, segments, positions, cu_seqlens, max_seqlen in loader:
        assert max_seqlen == 40
        assert cu_seqlens[-1] == ids.size
        shapes.add((ids.shape, cu_seqlens.shape))
        for row, segment, position in zip(ids, segments, positions, strict=True):
            for number in range(1, segment.max() + 1):
                packed.append(row[segment == number].tolist())
                assert position[segment == number].tolist() == list(range(len(packed[-1])))
    assert sorted(packed) == sorted(q for q, _ in sequences.values())
    assert len(shapes) == len(loader.shapes())


def test_packed_rows_hold_at_most_max_sequences(shards: Path) -> None:
    loader = make(shards, pack=40, max_sequences=3, columns=("segment_ids", "cu_seqlens"))
    shapes = {batch.cu_seqlens.shape for batch in loader}
    assert max(batch.segment_ids.max() for batch in loader) == 3
    assert shapes <= {(n * (3 + 1) + 1,) for n, _ in loader.shapes()}
    roomy = make(shards, pack=40, max_sequences=45, columns=("cu_seqlens",))
    assert {batch.cu_seqlens.shape for batch in roomy} <= {(n * (45 + 1) + 1,) for n, _ in roomy.shapes()}


def write_questions(folder: Path, questions: list[str], **options: Any) -> Path:
    """Convert questions with the answer "yes", which is trained; return the folder."""
    rows = [{"q": question, "a": "yes"} for question in questions]
    training = stoker.Training(train_on="a")
    stoker.convert_text(rows, folder, fields=["q", "a"], tokenizer="bytes", training=training, **options)
    return folder


CUT: list[dict[str, Any]] = [
    {"batch_size": 1, "buckets": None},
    {"batch_size": 2},
    {"batch_size": stoker.MaxTokens(40), "shuffle": True},
    {"batch_size": 1, "pack": 20},
    {"batch_size": 1, "sampler": stoker.Weighted([1.0, 5.0, 1.0, 5.0]), "buckets": None},
]


@pytest.mark.usefixtures("every_event")
@pytest.mark.parametrize("options", CUT)
@pytest.mark.parametrize("eos", [False, True])
def test_samples_whose_trained_tokens_are_all_cut_are_left_out_and_counted(
    tmp_path: Path, options: dict[str, Any], eos: bool, caplog: pytest.LogCaptureFixture
) -> None:
    write_questions(tmp_path / "d", ["a" * 9, "b" * 20, "c" * 18, "d" * 50], eos=eos)
    limit = stoker.MaxLength(20, "truncate")
    loader = stoker.TextLoader(
        tmp_path / "d", max_length=limit, columns=("input_ids", "labels", "row"), **options
    )
    assert "2 of 4 samples" in caplog.text
    for _ in range(2):
        batches = list(loader)
        rows = {int(row) for batch in batches for row in batch.row.reshape(-1) if row >= 0}
        assert rows <= {0, 2} if "sampler" in options else rows == {0, 2}
        assert all((batch.labels != -100).any() for batch in batches)
    assert len(stoker.TextLoader(tmp_path / "d", max_length=limit, batch_size=1, buckets=None)) == 4


def test_a_dataset_whose_trained_tokens_are_all_cut_is_refused(tmp_path: Path) -> None:
    write_questions(tmp_path / "d", ["a" * 9])
    with pytest.raises(ConfigError, match="only samples whose trained tokens are all cut off"):
        stoker.TextLoader(tmp_path / "d", batch_size=1, max_length=stoker.MaxLength(9), columns=("labels",))


def test_a_stop_in_mid_epoch_goes_on_without_the_samples_that_are_left_out(tmp_path: Path) -> None:
    write_questions(tmp_path / "d", ["a" * (number % 30) for number in range(1, 60)])
    options: dict[str, Any] = {"batch_size": 4, "shuffle": True, "columns": ("input_ids", "labels")}
    options["max_length"] = stoker.MaxLength(20, "truncate")
    whole = [batch.input_ids.tolist() for batch in stoker.TextLoader(tmp_path / "d", **options)]
    loader = stoker.TextLoader(tmp_path / "d", **options)
    taken = [batch.input_ids.tolist() for _, batch in zip(range(3), loader, strict=False)]
    resumed = stoker.TextLoader(tmp_path / "d", **options)
    resumed.load_state_dict(loader.state_dict())
    assert taken + [batch.input_ids.tolist() for batch in resumed] == whole


@pytest.mark.usefixtures("every_event")
@pytest.mark.parametrize(
    "options",
    [
        {"pack": 8, "max_length": stoker.MaxLength(too_long="split"), "columns": ("labels",)},
        {"pack": stoker.Streams(8)},
        {"labels": stoker.bucketing.MaskTokens(1e-9, mask_id=1, vocabulary=2), "buckets": None},
        {"batchify": stoker.bucketing.Pad(outputs=("labels",)), "fields": ["q"], "buckets": None},
    ],
)
def test_a_batch_without_a_trained_token_is_reported(
    tmp_path: Path, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"q": "a", "a": "b"}]
    if "pack" in options:
        write_questions(tmp_path / "d", ["a" * 20])
    else:
        stoker.convert_text(rows, tmp_path / "d", fields=["q", "a"], tokenizer="bytes")
    list(stoker.TextLoader(tmp_path / "d", batch_size=1, **options))
    assert "a batch has no token that a model is trained on" in caplog.text


def test_a_span_mask_of_a_dataset_with_trained_tokens_is_refused(tmp_path: Path) -> None:
    write_questions(tmp_path / "d", ["a" * 9])
    mask = stoker.bucketing.SpanCorruption(0.3, sentinels=range(300, 320))
    with pytest.raises(ConfigError, match="states which ones a model is trained on"):
        stoker.TextLoader(tmp_path / "d", batch_size=1, labels=mask)


@pytest.mark.parametrize(("keep_end", "last"), [(True, 258), (False, ord("d"))])
@pytest.mark.parametrize("pack", [None, 4])
def test_a_cut_text_ends_with_eos_unless_it_should_not(
    tmp_path: Path, keep_end: bool, last: int, pack: int | None
) -> None:
    stoker.convert_text(iter(["abcdef"]), tmp_path / "d", tokenizer="bytes", eos=True)
    limit = stoker.MaxLength(4, "truncate", keep_end)
    columns = ("input_ids", "labels")
    loader = stoker.TextLoader(tmp_path / "d", batch_size=1, max_length=limit, pack=pack, columns=columns)
    (batch,) = loader
    assert batch.input_ids[0].tolist() == [97, 98, 99, last]
    assert batch.labels[0].tolist() == [-100, 98, 99, last]
    other = stoker.TextLoader(tmp_path / "d", batch_size=1, max_length=stoker.MaxLength(4), pack=pack)
    if not keep_end:
        with pytest.raises(CheckpointError, match="keep_end"):
            other.load_state_dict(loader.state_dict())
