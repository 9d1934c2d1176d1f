"""Damaged LMDB shards: cuts, and pages full of nonsense, which the process survives."""

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import stoker
from stoker.errors import CorruptRecordError, DatasetError, SampleError
from stoker.formats.containers import lmdb
from stoker.formats.containers.container import BadShardError
from stoker.formats.containers.lmdb import walk
from stoker.formats.files import open_regular

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


def test_a_hundred_cuts_are_found(shard: Path, payloads: list[bytes]) -> None:
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
    """The file with a few bytes changed in meta pages, page headers, pointers, nodes or page numbers."""
    data = bytearray(good)
    pages = len(data) // PAGE
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        page = rng.choice([0, 1, rng.randrange(pages)]) * PAGE
        at = page + rng.choice([rng.randrange(0, 16), rng.randrange(16, 160), rng.randrange(PAGE - 8)])
        edit = rng.randrange(5)
        if edit == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif edit == 1:
            struct.pack_into(
                "<H", data, at & ~1, rng.choice([0, 1, 2, 4, 0xFFFF, 0x8000, PAGE, rng.randrange(65536)])
            )
        elif edit == 2:
            value = rng.choice([0, 1, 2, pages - 1, pages, 2**32, 2**63, 2**64 - 1, rng.randrange(pages)])
            struct.pack_into("<Q", data, at & ~7, value)
        elif edit == 3:
            data[page : page + PAGE] = data[(other := rng.randrange(pages) * PAGE) : other + PAGE]
        else:
            data[page : page + PAGE] = rng.randbytes(PAGE) if rng.random() < 0.5 else bytes(PAGE)
    return bytes(data)


def test_three_hundred_damages_are_found_or_harmless(shard: Path, payloads: list[bytes]) -> None:
    good = shard.read_bytes()
    dataset = stoker.open(shard.parent.parent)
    rng = random.Random(2)
    found = 0
    for _ in range(300):
        shard.write_bytes(damaged(good, rng))
        assert_no_wrong_sample(dataset, payloads, rng.sample(range(len(payloads)), 3))
        try:
            records = sum(1 for _ in lmdb.scan(shard))
        except CorruptRecordError as error:
            found += error.shard == "shard-00000-of-00001.lmdb"
        else:
            # A damaged newer meta page leaves the older one, of the time before anything was written.
            assert records in (0, len(payloads))
    assert found > 150, "most edits are harmless"


def test_verify_reports_damages(shard: Path) -> None:
    good = shard.read_bytes()
    rng = random.Random(3)
    for _ in range(30):
        data = damaged(good, rng)
        shard.write_bytes(data)
        assert stoker.verify(shard.parent.parent, num_threads=1).ok == (data == good)


def test_a_flipped_bit_of_any_payload_is_found(shard: Path, payloads: list[bytes]) -> None:
    dataset = stoker.open(shard.parent.parent)
    good = shard.read_bytes()
    samples = dataset.samples(range(len(payloads)))
    rng = random.Random(4)
    for i in range(len(payloads)):
        data = bytearray(good)
        data[int(samples.offset[i]) + rng.randrange(len(payloads[i]))] ^= 1 << rng.randrange(8)
        shard.write_bytes(data)
        with pytest.raises(CorruptRecordError, match="checksum"):
            dataset.read(i)


def page(number: int, flags: int, nodes: list[bytes], size: int = PAGE) -> bytes:
    """A page of a tree, with its nodes from the end of it downwards."""
    pointers, body, at = [], b"", size
    for node in nodes:
        padded = node + bytes(len(node) % 2)
        at -= len(padded)
        body = padded + body
        pointers.append(at)
    lower = 16 + 2 * len(nodes)
    head = struct.pack("<QHHHH", number, 0, flags, lower, at) + struct.pack(f"<{len(nodes)}H", *pointers)
    return head + bytes(size - len(head) - len(body)) + body


