"""Datasets of external shards, damaged datasets, and selections."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import stoker
from stoker.__main__ import main

from .conversions import content, files, prefixed
from .results import Local
from .sources import Sandbox


def run(*arguments: Any) -> str:
    """Runs the command line and returns what it prints."""
    printed = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["stoker", *map(str, arguments)]),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        main()
    return printed.getvalue()


def indexed(sandbox: Sandbox) -> dict[str, Any]:
    """Indexes of external shards, which are shards of a conversion without their index."""
    for kind in ("tfrecord", "lmdb"):
        folder = sandbox.removed(f"foreign/{kind}")
        stoker.convert(
            sandbox.mixed_source, folder, container=kind, seed=8, storage=stoker.ImageStorage(shards=2)
        )
        for name in ("index.arrow", "dataset.json", "skipped.jsonl"):
            (folder / name).unlink()
    shards = sorted(sandbox.root.glob("foreign/tfrecord/*.tfrecord"))
    results: dict[str, Any] = {}
    for name, arguments in (
        ("from-tfrecord", shards),
        ("from-tfrecord-named", [*shards, "--classes", "a,b,c,d,e,f,g,h,i", "--text", "none"]),
        ("from-lmdb", [*sorted(sandbox.root.glob("foreign/lmdb/*.lmdb")), "--classes", "a,b,c,d,e,f,g,h,i"]),
    ):
        folder = sandbox.removed(f"indexed/{name}")
        run("index", *arguments, "--into", folder)
        results |= {**files(sandbox, folder), **prefixed(name, content(folder))}
    return results


def verified(sandbox: Sandbox) -> dict[str, Any]:
    """Reports of an intact and of damaged datasets, and what ``info`` says in JSON."""
    results: dict[str, Any] = {}
    for name, damages in (("intact", ()), ("damaged", (2, 5))):
        for kind in ("tfrecord", "lmdb"):
            folder = sandbox.removed(f"verified/{name}-{kind}")
            stoker.convert(
                sandbox.mixed_source, folder, container=kind, storage=stoker.ImageStorage(shards=2)
            )
            damage(folder, damages)
            report = stoker.verify(folder, decode=True, num_threads=1)
            problems = [(problem.shard, problem.record, problem.key) for problem in report.problems]
            results[f"{name}/{kind}"] = [report.samples, report.bytes, report.found, problems]
            info = json.loads(run("info", "--json", folder).replace(str(sandbox.root), "<root>"))
            results[f"{name}/{kind}/info"] = Local(info)
    return results


def damage(folder: Path, rows: Any) -> None:
    """Changes a byte of the payloads of some rows."""
    dataset = stoker.open(folder)
    shards = json.loads((folder / "dataset.json").read_text())["shards"]
    for row in rows:
        path = folder / shards[dataset.column("shard")[row]]["name"]
        with (path / "data.mdb" if path.is_dir() else path).open("r+b") as file:
            file.seek(int(dataset.column("offset")[row] + dataset.column("length")[row] // 2))
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 255]))


def selections(sandbox: Sandbox) -> dict[str, Any]:
    """Selections from a dataset, and random splits of it."""
    dataset = stoker.open(sandbox.small)
    conditions = ("label == 2", "width >= 8 and label in (0, 2)", 'key.startswith("bee") or label < 1')
    results: dict[str, Any] = {condition: dataset.select(condition).rows for condition in conditions}
    results["mask"] = dataset.select(dataset.labels == 1).select([3, 1, 1]).rows
    for seed in (0, 9):
        results[f"split/{seed}"] = [part.rows for part in dataset.split(0.3, seed=seed, stratified=False)]
        results[f"split of classes/{seed}"] = [part.rows for part in dataset.split(0.3, seed=seed)]
    chosen = dataset.select([5, 3, 3, 40])
    results["fingerprint"] = Local([dataset.fingerprint, chosen.fingerprint])
    return {**results, "chosen": [chosen.keys([0, 1, 3]), chosen.labels]}


CONFIGURATIONS = (indexed, verified, selections)
