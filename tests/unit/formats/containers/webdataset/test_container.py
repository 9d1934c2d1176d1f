"""Tests of tar archives as datasets, whole and broken; tests/framework has those that WebDataset writes."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.datasets import jpeg
from helpers.data.pictures import encode
from helpers.data.shards.tar_shards import member, with_checksum, write_members, write_samples
from PIL import Image

import stoker
from stoker.errors import ConfigError, CorruptRecordError, SourceError
from stoker.formats.external.external_index import index

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

LONG = "folder/" * 30 + "name"  # longer than a header has room for


def indexed(into: Path, *shards: Any, **options: Any) -> stoker.Dataset:
    index(shards, into, **options)
    return stoker.open(into)


def png() -> bytes:
    return encode(Image.new("RGB", (5, 4)), "PNG")


def test_names_that_stand_for_several_shards(tmp_path: Path) -> None:
    for number in (8, 9, 10):
        write_samples(tmp_path / f"{number:03d}.tar", [{"__key__": str(number), "jpg": jpeg(number)}])
    names = {
        "{008..010}.tar": ["8", "9", "10"],
        "{010..008..2}.tar": ["10", "8"],
        "0{08,1{0}}.tar": None,
        "{008,0{09,10}}.tar": ["8", "9", "10"],
        "00*.tar": ["8", "9"],
        "": ["8", "9", "10"],
    }
    for number, (name, keys) in enumerate(names.items()):
        if keys is None:
            with pytest.raises(SourceError, match="there is no such shard"):
                index([tmp_path / name], tmp_path / "none")
            continue
        dataset = indexed(tmp_path / f"into-{number}", tmp_path / name)
        assert dataset.keys(range(len(dataset))) == keys
    with pytest.raises(SourceError, match="no file matches the pattern"):
        index([tmp_path / "x*.tar"], tmp_path / "none")
    with pytest.raises(ConfigError, match="more than 1,000,000 shards"):
        index([tmp_path / "{0..99999999999}.tar"], tmp_path / "none")
    (tmp_path / "{1,2}.tar").write_bytes((tmp_path / "008.tar").read_bytes())
    assert indexed(tmp_path / "braces", tmp_path / "{1,2}.tar").keys([0]) == ["8"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_and_names_of_all_kinds(tmp_path: Path, form: int) -> None:
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


def test_labels_captions_and_columns_out_of_json(tmp_path: Path) -> None:
    documents = [
        {"label": "dog", "caption": "é", "width": 3, "score": 1, "meta": {"id": 7}, "tags": ["a"]},
        {"label": "cat", "caption": "b", "width": 4, "score": 0.5, "meta": {"id": None}, "tags": []},
    ]
    path = write_samples(
        tmp_path / "x.tar",
        [
            {"__key__": str(i), "jpg": jpeg(i), "seg.png": png(), "json": one}
            for i, one in enumerate(documents)
        ],
    )
    columns = {name: f"json:{name}" for name in ("caption", "width_", "score", "meta.id", "tags")}
    columns["width_"] = "json:width"
    names = {"label": "json:label", "columns": {**columns, "none": "npy"}}
    dataset = indexed(tmp_path / "into", path, names=names)
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [1, 0]
    assert dataset.index.strings("caption", [0, 1]) == ["é", "b"]
    assert dataset.index.strings("tags", [0, 1]) == ['["a"]', "[]"]
    assert dataset.column("width_").tolist() == [3, 4]
    np.testing.assert_array_equal(dataset.column("score"), [1.0, 0.5])
    np.testing.assert_array_equal(dataset.column("meta.id"), [7, np.nan])
    assert "none" not in dataset.columns
    segmentations = indexed(
        tmp_path / "seg", path, names={"encoded": "npy;seg.png", "label": "", "key": "json:width"}
    )
    assert segmentations.keys([0, 1]) == ["3", "4"]
    assert segmentations.read(0) == png()
    named = indexed(tmp_path / "named", path, names=names, classes=["dog", "cow", "cat"])
    assert named.labels.tolist() == [0, 2]
    with pytest.raises(SourceError, match="class 'cat', which is not among the 1 named"):
        index([path], tmp_path / "none", names=names, classes=["dog"])


def test_what_is_no_image_is_counted(tmp_path: Path) -> None:
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
        "sample without an image (jpg;jpeg;png;webp)": 1,
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


def damaged(tmp_path: Path) -> dict[str, tuple[bytes, str]]:
    """Damaged archives by name, each with the start of the message about it."""
    whole = write_samples(
        tmp_path / "whole", [{"__key__": str(i), "jpg": jpeg(i), "cls": i} for i in range(2)]
    )
    data = whole.read_bytes()
    header = data.index(b"1.cls")
    assert header % 512 == 0
    lies = bytearray(data)
    lies[header + 124 : header + 136] = b"\x80" + b"\0" * 6 + b"\x7f" * 5
    octal = bytearray(data)
    octal[header + 124 : header + 136] = b"77777777777\0"
    letters = bytearray(data)
    letters[header + 124 : header + 136] = b"many bytes \0"
    flipped = bytearray(data)
    flipped[header + 3] ^= 1
    image = data.index(b"1.jpg")
    pax = write_members(tmp_path / "pax", [(LONG + ".jpg", jpeg(0))]).read_bytes()
    return {
        "in-an-image": (data[: image + 700], "member 1.jpg claims"),
        "in-a-header": (data[: header + 100], "the archive is cut short: it ends within a header"),
        "between-members": (data[:header], "the archive is cut short: it ends without the two blocks"),
        "checksum": (bytes(flipped), "the checksum of a header does not match"),
        "lies": (with_checksum(lies, header), "member 1.cls claims"),
        "lies-in-octal": (with_checksum(octal, header), "member 1.cls claims 8589934591 bytes where"),
        "letters": (with_checksum(letters, header), "a header has 'many bytes"),
        "pax": (pax.replace(b"path=folder", b"path#folder"), "a PAX header has a record without a value"),
        "joined": (data + data, "bytes follow the end of the archive"),
        "apart": (
            write_members(tmp_path / "apart", [("a.jpg", b""), ("b.jpg", b""), ("a.cls", b"")]).read_bytes(),
            "the members of a are not next to each other",
        ),
        "twice": (
            write_members(tmp_path / "2", [("a.jpg", b""), ("a.JPG", b"")]).read_bytes(),
            "two members of a",
        ),
        "packed.tar.gz": (gzip.compress(data), "the archive is compressed"),
        "packed.tar.zst": (b"\x28\xb5\x2f\xfd" + data[:2000], "the archive is compressed"),
    }


def test_broken_archives_are_errors_that_name_the_place(tmp_path: Path) -> None:
    for name, (data, message) in damaged(tmp_path).items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(CorruptRecordError) as caught:
            index([path], tmp_path / "into")
        assert caught.value.message.startswith(message), name
        assert (caught.value.path, caught.value.shard) == (str(path), name)
        assert caught.value.record == {"in-an-image": 1, "twice": 0}.get(name, caught.value.record)
        assert caught.value.hint
        if name.startswith("packed"):
            tool = {"z": "gzip", "t": "zstd"}[name[-1]]
            assert caught.value.hint == f"decompress it first: {tool} -d < {name} > packed.tar"
    assert not (tmp_path / "into").exists()


def test_values_that_cannot_be_labels(tmp_path: Path) -> None:
    for number, (content, message) in enumerate(
        {b"{": "the member .json is not JSON", b'{"label": 1.5}': "json:label is 1.5"}.items()
    ):
        members = [("a.jpg", jpeg(0)), ("a.json", content)]
        path = write_members(tmp_path / f"{number}.tar", members)
        with pytest.raises(SourceError, match=message) as caught:
            index([path], tmp_path / "into", names={"label": "json:label"})
        assert (caught.value.shard, caught.value.record, caught.value.key) == (path.name, 0, "a")
    mixed = [{"__key__": "a", "jpg": jpeg(0), "cls": "7"}, {"__key__": "b", "jpg": jpeg(0), "cls": "007"}]
    with pytest.raises(SourceError, match="the name 007 as its label, unlike those before it"):
        index([write_samples(tmp_path / "mixed.tar", mixed)], tmp_path / "into")
    with pytest.raises(ConfigError, match="cannot have the name 'offset'"):
        index([tmp_path / "mixed.tar"], tmp_path / "into", names={"columns": {"offset": "cls"}})


def test_an_archive_that_changes_is_noticed(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "x.tar", [{"__key__": "k", "jpg": jpeg(0), "cls": 0}])
    dataset = indexed(tmp_path / "into", path)
    data = bytearray(path.read_bytes())
    data[data.index(b"k.jpg") + 700] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="checksum does not match") as caught:
        dataset.read(0)
    assert (caught.value.shard, caught.value.record, caught.value.key) == ("x.tar", 0, "k")


def test_tars_at_a_url(tmp_path: Path, memory: Any) -> None:
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
