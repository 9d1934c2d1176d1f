"""Tests of tar archives as datasets, whole and broken; tests/framework has those that WebDataset writes."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import jpeg
from helpers.images import encode
from helpers.shards import member, with_checksum, write_members, write_samples
from PIL import Image

import stoker
from stoker.errors import ConfigError, CorruptRecordError, SourceError
from stoker.formats.in_place.shards import index

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

LONG = "folder/" * 30 + "name"  # longer than a header has room for


def indexed(into: Path, *shards: Any, **options: Any) -> stoker.Dataset:
    index(shards, into, **options)
    return stoker.open(into)


def png() -> bytes:
    return encode(Image.new("RGB", (5, 4)), "PNG")


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """A folder with the archives 008.tar, 009.tar and 010.tar, of one sample each: 8, 9 and 10."""
    for number in (8, 9, 10):
        write_samples(tmp_path / f"{number:03d}.tar", [{"__key__": str(number), "jpg": jpeg(number)}])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("{008..010}.tar", ["8", "9", "10"]),
        ("{010..008..2}.tar", ["10", "8"]),
        ("{008,0{09,10}}.tar", ["8", "9", "10"]),
        ("00*.tar", ["8", "9"]),
        ("", ["8", "9", "10"]),
    ],
)
def test_a_name_may_stand_for_several_archives(numbered: Path, name: str, keys: list[str]) -> None:
    dataset = indexed(numbered / "into", numbered / name)
    assert dataset.keys(range(len(dataset))) == keys


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("0{08,1{0}}.tar", SourceError, "there is no such shard"),
        ("x*.tar", SourceError, "no file matches the pattern"),
        ("{0..99999999999}.tar", ConfigError, "more than 1,000,000 shards"),
    ],
)
def test_a_name_that_stands_for_no_archive_is_refused(
    numbered: Path, name: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        index([numbered / name], numbered / "none")


def test_braces_in_the_name_of_a_file_are_not_a_list(numbered: Path) -> None:
    (numbered / "008.tar").rename(numbered / "{1,2}.tar")
    assert indexed(numbered / "into", numbered / "{1,2}.tar").keys([0]) == ["8"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_names_of_members_are_keys_and_never_paths(tmp_path: Path, form: int) -> None:
    names = ["../../climbs", "/absolute/x", "dir.d/a", "ümlaut", "x" * 90, LONG]
    images = [jpeg(i) for i in range(len(names))]
    members: list[tuple[Any, bytes]] = [(member("folder.jpg", tarfile.DIRTYPE), b"")]
    for name, image in zip(names, images, strict=True):
        members += [(f"{name}.JPG", image), (f"{name}.cls", b"1")]
    path = write_members(
        tmp_path / "x.tar", [*members, ("README", b"no suffix"), ("__meta__/a.jpg", b"")], form
    )
    dataset = indexed(tmp_path / "into", path)
    assert dataset.keys(range(6)) == names
    assert [dataset.read(i) for i in range(6)] == images
    assert sorted(file.name for file in tmp_path.iterdir()) == ["into", "x.tar"]


DOCUMENTS = [
    {"label": "dog", "caption": "é", "width": 3, "score": 1, "meta": {"id": 7}, "tags": ["a"]},
    {"label": "cat", "caption": "b", "width": 4, "score": 0.5, "meta": {"id": None}, "tags": []},
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """An archive of two samples with an image, a mask and a document."""
    samples = [
        {"__key__": str(i), "jpg": jpeg(i), "seg.png": png(), "json": document}
        for i, document in enumerate(DOCUMENTS)
    ]
    return write_samples(tmp_path / "x.tar", samples)


def test_labels_and_columns_are_fields_of_json(documents: Path, tmp_path: Path) -> None:
    columns = {name: f"json:{name}" for name in ("caption", "score", "meta.id", "tags")}
    columns |= {"width_": "json:width", "none": "npy"}
    dataset = indexed(tmp_path / "into", documents, names={"label": "json:label", "columns": columns})
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [1, 0]
    assert dataset.strings("caption", [0, 1]) == ["é", "b"]
    assert dataset.strings("tags", [0, 1]) == ['["a"]', "[]"]
    assert dataset.column("width_").tolist() == [3, 4]
    np.testing.assert_array_equal(dataset.column("score"), [1.0, 0.5])
    np.testing.assert_array_equal(dataset.column("meta.id"), [7, np.nan])
    assert "none" not in dataset.columns


def test_names_choose_the_image_the_key_and_the_labels(documents: Path, tmp_path: Path) -> None:
    names = {"encoded": "npy;seg.png", "label": "", "key": "json:width"}
    dataset = indexed(tmp_path / "into", documents, names=names)
    assert (dataset.keys([0, 1]), dataset.read(0)) == (["3", "4"], png())
    names = {"label": "json:label"}
    assert indexed(
        tmp_path / "labelled", documents, names=names, classes=["dog", "cow", "cat"]
    ).labels.tolist() == [0, 2]
    with pytest.raises(SourceError, match="class 'cat', which is not among the 1 named"):
        index([documents], tmp_path / "none", names=names, classes=["dog"])


def test_samples_without_a_readable_image_are_counted_by_reason(tmp_path: Path) -> None:
    sparse = tarfile.TarInfo("sparse.jpg")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "sparse.jpg"}
    path = write_members(
        tmp_path / "x.tar",
        [
            ("good.jpg", jpeg(0)),
            ("text.txt", b"no image"),
            ("broken.png", b"no png"),
            (member("soft.jpg", tarfile.SYMTYPE, "/etc/passwd"), b""),
            (member("hard.jpg", tarfile.LNKTYPE, "good.jpg"), b""),
            (member("null.jpg", tarfile.CHRTYPE), b""),
            (sparse, b"data"),
        ],
    )
    manifest = index([path], tmp_path / "into")
    assert manifest.skipped == {
        "sample without an image (jpg;jpeg;png;webp); it has txt": 1,
        "image whose header cannot be read": 1,
        "image that is a link in the archive": 2,
        "image that is a device in the archive": 1,
        "image that is a sparse file in the archive": 1,
    }
    dataset = stoker.open(tmp_path / "into")
    assert (dataset.keys([0]), len(dataset)) == (["good"], 1)
    assert stoker.verify(tmp_path / "into").ok
    with pytest.raises(SourceError, match="left out: 1 x sample without an image"):
        index([write_members(tmp_path / "y.tar", [("a.txt", b"")])], tmp_path / "none")


def damaged(tmp_path: Path) -> dict[str, bytes]:
    """Damaged archives by name."""
    samples = [{"__key__": str(i), "jpg": jpeg(i), "cls": i} for i in range(2)]
    data = write_samples(tmp_path / "whole", samples).read_bytes()
    header, image = data.index(b"1.cls"), data.index(b"1.jpg")
    assert header % 512 == 0

    def with_size(size: bytes) -> bytes:
        return with_checksum(bytearray(data[: header + 124] + size + data[header + 136 :]), header)

    def with_empty(*names: str) -> bytes:
        return write_members(tmp_path / "members", [(name, b"") for name in names]).read_bytes()

    pax = write_members(tmp_path / "pax", [(LONG + ".jpg", jpeg(0))]).read_bytes()
    return {
        "in-an-image": data[: image + 700],
        "in-a-header": data[: header + 100],
        "between-members": data[:header],
        "checksum": data[: header + 3] + bytes([data[header + 3] ^ 1]) + data[header + 4 :],
        "binary-size": with_size(b"\x80" + b"\0" * 6 + b"\x7f" * 5),
        "octal-size": with_size(b"77777777777\0"),
        "size-in-letters": with_size(b"many bytes \0"),
        "pax": pax.replace(b"path=folder", b"path#folder"),
        "joined": data + data,
        "apart": with_empty("a.jpg", "b.jpg", "a.cls"),
        "twice": with_empty("a.jpg", "a.JPG"),
        "packed.tar.gz": gzip.compress(data),
        "packed.tar.zst": b"\x28\xb5\x2f\xfd" + data[:2000],
    }


@pytest.mark.parametrize(
    ("name", "record", "message"),
    [
        ("in-an-image", 1, "member 1.jpg claims"),
        ("in-a-header", 0, "the archive is cut short: it ends within a header"),
        ("between-members", 0, "the archive is cut short: it ends without two blocks"),
        ("checksum", 0, "the checksum of a header does not match"),
        ("binary-size", 0, "member 1.cls claims"),
        ("octal-size", 0, "member 1.cls claims 8589934591 bytes where"),
        ("size-in-letters", 0, "a header has 'many bytes"),
        ("pax", 0, "a PAX header has a record without a value"),
        ("joined", 1, "bytes follow the end of the archive"),
        ("apart", 1, "the members of a are not next to each other"),
        ("twice", 0, "two members of a"),
        ("packed.tar.gz", 0, "the file is compressed"),
        ("packed.tar.zst", 0, "the file is compressed"),
    ],
)
def test_a_damaged_archive_is_refused_with_its_path_and_record(
    tmp_path: Path, name: str, record: int, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(damaged(tmp_path)[name])
    with pytest.raises(CorruptRecordError) as caught:
        index([path], tmp_path / "into")
    assert caught.value.message.startswith(message)
    assert (caught.value.path, caught.value.shard) == (str(path), name)
    assert caught.value.record == record
    tool = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    command = f"Decompress it first: {tool} -d < {name} > packed.tar"
    assert str(caught.value.hint) == command if tool else caught.value.hint
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("cls", "document", "names", "error", "message"),
    [
        (b"7", b"{", {"label": "json:label"}, SourceError, "the member .json is not JSON"),
        (
            b"7",
            b'{"label": 1.5}',
            {"label": "json:label"},
            SourceError,
            "must be an integer from 0 or a name",
        ),
        (b"0.5", b"{}", {}, SourceError, "or a name, as it is a class, found 0.5"),
        (b"-1", b"{}", {}, SourceError, "must be an integer from 0 or a name, as it is a class, found -1"),
        (b"7", b'{"label": -1}', {"label": "json:label"}, SourceError, "found -1"),
        (b"007", b"{}", {}, SourceError, "the name 007 as its label, unlike those before it"),
        (b"7", b"{}", {"columns": {"offset": "cls"}}, ConfigError, "cannot have the name 'offset'"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(
    tmp_path: Path, cls: bytes, document: bytes, names: dict[str, Any], error: type[Exception], message: str
) -> None:
    members = [("a.jpg", jpeg(0)), ("a.cls", b"7"), ("a.json", b'{"label": 1}')]
    members += [("b.jpg", jpeg(0)), ("b.cls", cls), ("b.json", document)]
    with pytest.raises(error, match=message) as caught:
        index([write_members(tmp_path / "x.tar", members)], tmp_path / "into", names=names)
    if isinstance(caught.value, SourceError):
        assert (caught.value.shard, caught.value.record, caught.value.key) == ("x.tar", 1, "b")


@pytest.mark.parametrize("text", ["{}.0", "{}", " {}.000\n", "{}.", "tensor({})", "tensor({}.)"])
def test_numbers_as_writers_leave_them_are_labels(tmp_path: Path, text: str) -> None:
    numbers = [0, 11, 2]
    members = [
        one
        for i, number in enumerate(numbers)
        for one in (
            (f"{i}.jpg", jpeg(i)),
            (f"{i}.cls", text.format(number).encode()),
            (f"{i}.json", f'{{"n": {number}.0}}'.encode()),
        )
    ]
    archive = write_members(tmp_path / "x.tar", members)
    assert indexed(tmp_path / "cls", archive).labels.tolist() == numbers
    assert indexed(tmp_path / "json", archive, names={"label": "json:n"}).labels.tolist() == numbers


def test_a_class_without_an_image_in_the_archives_is_refused(tmp_path: Path) -> None:
    images = [(jpeg(0), b"ant"), (b"\xff\xd8\xff broken", b"bee"), (b"", b"bee"), (jpeg(1), b"cat")]
    members = [
        one for i, (image, cls) in enumerate(images) for one in ((f"{i}.jpg", image), (f"{i}.cls", cls))
    ]
    archive = write_members(tmp_path / "x.tar", members)
    with pytest.raises(SourceError, match=r"without an image: bee \(2 x image whose header"):
        index([archive], tmp_path / "into")
    with pytest.raises(SourceError, match="without an image: bee"):
        stoker.convert(archive, tmp_path / "out")
    names = ("ant", "bee", "cat")
    assert indexed(tmp_path / "into", archive, classes=names).labels.tolist() == [0, 2]


def test_archives_at_a_url_give_the_index_of_those_on_a_disk(tmp_path: Path, memory: Any) -> None:
    for number in range(2):
        path = write_samples(
            tmp_path / f"{number}.tar", [{"__key__": str(number), "jpg": jpeg(number), "cls": 1}]
        )
        memory.pipe(f"/bucket/tars/{number}.tar", path.read_bytes())
    expected = index([tmp_path / "0.tar", tmp_path / "1.tar"], tmp_path / "expected")
    for number, name in enumerate(["tars", "tars/*.tar", "tars/{0..1}.tar"]):
        into = tmp_path / f"into-{number}"
        assert index([f"memory://bucket/{name}"], into, checksums=True).fingerprint == expected.fingerprint
    dataset = stoker.open(into, cache=tmp_path / "cache")
    assert [dataset.read(i) for i in range(2)] == [jpeg(0), jpeg(1)]
