"""Sequences as a text loader reads them: what truncation keeps, and what long documents cost."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from helpers.processes import wait_until
from helpers.shards import make, same

import stoker
from stoker.bucketing import Pad
from stoker.bucketing.batchify import Labels
from stoker.errors import ConfigError, CorruptRecordError, DatasetError
from stoker.formats.remote.block_files import BLOCK_BYTES
from stoker.formats.remote.store import RangeReader
from stoker.pipeline.text import token_reader
from stoker.pipeline.text.token_reader import ReadAhead

WORDS = 50  # distinct words
TOKENS = 200_000  # of the long document


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    """A tokenizer that adds [CLS] and [SEP], of the package tokenizers; it is saved as t.json."""
    tokenizers = pytest.importorskip("tokenizers")
    names = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(WORDS))]
    vocab = {name: number for number, name in enumerate(names)}
    word_level = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="[UNK]"))
    word_level.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    word_level.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    word_level.save(str(tmp_path / "t.json"))
    return word_level


@pytest.fixture
def lines(tmp_path: Path, tokenizer: Any) -> list[str]:
    """Texts of 1 to 30 words; they are converted to the dataset d."""
    texts = [" ".join(f"w{(i * j) % WORDS}" for j in range(1 + i % 30)) for i in range(60)]
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    stoker.convert_text(tmp_path / "lines.txt", tmp_path / "d", tokenizer=tmp_path / "t.json")
    return texts


@pytest.mark.parametrize("options", [{"max_length": 9}, {"buckets": [5, 9]}, {"pack": 9}])
def test_truncation_keeps_the_closing_special_tokens(
    tmp_path: Path, tokenizer: Any, lines: list[str], options: dict[str, Any]
) -> None:
    tokenizer.enable_truncation(9)
    expected = sorted(encoding.ids for encoding in tokenizer.encode_batch(lines))
    all_options: dict[str, Any] = {"fields": None, "too_long": "truncate", **options}
    if "pack" in options:
        loader = make(tmp_path / "d", **all_options)
        truncated = [
            row[segments == number].tolist()
            for batch in loader
            for row, segments in zip(batch.input_ids, batch.segment_ids, strict=True)
            for number in range(1, segments.max() + 1)
        ]
    else:
        loader = make(tmp_path / "d", columns=("input_ids", "lengths"), **all_options)
        truncated = [row[:n].tolist() for batch in loader for row, n in zip(*batch, strict=True)]
    assert sorted(truncated) == expected


def test_each_field_keeps_its_closing_special_tokens(
    tmp_path: Path, tokenizer: Any, lines: list[str]
) -> None:
    files = [tmp_path / "x.long", tmp_path / "x.short"]
    files[0].write_text("\n".join(lines))
    files[1].write_text("\n".join(" ".join(line.split()[::-1][:5]) for line in lines))
    stoker.convert_text(files, tmp_path / "two", parallel=True, tokenizer=tmp_path / "t.json")
    tokenizer.enable_truncation(6)
    columns = ("long_input_ids", "long_lengths", "short_input_ids", "short_lengths", "row")
    options: dict[str, Any] = {"fields": None, "max_length": 6, "too_long": "truncate", "columns": columns}
    for batch in make(tmp_path / "two", **options):
        for ids, count, short_ids, short_count, row in zip(*batch, strict=True):
            assert ids[:count].tolist() == tokenizer.encode(lines[row]).ids
            short = files[1].read_text().splitlines()[row]
            assert short_ids[:short_count].tolist() == tokenizer.encode(short).ids


@pytest.mark.usefixtures("lines")
def test_truncation_that_leaves_only_special_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="to 2 tokens leaves no room beside the 2 special tokens"):
        make(tmp_path / "d", fields=None, max_length=2, too_long="truncate")


@pytest.mark.usefixtures("lines")
def test_truncation_without_the_tokenizers_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d" / "tokenizer.json").unlink()
    with pytest.raises(DatasetError, match="the tokenizer cannot be read"):
        make(tmp_path / "d", fields=None, max_length=9, too_long="truncate")
    assert len(make(tmp_path / "d", fields=None)) > 0


@pytest.mark.usefixtures("lines")
def test_truncation_keeps_special_tokens_of_a_cached_dataset(tmp_path: Path, lines: list[str]) -> None:
    options: dict[str, Any] = {"fields": None, "max_length": 5, "too_long": "truncate"}
    cached = {"cache": tmp_path / "cache", "columns": ("input_ids", "lengths")}
    loader = make(f"file://{tmp_path / 'd'}", **options, **cached)
    last = [int(row[n - 1]) for batch in loader for row, n in zip(*batch, strict=True)]
    assert last == [3] * len(lines)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A dataset of one long document of bytes."""
    rng = np.random.default_rng(0)
    (tmp_path / "long.txt").write_bytes(rng.integers(97, 123, TOKENS, np.uint8).tobytes())
    stoker.convert_text(tmp_path / "long.txt", tmp_path / "long", tokenizer="bytes")
    return tmp_path / "long"