def poked(data: bytes, at: int, layout: str, value: int) -> bytes:
    """The same bytes with another number in them."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


def branch(key: bytes, child: int) -> bytes:
    return struct.pack("<HHHH", child & 0xFFFF, child >> 16, 0, len(key)) + key


def leaf(key: bytes, size: int, page: int | None = None, value: bytes = b"") -> bytes:
    big = page is not None
    tail = struct.pack("<Q", page) if page is not None else value
    return struct.pack("<HHHH", size & 0xFFFF, size >> 16, int(big), len(key)) + key + tail


def forge(path: Path, pages: list[bytes], depth: int, entries: int, root: int = 2, size: int = PAGE) -> None:
    """A data file whose newer meta page describes the given pages, which start at number 2."""
    last = 1 + sum(map(len, pages)) // size
    meta = b""
    for number in range(2):
        databases = struct.pack("<IHHQQQQQ", size, 0, 0, 0, 0, 0, 0, 2**64 - 1)
        databases += struct.pack("<IHHQQQQQ", 0, 0, depth, 0, 0, 0, entries, root)
        head = struct.pack("<QHHHH", number, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 20)
        head += databases + struct.pack("<QQ", last, number)
        meta += head + bytes(size - len(head))
    path.write_bytes(meta + b"".join(pages))


ONE_LEAF = page(2, 2, [leaf(b"a", 0)])
NODE = PAGE - 10  # the offset of its node


def walked(path: Path) -> list[bytes]:
    with open_regular(path) as (descriptor, size):
        return [node.key for node in walk(descriptor, size)]


def test_the_forged_pages_are_those_that_the_reader_visits(tmp_path: Path) -> None:
    forge(tmp_path / "f", [page(2, 2, [leaf(b"a", 1, value=b"x"), leaf(b"b", 2, value=b"yy")])], 1, 2)
    assert walked(tmp_path / "f") == [b"a", b"b"]


@pytest.mark.parametrize("size", [512, 16384, 65536])
def test_files_with_other_page_sizes_are_read(tmp_path: Path, size: int) -> None:
    forge(tmp_path / "f", [page(2, 2, [leaf(b"a", 1, value=b"x")], size)], 1, 1, size=size)
    assert walked(tmp_path / "f") == [b"a"]


@pytest.mark.parametrize(
    ("at", "layout", "value", "message"),
    [
        (0, "<Q", 1, "no LMDB meta page"),
        (10, "<H", 2, "no LMDB meta page"),
        (20, "<I", 2, "data format 2"),
        (40, "<I", 1000, "pages of 1000 bytes"),
        (PAGE + 16, "<I", 0, "second meta page"),
        (PAGE + 40, "<I", 2 * PAGE, "second meta page"),
    ],
)
def test_forged_meta_pages_are_refused(
    tmp_path: Path, at: int, layout: str, value: int, message: str
) -> None:
    forge(tmp_path / "f", [ONE_LEAF], 1, 1)
    (tmp_path / "f").write_bytes(poked((tmp_path / "f").read_bytes(), at, layout, value))
    with pytest.raises(BadShardError, match=message):
        walked(tmp_path / "f")


def test_a_file_that_becomes_shorter_is_an_error(shard: Path) -> None:
    good = shard.read_bytes()
    whole = [bytes(record.view) for record in lmdb.scan(shard)]
    raised = 0
    for length in range(1000, len(good), len(good) // 20):
        shard.write_bytes(good)
        records = lmdb.scan(shard)
        found = [bytes(next(records).view)]
        with shard.open("r+b") as file:
            file.truncate(length)
        try:
            found.extend(bytes(record.view) for record in records)
        except CorruptRecordError as error:
            raised += error.record == len(found)
        else:
            assert len(found) == len(whole)
        assert found == whole[: len(found)]
    assert raised > 10


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
        ([page(2, 2, [leaf(b"a", 2)])], 1, "value out of bounds"),
        # The child's number has 48 bits.
        ([poked(page(2, 1, [branch(b"", 2)]), PAGE - 4, "<H", 1)], 2, "pages 4294967298"),
        ([page(2, 2, [leaf(b"b", 0), leaf(b"a", 0)])], 1, "do not ascend"),
        ([page(2, 2, [])], 1, "bounds 16"),
        ([page(3, 2, [leaf(b"a", 0)])], 1, "says it is page 3"),
        ([ONE_LEAF], 33, "depth 33"),
        ([ONE_LEAF], 0, "flags 0x2 at 0 levels"),
        ([page(2, 0x22, [leaf(b"a", 0)])], 1, "flags 0x22"),
        # Depths that no tree has do not stop at a leaf.
        ([page(2, 1, [branch(b"", 3)]), page(3, 1, [branch(b"", 4)])], 0, "flags 0x1 at 0 levels"),
        # Half a pointer, nodes among the pointers, in the header, and across the end of the page.
        ([poked(ONE_LEAF, 12, "<H", 19)], 1, "bounds 19"),
        ([poked(ONE_LEAF, 14, "<H", 17)], 1, "bounds 18 and 17"),
        ([poked(ONE_LEAF, 16, "<H", 0)], 1, "node out of bounds"),
        ([poked(ONE_LEAF, 16, "<H", PAGE - 7)], 1, "node out of bounds"),
        ([poked(ONE_LEAF, NODE + 4, "<H", 0x10)], 1, "node with flags 0x10"),
        # A long value whose page number, or whose last byte, is not there.
        ([poked(ONE_LEAF, NODE + 4, "<H", 1)], 1, "value out of bounds"),
        (
            [
                page(2, 2, [leaf(b"a", PAGE - 15, page=3)]),
                struct.pack("<QHHI", 3, 0, 4, 1) + bytes(PAGE - 16),
                page(4, 2, [leaf(b"b", 0)]),
            ],
            1,
            "not the start of 2 overflow pages",
        ),
        ([ONE_LEAF], 1, "counts 7 entries, the pages hold 1"),
    ],
)
def test_endless_trees_and_pages_outside_the_file_are_refused(
    tmp_path: Path, pages: list[bytes], depth: int, message: str
) -> None:
    forge(tmp_path / "f", pages, depth, 7)
    with pytest.raises(BadShardError, match=message):
        walked(tmp_path / "f")


def test_an_empty_tree_has_no_records(tmp_path: Path) -> None:
    forge(tmp_path / "f", [], 0, 0, root=2**64 - 1)
    assert walked(tmp_path / "f") == []
    forge(tmp_path / "f", [], 0, 5, root=2**64 - 1)
    with pytest.raises(BadShardError, match="counts 5 entries and has no root"):
        walked(tmp_path / "f")
