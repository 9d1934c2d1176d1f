"""Damaged LMDB shards: cuts, and pages full of nonsense. The process must survive all of them."""

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import stoker
from stoker.errors import CorruptRecordError, DatasetError, SampleError
from stoker.formats import lmdb
from stoker.formats.files import open_regular
from stoker.formats.lmdb_pages import BadPageError, walk

Make = Callable[..., Path]

PAGE = 4096


@pytest.fixture
def payloads() -> list[bytes]:
    """Payloads in leaf and overflow pages, enough of them for a branch page."""
    rng = random.Random(0)
    return [rng.randbytes(rng.choice([30, 700, 1900, 2500, 9000])) for _ in range(120)]


@pytest.fixture
def shard(make_dataset: Make, payloads: list[bytes]) -> Path:
    """The data file of a dataset's only shard."""
    return make_dataset("lmdb", payloads=payloads, shards=1) / "shard-00000-of-00001.lmdb" / "data.mdb"


def assert_no_wrong_sample(dataset: stoker.Dataset, payloads: list[bytes], which: list[int]) -> None:
    for i in which:
        with suppress(SampleError):
            assert dataset.read(i) == payloads[i]


def test_a_hundred_cuts(shard: Path, payloads: list[bytes]) -> None:
    good = shard.read_bytes()
    folder = shard.parent.parent
    dataset = stoker.open(folder)
    lengths = [0, 1, 15, 16, 100, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, len(good) - 1, len(good) - PAGE]
    rng = random.Random(1)
    lengths += [rng.randrange(len(good)) for _ in range(100 - len(lengths))]
    for length in lengths:
        shard.write_bytes(good[:length])
        with pytest.raises(DatasetError, match="truncated"):
            stoker.open(folder)
        with pytest.raises(CorruptRecordError):
            list(lmdb.scan(shard))
        assert_no_wrong_sample(dataset, payloads, rng.sample(range(len(payloads)), 5))
    assert not stoker.verify(folder).ok


def damaged(good: bytes, rng: random.Random) -> bytes:
    """Change a few bytes where it hurts: meta pages, page headers, pointers, nodes, page numbers."""
    data = bytearray(good)
    pages = len(data) // PAGE
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        page = rng.choice([0, 1, rng.randrange(pages)]) * PAGE
        at = page + rng.choice([rng.randrange(0, 16), rng.randrange(16, 160), rng.randrange(PAGE - 8)])
        how = rng.randrange(5)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            struct.pack_into(
                "<H", data, at & ~1, rng.choice([0, 1, 2, 4, 0xFFFF, 0x8000, PAGE, rng.randrange(65536)])
            )
        elif how == 2:
            value = rng.choice([0, 1, 2, pages - 1, pages, 2**32, 2**63, 2**64 - 1, rng.randrange(pages)])
            struct.pack_into("<Q", data, at & ~7, value)
        elif how == 3:
            data[page : page + PAGE] = data[(other := rng.randrange(pages) * PAGE) : other + PAGE]
        else:
            data[page : page + PAGE] = rng.randbytes(PAGE) if rng.random() < 0.5 else bytes(PAGE)
    return bytes(data)


def test_a_thousand_damages(shard: Path, payloads: list[bytes]) -> None:
    good = shard.read_bytes()
    dataset = stoker.open(shard.parent.parent)
    rng = random.Random(2)
    found = 0
    for _ in range(1000):
        shard.write_bytes(damaged(good, rng))
        assert_no_wrong_sample(dataset, payloads, rng.sample(range(len(payloads)), 3))
        try:
            records = sum(1 for _ in lmdb.scan(shard))
        except CorruptRecordError as error:
            found += error.shard == "shard-00000-of-00001.lmdb"
        else:
            # A damaged newer meta page leaves the older one, of the time before anything was written.
            assert records in (0, len(payloads))
    assert found > 500, "the damages are no damages"


def test_damages_are_in_the_report(shard: Path) -> None:
    good = shard.read_bytes()
    rng = random.Random(3)
    for _ in range(30):
        data = damaged(good, rng)
        shard.write_bytes(data)
        assert stoker.verify(shard.parent.parent, num_threads=1).ok == (data == good)


def test_a_flipped_bit_of_any_payload_is_found(shard: Path, payloads: list[bytes]) -> None:
    dataset = stoker.open(shard.parent.parent)
    good = shard.read_bytes()
    where = dataset.samples(range(len(payloads)))
    rng = random.Random(4)
    for i in range(len(payloads)):
        data = bytearray(good)
        data[int(where.offset[i]) + rng.randrange(len(payloads[i]))] ^= 1 << rng.randrange(8)
        shard.write_bytes(data)
        with pytest.raises(CorruptRecordError, match="checksum"):
            dataset.read(i)