def test_a_piece_of_a_long_document_is_read_without_the_rest(document: Path) -> None:
    loader = make(document, fields=None, pack=100, batch_size=4, too_long="split", prefetch=1)
    text = (document.parent / "long.txt").read_bytes()
    tracemalloc.start()
    try:
        batches = iter(loader)
        for _ in range(20):
            batch = next(batches)
            tracemalloc.reset_peak()
            assert all(bytes(row.astype(np.uint8)) in text for row in batch.input_ids)
            held = tracemalloc.get_traced_memory()[0]
            next(batches)
            assert tracemalloc.get_traced_memory()[1] - held < TOKENS
    finally:
        tracemalloc.stop()
        loader.close()


def test_the_checksum_of_a_payload_in_pieces_is_compared_once(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    read_tokens = token_reader.read_tokens

    def spy(*arguments: Any) -> Any:
        length, mask = arguments[3], arguments[6]
        checked.extend(length[mask].tolist())
        return read_tokens(*arguments)

    # How often a checksum is computed shows only in the time of a batch.
    monkeypatch.setattr(token_reader, "read_tokens", spy)
    loader = make(document, fields=None, pack=100, batch_size=4, too_long="split")
    assert sum(len(batch.input_ids) for batch in loader) == TOKENS // 100
    assert checked == [2 * TOKENS]


def test_a_damaged_payload_in_pieces_is_refused(document: Path) -> None:
    (shard,) = document.glob("*.tfrecord")
    content = bytearray(shard.read_bytes())
    content[-100] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CorruptRecordError, match="checksum"):
        next(iter(make(document, fields=None, pack=100, batch_size=4, too_long="split")))


class Evicted:
    """A loader near the end of a remote document in pieces, after the cache has evicted all of it.

    Attributes:
        loader: The loader. Eight batches of 4,000 tokens of its pass are left, so the next pass begins after
            the first one.
        fetched: Bytes of each request since then.
        damage: Functions, each of which changes the answer to a request.
    """

    def __init__(self, document: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.fetched: list[int] = []
        self.damage: list[Any] = []
        fetch = RangeReader.__call__

        def counted(reader: RangeReader, file: int, start: int, stop: int) -> bytes:
            self.fetched.append(stop - start)
            data = fetch(reader, file, start, stop)
            return self.damage.pop()(data) if self.damage else data

        # Storage that counts requests and damages answers; a file:// address has none.
        monkeypatch.setattr(RangeReader, "__call__", counted)
        dataset = stoker.open(f"file://{document}", cache=document.parent / "cache")
        self.loader = make(
            dataset,
            fields=None,
            pack=1000,
            batch_size=4,
            too_long="split",
            shuffle=False,
            prefetch=1,
            **options,
        )
        next(iter(self.loader))
        self.loader.load_state_dict({**self.loader.state_dict(), "position": len(self.loader) - 8})
        with closing(dataset.open_files(threading.Event()).blocks) as blocks:
            never = np.zeros(int(blocks.first[-1]), np.int64)
            # The pass that has ended may still hold some blocks for a moment.
            wait_until(lambda: blocks.evict(1 << 40, never) >= 0 and not blocks.present_bytes)
        self.fetched.clear()


@pytest.fixture
def evict(document: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Evicted]]:
    with ExitStack() as loaders:

        def make_evicted(**options: Any) -> Evicted:
            evicted = Evicted(document, monkeypatch, **options)
            loaders.callback(evicted.loader.close)
            return evicted

        yield make_evicted


