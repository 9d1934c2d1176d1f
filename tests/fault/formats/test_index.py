"""Stale, damaged or hostile indexes and manifests: each is refused with a hint, and none is executed."""

import json
import os
import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import stoker
from stoker.errors import DatasetError, StokerError
from stoker.formats.dataset.index import Index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME


@pytest.fixture
def folder(make_dataset: Callable[..., Path]) -> Path:
    return make_dataset()


def test_flipped_bits_of_an_index_are_found(folder: Path) -> None:
    path = folder / INDEX_NAME
    good = path.read_bytes()
    for bit in range(0, len(good) * 8, 29):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(DatasetError, match="digest differs") as caught:
            stoker.open(folder)
        assert "convert or index again" in str(caught.value)


def test_cuts_of_an_index_are_found(folder: Path) -> None:
    good = (folder / INDEX_NAME).read_bytes()
    for length in range(0, len(good), 11):
        (folder / INDEX_NAME).write_bytes(good[:length])
        with pytest.raises(DatasetError, match="bytes where the manifest says"):
            stoker.open(folder)
        with pytest.raises(DatasetError):
            Index.open(folder / INDEX_NAME)


class Bomb:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (os.fspath(self.path),)


def hostile(bomb: Bomb) -> list[bytes]:
    """Thirty payloads that harm a program which unpickles, evaluates or imports them."""
    pickles = [pickle.dumps(bomb, protocol) for protocol in range(6)]
    wrapped = [json.dumps({"version": 1, "shards": data.hex()}).encode() for data in pickles]
    call = f"__import__('os').mkdir({os.fspath(bomb.path)!r})"
    texts = [
        call,
        f'{{"version": {call}}}',
        json.dumps({"version": 1, "__class__": "os.mkdir", "args": [os.fspath(bomb.path)]}),
        json.dumps({"version": 1, "py/object": "os.mkdir", "py/args": [os.fspath(bomb.path)]}),
        json.dumps({"version": 1, "container": call}),
        json.dumps({"version": 1, "container": "../../os"}),
        f"!!python/object/apply:os.mkdir [{bomb.path}]",
        f"- !!python/name:os.mkdir {bomb.path}",
        "\0" * 100,
    ]
    cut = [data[: len(data) // 2] for data in pickles]
    long = [data + bytes(10_000) for data in pickles[3:]]
    return [*pickles, *wrapped, *cut, *long, *(text.encode() for text in texts)]


def test_nothing_on_disk_is_ever_unpickled(folder: Path, tmp_path: Path) -> None:
    payloads = hostile(Bomb(tmp_path / "bomb"))
    assert len(payloads) == 30
    manifest = (folder / MANIFEST_NAME).read_bytes()
    for payload in payloads:
        for name in (MANIFEST_NAME, INDEX_NAME):
            good = (folder / name).read_bytes()
            (folder / name).unlink()
            (folder / name).write_bytes(payload)
            with pytest.raises(DatasetError):
                stoker.open(folder)
            if name == INDEX_NAME:
                with pytest.raises(DatasetError):
                    Index.open(folder / name)
                assert not stoker.verify(folder).ok
            (folder / name).unlink()
            (folder / name).write_bytes(good)
    assert (folder / MANIFEST_NAME).read_bytes() == manifest
    assert stoker.verify(folder).ok
    assert not (tmp_path / "bomb").exists()
    pickle.loads(payloads[0])
    assert (tmp_path / "bomb").exists(), "the payloads are harmless"


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.interval", "arrow.json"])
def test_an_extension_type_in_an_index_is_not_unpickled(folder: Path, tmp_path: Path, name: str) -> None:
    """Old versions of pyarrow unpickled the metadata of such a column when they read it (CVE-2023-47248)."""
    batch = pa.ipc.open_file(folder / INDEX_NAME).get_batch(0)
    metadata = {
        "ARROW:extension:name": name,
        "ARROW:extension:metadata": pickle.dumps(Bomb(tmp_path / "bomb")),
    }
    fields = [field.with_metadata(metadata) for field in batch.schema]
    schema = pa.schema(fields, metadata=batch.schema.metadata)
    path = tmp_path / "hostile.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(batch.columns, schema=schema))
    with suppress(StokerError):
        Index.open(path).column("label")
    assert not (tmp_path / "bomb").exists()


def mutations(document: dict) -> list[tuple[str, dict]]:
    """Thirty manifests that are well formed and do not belong to the files beside them."""
    rng = random.Random(0)
    changed = []

    def change(name: str, edit: Callable[[dict], object]) -> None:
        copy = json.loads(json.dumps(document))
        edit(copy)
        changed.append((name, copy))

    for delta in (-1, 1, 4096, -4096):
        for shard in (0, 1):
            change(
                f"bytes of shard {shard} {delta:+}",
                lambda d, s=shard, b=delta: d["shards"][s].update(bytes=d["shards"][s]["bytes"] + b),
            )
        change(
            f"bytes of the index {delta:+}",
            lambda d, b=delta: d["index"].update(bytes=d["index"]["bytes"] + b),
        )
        change(f"rows {delta:+}", lambda d, b=delta: d["index"].update(rows=max(0, d["index"]["rows"] + b)))
    for _ in range(3):
        digest = f"crc32c:{rng.randrange(1 << 32):08x}"
        change("digest of the index", lambda d, x=digest: d["index"].update(digest=x))
    change("one shard fewer", lambda d: d["shards"].pop())
    change("the first shard missing", lambda d: d["shards"].pop(0))
    change("a shard more", lambda d: d["shards"].append({**d["shards"][0], "name": "more"}))
    change("shards renamed", lambda d: d["shards"][0].update(name="renamed"))
    change("a path elsewhere", lambda d: d["shards"][0].update(path="/nowhere/at/all"))
    change("another container", lambda d: d.update(container="lmdb"))
    change("a column fewer", lambda d: d["columns"].pop("label"))
    change("a column more", lambda d: d["columns"].update(mask="int64"))
    change("a column of another type", lambda d: d["columns"].update(label="int32"))
    change("columns in another order", lambda d: d.update(columns=dict(reversed(d["columns"].items()))))
    change("another version", lambda d: d.update(version=2))
    change("an unknown key", lambda d: d.update(shard_count=2))
    return changed


# The dataset opens, as all files exist; verify reports the mistake.
REPORTED = {"another container"}
# The order of columns has no meaning.
HARMLESS = {"columns in another order"}


def test_thirty_mutations_of_a_manifest_are_refused(folder: Path) -> None:
    path = folder / MANIFEST_NAME
    changed = mutations(json.loads(path.read_text()))
    assert len(changed) >= 30
    for name, document in changed:
        path.write_text(json.dumps(document))
        if name in HARMLESS | REPORTED:
            assert len(stoker.open(folder)) == 6
            assert stoker.verify(folder).ok == (name in HARMLESS), name
        else:
            with pytest.raises(DatasetError) as caught:
                stoker.open(folder)
            assert caught.value.path, name