def page(number: int, flags: int, nodes: list[bytes]) -> bytes:
    """A page of a tree, with its nodes from the end of it downwards."""
    pointers, body, at = [], b"", PAGE
    for node in nodes:
        padded = node + bytes(len(node) % 2)
        at -= len(padded)
        body = padded + body
        pointers.append(at)
    lower = 16 + 2 * len(nodes)
    head = struct.pack("<QHHHH", number, 0, flags, lower, at) + struct.pack(f"<{len(nodes)}H", *pointers)
    return head + bytes(PAGE - len(head) - len(body)) + body


def branch(key: bytes, child: int) -> bytes:
    return struct.pack("<HHHH", child & 0xFFFF, child >> 16, 0, len(key)) + key


def leaf(key: bytes, size: int, page: int | None = None, value: bytes = b"") -> bytes:
    big = page is not None
    tail = struct.pack("<Q", page) if page is not None else value
    return struct.pack("<HHHH", size & 0xFFFF, size >> 16, int(big), len(key)) + key + tail


def forge(path: Path, pages: list[bytes], depth: int, entries: int, root: int = 2) -> None:
    """A data file whose newer meta page describes the given pages, which start at number 2."""
    last = 1 + sum(map(len, pages)) // PAGE
    meta = b""
    for number in range(2):
        databases = struct.pack("<IHHQQQQQ", PAGE, 0, 0, 0, 0, 0, 0, 2**64 - 1)
        databases += struct.pack("<IHHQQQQQ", 0, 0, depth, 0, 0, 0, entries, root)
        head = struct.pack("<QHHHH", number, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 20)
        head += databases + struct.pack("<QQ", last, number)
        meta += head + bytes(PAGE - len(head))
    path.write_bytes(meta + b"".join(pages))


def walked(path: Path) -> list[bytes]:
    with open_regular(path) as (descriptor, size):
        return [node.key for node in walk(descriptor, size)]


def test_the_forger_forges_what_the_walker_reads(tmp_path: Path) -> None:
    forge(tmp_path / "f", [page(2, 2, [leaf(b"a", 1, value=b"x"), leaf(b"b", 2, value=b"yy")])], 1, 2)
    assert walked(tmp_path / "f") == [b"a", b"b"]


@pytest.mark.parametrize(
    ("pages", "depth", "message"),
    [
        # A branch page that is its own child: no end but for the depth.
        ([page(2, 1, [branch(b"", 2)])], 3, "at 1 levels above the bottom"),
        ([page(2, 1, [branch(b"", 2), branch(b"b", 2)])], 32, "more than once"),
        # Two keys that lead to one leaf: thirty levels of it would be a billion records.
        (
            [page(2, 1, [branch(b"", 3), branch(b"b", 3)]), page(3, 2, [leaf(b"a", 0)])],
            2,
            "do not ascend",
        ),
        # Many small nodes that share one long value.
        (
            [
                page(2, 2, [leaf(b"%02d" % i, 2 * PAGE - 16, page=3) for i in range(50)]),
                struct.pack("<QHHI", 3, 0, 4, 2) + bytes(2 * PAGE - 16),
            ],
            1,
            "more than once",
        ),
        ([page(2, 2, [leaf(b"a", 2**31, page=2)])], 1, "where the last is 2"),
        ([page(2, 2, [leaf(b"a", 10, page=2**63)])], 1, "where the last is 2"),
        ([page(2, 2, [leaf(b"a", 10, page=2)])], 1, "more than once|not the start"),
        ([page(2, 2, [leaf(b"a", 5000)])], 1, "value out of bounds"),
        ([page(2, 2, [leaf(b"b", 0), leaf(b"a", 0)])], 1, "do not ascend"),
        ([page(2, 2, [])], 1, "bounds 16"),
        ([page(3, 2, [leaf(b"a", 0)])], 1, "says it is page 3"),
        ([page(2, 2, [leaf(b"a", 0)])], 33, "depth 33"),
        ([page(2, 2, [leaf(b"a", 0)])], 0, "flags 0x2 at 0 levels"),
        ([page(2, 0x22, [leaf(b"a", 0)])], 1, "flags 0x22"),
        ([page(2, 2, [leaf(b"a", 0)])], 1, "counts 7 entries, the pages hold 1"),
    ],
)
def test_trees_that_would_not_end_or_reach_outside(
    tmp_path: Path, pages: list[bytes], depth: int, message: str
) -> None:
    forge(tmp_path / "f", pages, depth, 7)
    with pytest.raises(BadPageError, match=message):
        walked(tmp_path / "f")


def test_no_root(tmp_path: Path) -> None:
    forge(tmp_path / "f", [], 0, 0, root=2**64 - 1)
    assert walked(tmp_path / "f") == []
    forge(tmp_path / "f", [], 0, 5, root=2**64 - 1)
    with pytest.raises(BadPageError, match="counts 5 entries and has no root"):
        walked(tmp_path / "f")