@pytest.mark.parametrize("verify", [True, False])
def test_a_piece_of_a_remote_document_is_fetched_without_the_rest(
    document: Path, evict: Callable[..., Evicted], verify: bool
) -> None:
    text = (document.parent / "long.txt").read_bytes()
    evicted = evict(verify=verify)
    batches = [batch.input_ids.astype(np.uint8).tobytes() for batch in evicted.loader]
    assert b"".join(batches) == text[-32_000:]
    assert evicted.fetched[0] < BLOCK_BYTES


def test_a_piece_that_arrives_damaged_is_fetched_again(document: Path, evict: Callable[..., Evicted]) -> None:
    text = (document.parent / "long.txt").read_bytes()
    evicted = evict()
    evicted.damage = [lambda data: bytes(len(data))]
    batches = [batch.input_ids.astype(np.uint8).tobytes() for batch in evicted.loader]
    assert b"".join(batches) == text[-32_000:]
    assert evicted.fetched[0] == evicted.fetched[1]


def test_a_piece_that_is_damaged_in_the_storage_is_refused(evict: Callable[..., Evicted]) -> None:
    evicted = evict()
    evicted.damage = [lambda data: bytes(len(data))] * 9
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        list(evicted.loader)
    assert caught.value.key == "long.txt:1"


def test_a_cache_smaller_than_its_documents_gives_the_same_pieces(tmp_path: Path) -> None:
    """Short documents among long ones, of a selection in another order, in two epochs."""
    rng = np.random.default_rng(0)
    lines = [
        rng.integers(97, 123, size, np.uint8).tobytes()
        for size in (300_000, 50, 3_000, 400_000, 900, 200_000)
    ]
    (tmp_path / "lines.txt").write_bytes(b"\n".join(lines))
    stoker.convert_text(tmp_path / "lines.txt", tmp_path / "lines", tokenizer="bytes")
    options: dict[str, Any] = {"fields": None, "pack": 1000, "batch_size": 4, "too_long": "split"}
    remote = stoker.open(f"file://{tmp_path / 'lines'}", cache=tmp_path / "cache", cache_size=2 * BLOCK_BYTES)
    loaders = [
        make(dataset.select(np.arange(6)[::-1]), **options)
        for dataset in (stoker.open(tmp_path / "lines"), remote)
    ]
    for _ in range(2):
        assert same(list(loaders[0]), list(loaders[1]))
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize("train_on", [None, "a"])
def test_rows_padded_while_reading_equal_rows_padded_by_numpy(tmp_path: Path, train_on: str | None) -> None:
    lines = [json.dumps({"q": "why " * (1 + i % 4), "a": "so " * (i % 9)}) for i in range(90)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    stoker.convert_text(
        tmp_path / "t.jsonl",
        tmp_path / "d",
        fields=["q", "a"],
        tokenizer="bytes",
        training=stoker.Training(train_on=train_on),
    )
    dataset = stoker.open(tmp_path / "d")
    outputs: Any = ("input_ids", "attention_mask", "lengths", "position_ids", "labels")
    for field in str(dataset.manifest.options["fields"]).split(","):
        for labels in get_args(Labels):
            pad = Pad(outputs=outputs, labels=labels, position_start=2, value=258)
            fast, slow = (
                make(dataset, fields=(field,), batchify=function)
                for function in (pad, partial(Pad.__call__, pad))
            )
            # Both ways make the same batches, so nothing public shows which one ran.
            assert fast.pipeline.config.reads_padded
            assert not slow.pipeline.config.reads_padded
            for fast_batch, slow_batch in zip(fast, slow, strict=True):
                for array, expected in zip(fast_batch, slow_batch, strict=True):
                    assert array.dtype == expected.dtype
                    assert array.tolist() == expected.tolist()


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
