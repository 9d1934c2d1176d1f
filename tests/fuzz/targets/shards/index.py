"""Indexes whose manifest fits them: a sample of a damaged one is itself, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from helpers.annotations import write_annotated
from helpers.datasets import pack
from mutations import mutate, number

import stoker
from stoker.errors import SampleError, StokerError
from stoker.formats.dataset.index import Index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME
from stoker.formats.files import file_digest


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with the index of seven images with objects and masks; accepted if the dataset opens."""
    numbers = iter(range(9))
    folder = write_annotated(
        lambda payloads, **columns: pack(_new(scratch / f"{next(numbers)}"), payloads, columns)
    )
    path = folder / INDEX_NAME
    good = path.read_bytes()
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    payloads = [stoker.open(folder).read(i) for i in range(len(stoker.open(folder)))]

    def attack(rng: np.random.Generator) -> bool:
        path.unlink()  # the last file may still be mapped
        path.write_bytes(damaged(good, rng))
        entry = {"rows": len(payloads), "bytes": path.stat().st_size, "digest": file_digest(path)}
        columns = Index.open(path).types
        (folder / MANIFEST_NAME).write_text(json.dumps({**manifest, "index": entry, "columns": columns}))
        dataset = stoker.open(folder)
        read(dataset, payloads)
        stoker.verify(folder, num_threads=1)
        if rng.random() < 0.2:
            load(folder)
        return True

    return attack


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def damaged(good: bytes, rng: np.random.Generator) -> bytes:
    """Return an index with other numbers, most of them in its metadata at both ends, or any damage."""
    if rng.random() < 0.2:
        return mutate(good, rng)
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 4))):
        at = int(
            rng.choice([rng.integers(0, len(data)), rng.integers(0, 3000), len(data) - rng.integers(1, 3000)])
        )
        if rng.random() < 0.5:
            data[at] ^= 1 << int(rng.integers(0, 8))
        else:
            number(data, at & ~3, rng)
    return bytes(data)


def read(dataset: stoker.Dataset, payloads: list[bytes]) -> None:
    """Read everything; each failure must be an error of Stoker's."""
    for i, payload in enumerate(payloads):
        with suppress(SampleError, stoker.errors.DatasetError):
            assert dataset.read(i) == payload, f"sample {i} is another one"
    rows = np.arange(len(dataset))
    for name, kind in dataset.types.items():
        with suppress(StokerError):
            if kind.startswith("large_list"):
                dataset.lists(name, rows)
            elif kind == str(pa.large_string()):
                dataset.index.strings(name, rows)
            else:
                dataset.column(name)
    with suppress(StokerError):
        dataset.annotations(rows, frozenset({"keypoints", "polygons", "runs", "extra"}))
    with suppress(StokerError):
        dataset.samples(rows)


def load(folder: Path) -> None:
    """Load one batch of images, objects and masks; bad samples are left out."""
    columns: Any = ("image", "boxes", "masks", "segmentation", "keypoints", "key")
    transforms = [stoker.augment.Resize((9, 8))]
    with stoker.ImageLoader(
        folder,
        batch_size=7,
        columns=columns,
        transforms=transforms,
        num_threads=1,
        errors=stoker.BadSamples("skip", max_bad=7),
    ) as loader:
        next(iter(loader))
