"""Certificates: equal for equal trainings, and different wherever trainings differ."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import PIL
import pytest
from typer.testing import CliRunner

import stoker
from stoker import ImageLoader, TextLoader, _native
from stoker.augment import CenterCrop, RandomHorizontalFlip
from stoker.errors import ConfigError
from stoker.formats.verification.sha256_tree import data_tree, merkle_root
from stoker.pipeline.commands.app import app
from stoker.pipeline.order.changes import certificate as certificates
from stoker.pipeline.order.changes.certificate import certificate_problems

TREE = "stoker.formats.verification.sha256_tree"
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
    assert certify(thumbnails, num_threads=1, prefetch=2) == base
    cases: list[tuple[Any, dict[str, Any], set[str]]] = [
        (thumbnails, {"seed": 1}, {"order"}),
        (thumbnails, {"excluded": [3]}, {"order"}),
        (thumbnails, {"transforms": [CenterCrop(8)]}, {"transforms"}),
        (thumbnails, {"rank": 0, "world_size": 2, "batch_size": 2}, {"world_size"}),
        (thumbnails, {"batch_size": 8}, {"batches"}),
        (thumbnails, {"exact": True}, {"batches"}),
        (thumbnails, {"on_error": "skip"}, {"batches"}),
        (thumbnails, {"last_batch": "drop"}, {"batches"}),
        (thumbnails, {"max_pixels": 1_000_000}, {"batches"}),
        (thumbnails, {"verify": False}, {"batches"}),
        (thumbnails, {"engine": "reference"}, {"engine"}),
        (stoker.open(thumbnails).select(range(60)), {}, {"order"}),
    ]
    for dataset, given, names in cases:
        other = certify(dataset, **given)
        assert differing(base, other) == names
        assert other["digest"] != base["digest"]


def test_a_text_certificate_has_the_tokens_of_a_step_on_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\nfour\n")
    stoker.convert_text(tmp_path / "lines.txt", tmp_path / "text", tokenizer="bytes")
    with TextLoader(tmp_path / "text", max_tokens=64, rank=0, world_size=2) as loader:
        found = loader.certificate()
    assert found["batches"] == {"global_batch": 128, "last_batch": "partial"}
    assert set(found["versions"]) == {"stoker", "numpy", "python"}


def test_a_certificate_names_the_decoders(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = certify(thumbnails)
    assert base["versions"]["pillow"] == PIL.__version__
    assert {base["versions"]["jpeg_decoder"]} <= {"stoker", "libjpeg-turbo"}
    assert base["versions"]["native_png"] == _native.LIBRARIES["PNG"]
    assert base["versions"]["native_jpeg"].startswith("libjpeg-turbo ")
    monkeypatch.setattr(PIL, "__version__", "99.0")
    assert differing(base, certify(thumbnails)) == {"versions"}
    monkeypatch.setitem(sys.modules, "nvidia.dali", SimpleNamespace(__version__="9.9"))
    assert certificates._versions("dali")["dali"] == "9.9"


def damage(folder: Path) -> None:
    """Change a byte of a shard, for which digests that were kept still count."""
    shard = stoker.open(folder).data_files[0]
    times = shard.stat()
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))


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
    first = {name: value for name, value in certificate.items() if name not in ("batches", "digest")}
    first["version"] = 1  # certificates of earlier releases are still read
    text = json.dumps(first, sort_keys=True, separators=(",", ":"))
    assert verify({**first, "digest": hashlib.sha256(text.encode()).hexdigest()})[0] == 0
    lacking = {name: value for name, value in certificate.items() if name != "engine"}
    with pytest.raises(ConfigError, match="it has the unknown entry 'colour'; it lacks the entry 'engine'"):
        certificate_problems({**lacking, "colour": 1}, stoker.open(copied))
    with pytest.raises(ConfigError, match="'version' must be one of 1, 2, found 3"):
        certificate_problems({**certificate, "version": 3}, stoker.open(copied))
    damage(copied)
    code, said = verify()
    assert code == 1
    assert "entry 'data': the data differs: its tree has the root" in said


def test_a_conversion_keeps_the_digests(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards", shards=2)
    read = data_tree(stoker.open(tmp_path / "shards"), anew=True)
    remote = stoker.open(f"file://{tmp_path}/shards", cache=tmp_path / "cache")
    assert data_tree(remote) == read
    damage(tmp_path / "shards")  # which shows that the file is not read again
    assert data_tree(stoker.open(tmp_path / "shards")) == read
    assert data_tree(stoker.open(tmp_path / "shards"), anew=True) != read
    with pytest.raises(ConfigError, match="not all here"):
        data_tree(remote, anew=True)


def test_without_kept_digests_they_are_computed_once(thumbnails: Path, tmp_path: Path) -> None:
    # It has no sha256.json, like datasets of earlier releases.
    dataset = stoker.open(shutil.copytree(thumbnails, tmp_path / "copied"))
    tree = data_tree(dataset)
    damage(dataset.path)
    assert data_tree(dataset) == tree
    assert data_tree(dataset, anew=True) != tree
    with pytest.raises(ConfigError, match=r"sha256\.json does not have the SHA-256 of each shard"):
        data_tree(stoker.open(f"file://{thumbnails}", cache=tmp_path / "cache"))


def test_verify_finds_a_file_that_has_another_sha256(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards")
    kept = json.loads((tmp_path / "shards" / "sha256.json").read_text())
    for entry in kept["files"].values():
        entry[1] = "00" * 32
    (tmp_path / "shards" / "sha256.json").write_text(json.dumps(kept))
    found = stoker.verify(tmp_path / "shards").problems
    assert ["its SHA-256 differs" in problem.message for problem in found] == [True, True]


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
