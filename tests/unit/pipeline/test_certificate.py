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
from helpers.loaders import image_arguments
from typer.testing import CliRunner

import stoker
from stoker import ImageLoader, MaxTokens, Ranks, TextLoader, _native
from stoker.augment import CenterCrop, RandomHorizontalFlip
from stoker.errors import ConfigError
from stoker.formats.sha256_tree import data_tree, merkle_root
from stoker.pipeline import certificate as certificates
from stoker.pipeline.certificate import certificate_problems
from stoker.pipeline.commands.app import app

CROP = [CenterCrop(8), RandomHorizontalFlip()]


def certify(dataset: Any, excluded: Any = (), **options: Any) -> dict[str, Any]:
    defaults = {"batch_size": 4, "transforms": CROP, "shuffle": True}
    with ImageLoader(dataset, **image_arguments(**{**defaults, **options})) as loader:
        if excluded:
            loader.exclude(excluded)
        certificate: dict[str, Any] = json.loads(json.dumps(loader.certificate()))
    return certificate


def differing(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    return {name for name in first if first[name] != second[name]} - {"digest"}


def test_certificates_differ_in_the_entries_of_what_differs(thumbnails: Path) -> None:
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
    for dataset, options, names in cases:
        other = certify(dataset, **options)
        assert differing(base, other) == names, options
        assert other["digest"] != base["digest"]


def test_a_text_certificate_has_the_tokens_of_a_step_on_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\nfour\n")
    stoker.convert_text(tmp_path / "lines.txt", tmp_path / "text", tokenizer="bytes")
    with TextLoader(tmp_path / "text", ranks=Ranks(0, 2), batch_size=MaxTokens(64)) as loader:
        certificate = loader.certificate()
    assert certificate["batches"] == {"global_batch": 128, "last_batch": "partial"}
    assert set(certificate["versions"]) == {"stoker", "numpy", "python"}


def test_a_certificate_names_the_decoders(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = certify(thumbnails)
    assert base["versions"]["pillow"] == PIL.__version__
    assert {base["versions"]["jpeg_decoder"]} <= {"stoker", "libjpeg-turbo"}
    assert base["versions"]["native_png"] == _native.LIBRARIES["PNG"]
    assert base["versions"]["native_jpeg"].startswith("libjpeg-turbo ")
    monkeypatch.setattr(PIL, "__version__", "99.0")
    assert differing(base, certify(thumbnails)) == {"versions"}
    # No loader of these tests has the engine dali, which need not be installed.
    monkeypatch.setitem(sys.modules, "nvidia.dali", SimpleNamespace(__version__="9.9"))
    assert certificates._versions("dali")["dali"] == "9.9"


def change_byte(file: Path, offset: int) -> None:
    """Change a byte of a file, but neither its size nor its times."""
    times = file.stat()
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def damage(folder: Path) -> None:
    """Change a byte of a shard, but neither its size nor its times, by which stored digests stay valid."""
    shard = stoker.open(folder).data_files[0]
    change_byte(shard, shard.stat().st_size // 2)


def verify(certificate: dict[str, Any], folder: Path, tmp_path: Path) -> tuple[int, str]:
    """Exit code and output of ``stoker verify --certificate``."""
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(certificate))
    done = CliRunner().invoke(app, ["verify", str(folder), "--certificate", str(file)])
    return done.exit_code, done.output


def test_verify_compares_the_bytes_of_a_dataset_with_a_certificate(thumbnails: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(thumbnails, tmp_path / "copied")
    certificate = certify(copied)
    assert certificate["data"] == certify(thumbnails)["data"], "paths do not count"
    good = (0, "good: the training saw this data, byte for byte\n")
    assert verify(certificate, copied, tmp_path) == good
    damage(copied)
    code, output = verify(certificate, copied, tmp_path)
    assert code == 1
    assert "entry 'data': the data differs: its tree has the root" in output


def test_verify_reads_certificates_of_earlier_releases_and_finds_changed_ones(
    thumbnails: Path, tmp_path: Path
) -> None:
    current = certify(thumbnails)
    changed = verify({**current, "world_size": 2}, thumbnails, tmp_path)
    assert "the certificate was changed" in changed[1]
    earlier = {name: value for name, value in current.items() if name not in ("batches", "digest")}
    earlier["version"] = 1
    text = json.dumps(earlier, sort_keys=True, separators=(",", ":"))
    earlier["digest"] = hashlib.sha256(text.encode()).hexdigest()
    assert verify(earlier, thumbnails, tmp_path)[0] == 0


def test_a_certificate_with_wrong_entries_is_refused(thumbnails: Path) -> None:
    certificate, dataset = certify(thumbnails), stoker.open(thumbnails)
    lacking = {name: value for name, value in certificate.items() if name != "engine"}
    with pytest.raises(ConfigError, match="it has the unknown entry 'colour'; it lacks the entry 'engine'"):
        certificate_problems({**lacking, "colour": 1}, dataset)
    with pytest.raises(ConfigError, match="'version' must be one of 1, 2, found 3"):
        certificate_problems({**certificate, "version": 3}, dataset)


def test_a_conversion_stores_the_digests_of_its_shards(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards", storage=stoker.ImageStorage(shards=2))
    read = data_tree(stoker.open(tmp_path / "shards"), again=True)
    remote = stoker.open(f"file://{tmp_path}/shards", cache=tmp_path / "cache")
    assert data_tree(remote) == read
    damage(tmp_path / "shards")  # which shows that the file is not read again
    assert data_tree(stoker.open(tmp_path / "shards")) == read
    assert data_tree(stoker.open(tmp_path / "shards"), again=True) != read
    with pytest.raises(ConfigError, match="not all here"):
        data_tree(remote, again=True)


def test_missing_digests_are_computed_once(thumbnails: Path, tmp_path: Path) -> None:
    # It has no sha256.json, like datasets of earlier releases.
    dataset = stoker.open(shutil.copytree(thumbnails, tmp_path / "copied"))
    tree = data_tree(dataset)
    damage(dataset.path)
    assert data_tree(dataset) == tree
    assert data_tree(dataset, again=True) != tree
    with pytest.raises(ConfigError, match=r"sha256\.json does not have the SHA-256 of each shard"):
        data_tree(stoker.open(f"file://{thumbnails}", cache=tmp_path / "cache"))


def test_verify_finds_a_file_that_has_another_sha256(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards")
    kept = json.loads((tmp_path / "shards" / "sha256.json").read_text())
    for entry in kept["files"].values():
        entry[1] = "00" * 32
    (tmp_path / "shards" / "sha256.json").write_text(json.dumps(kept))
    problems = stoker.verify(tmp_path / "shards").problems
    assert ["its SHA-256 differs" in problem.message for problem in problems] == [False, True, True]


def test_the_root_is_that_of_rfc_6962() -> None:
    leaves = [bytes([i]) for i in range(3)]
    first, second, third = (hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves)
    pair = hashlib.sha256(b"\x01" + first + second).digest()
    assert merkle_root(leaves) == hashlib.sha256(b"\x01" + pair + third).hexdigest()
    assert merkle_root(leaves[:1]) == first.hex()


def test_the_tree_of_images_in_place_covers_their_bytes(photos: Path) -> None:
    before = data_tree(stoker.open(photos))
    file = next(photos.rglob("*.*"))
    assert before.leaves > 2
    change_byte(file, -3)  # inside the image, whose header stays
    after = data_tree(stoker.open(photos))
    assert (after.fingerprint, after.leaves) == (before.fingerprint, before.leaves)
    assert after.root != before.root
