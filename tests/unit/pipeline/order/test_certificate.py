"""Certificates: equal for equal trainings, and different wherever trainings differ."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

import stoker
from stoker import ImageLoader
from stoker.augment import CenterCrop, RandomHorizontalFlip
from stoker.formats.verification.sha256_tree import data_tree, merkle_root
from stoker.pipeline.commands.app import app

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CROP = [CenterCrop(8), RandomHorizontalFlip()]


def certify(dataset: Any, excluded: Any = (), **given: Any) -> dict[str, Any]:
    with ImageLoader(dataset, **{"batch_size": 4, "transforms": CROP, "shuffle": True, **given}) as loader:
        if excluded:
            loader.exclude(excluded)
        found: dict[str, Any] = json.loads(json.dumps(loader.certificate()))
    return found


def differing(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    return {name for name in first if first[name] != second[name]} - {"digest"}


def test_certificates_differ_where_trainings_do(thumbnails: Path) -> None:
    base = certify(thumbnails)
    assert certify(thumbnails, batch_size=8, num_threads=1) == base
    cases: list[tuple[Any, dict[str, Any], set[str]]] = [
        (thumbnails, {"seed": 1}, {"order"}),
        (thumbnails, {"excluded": [3]}, {"order"}),
        (thumbnails, {"transforms": [CenterCrop(8)]}, {"transforms"}),
        (thumbnails, {"rank": 0, "world_size": 2}, {"world_size"}),
        (thumbnails, {"engine": "reference"}, {"engine"}),
        (stoker.open(thumbnails).select(range(60)), {}, {"order"}),
    ]
    for dataset, given, names in cases:
        other = certify(dataset, **given)
        assert differing(base, other) == names
        assert other["digest"] != base["digest"]


def test_verify_compares_the_bytes(thumbnails: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(thumbnails, tmp_path / "copied")
    certificate = certify(copied)
    assert certificate["data"] == certify(thumbnails)["data"], "paths do not count"

    def verify(changed: dict[str, Any] | None = None) -> tuple[int, str]:
        (tmp_path / "c.json").write_text(json.dumps(changed or certificate))
        done = CliRunner().invoke(app, ["verify", str(copied), "--certificate", str(tmp_path / "c.json")])
        return done.exit_code, done.output

    assert verify() == (0, "good: the training saw this data, byte for byte\n")
    assert "the certificate was changed" in verify({**certificate, "world_size": 2})[1]
    shard = stoker.open(copied).data_files[0]
    times = shard.stat()
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))  # what was kept still counts for this file
    code, said = verify()
    assert code == 1
    assert "the data differs: its tree has the root" in said


def test_digests_are_kept_until_a_file_changes(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = stoker.open(thumbnails)
    tree = data_tree(dataset, anew=True)
    monkeypatch.setattr("stoker.formats.verification.sha256_tree._file_sha256", lambda _: "00" * 32)
    assert data_tree(dataset) == tree
    assert data_tree(dataset, anew=True) != tree


def test_the_tree_is_that_of_rfc_6962() -> None:
    leaves = [bytes([i]) for i in range(3)]
    first, second, third = (hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves)
    pair = hashlib.sha256(b"\x01" + first + second).digest()
    assert merkle_root(leaves) == hashlib.sha256(b"\x01" + pair + third).hexdigest()
    assert merkle_root(leaves[:1]) == first.hex()


def test_images_in_place_count_by_their_bytes(photos: Path) -> None:
    before = data_tree(stoker.open(photos))
    file = next(photos.rglob("*.*"))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1  # inside the image, whose header stays
    assert before.leaves > 2
    times = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = data_tree(stoker.open(photos))
    assert (after.fingerprint, after.leaves) == (before.fingerprint, before.leaves)
    assert after.root != before.root
