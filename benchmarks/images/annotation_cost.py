"""The cost of annotations: the rate with boxes, keypoints and masks beside that of images alone.

    python -m stoker.benchmarks.images.annotation_cost [--source DIR | --dataset PATH] [--json FILE]

Photographs get synthetic objects with a box, keypoints and a polygon of a dozen vertices each, and a mask of
classes. All loads take turns in one run; figures are medians. The CPU time of a batch, of the process and of
the Python threads of the loader, depends less on other load of the machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table

import stoker
from stoker.augment import RandomHorizontalFlip, Resize, ToDtype
from stoker.benchmarks.comparison.photographs import photographs_in, replicate
from stoker.formats.dataset.manifest import MANIFEST_NAME

from ..measuring import Goal, allowed_cores, describe, make_parser, show_goals, write_json

_COPIES = 512
_OBJECTS = 7
_KEYPOINTS = 17
_VERTICES = 12
_WARM_UP = 4
_BOXES = ("boxes", "box_labels")
_LOADS: Mapping[str, tuple[str, ...]] = {
    "images only": (),
    "+ boxes": _BOXES,
    "+ keypoints": (*_BOXES, "keypoints"),
    "+ masks": (*_BOXES, "masks"),
    "+ segmentation": ("segmentation",),
}
_AIM = 0.95


@dataclass(frozen=True)
class Measured:
    """Figures of one load in one round."""

    images_per_second: float  # Rate of the loader
    process_ms: float  # CPU time of the process for a batch, milliseconds
    python_ms: float  # CPU time of the Python threads of the loader for a batch, milliseconds


def make_annotated(source: Path, target: Path, copies: int = _COPIES, *, restarts: bool = False) -> Path:
    """Return ``target``; make a dataset of annotated photographs there if it is missing."""
    if (target / MANIFEST_NAME).exists():
        return target
    scratch = target.with_name(f"{target.name}-source")
    shutil.rmtree(scratch, ignore_errors=True)
    replicate(source, scratch / "images", copies)
    rng = np.random.default_rng(0)
    document: dict[str, Any] = {"images": [], "annotations": [], "categories": _categories()}
    for number, path in enumerate(photographs_in(scratch / "images")):
        key = path.relative_to(scratch / "images")
        with Image.open(path) as image:
            width, height = image.size
        document["images"].append({"id": number, "file_name": str(key), "width": width, "height": height})
        objects = [_object(rng, width, height) for _ in range(rng.integers(1, 2 * _OBJECTS))]
        document["annotations"] += [
            {"id": len(document["annotations"]) + i, "image_id": number, **one}
            for i, one in enumerate(objects)
        ]
        _draw_mask(scratch / "masks" / key.with_suffix(".png"), (width, height), objects)
    (scratch / "objects.json").write_text(json.dumps(document))
    stoker.convert(
        scratch / "objects.json",
        target,
        seed=0,
        overwrite=True,
        source_options=stoker.SourceOptions(images=scratch / "images", masks=scratch / "masks"),
        storage=stoker.ImageStorage(restarts=restarts),
    )
    shutil.rmtree(scratch)
    return target


def _categories() -> list[dict[str, Any]]:
    names = [f"point {k}" for k in range(_KEYPOINTS)]
    return [{"id": 1, "name": "thing", "keypoints": names, "skeleton": []}]


def _object(rng: np.random.Generator, width: int, height: int) -> dict[str, Any]:
    """Return a random ellipse in an image as an object of COCO, without its numbers."""
    extent = rng.uniform(0.1, 0.5, 2) * (width, height)
    low = rng.uniform(0, (width, height) - extent)
    angle = np.linspace(0, 2 * np.pi, _VERTICES, endpoint=False)
    outline = low + extent * (1 + np.stack((np.cos(angle), np.sin(angle)), axis=1)) / 2
    points = np.column_stack((rng.uniform(low, low + extent, (_KEYPOINTS, 2)), np.full(_KEYPOINTS, 2)))
    return {
        "category_id": 1,
        "iscrowd": 0,
        "bbox": [*low.tolist(), *extent.tolist()],
        "area": float(extent.prod() * np.pi / 4),
        "segmentation": [outline.ravel().tolist()],
        "keypoints": points.ravel().tolist(),
        "num_keypoints": _KEYPOINTS,
    }


def _draw_mask(path: Path, size: tuple[int, int], objects: list[dict[str, Any]]) -> None:
    mask = Image.new("L", size)
    for number, one in enumerate(objects):
        ImageDraw.Draw(mask).polygon(one["segmentation"][0], fill=1 + number)
    path.parent.mkdir(parents=True, exist_ok=True)
    mask.save(path)


def _measure(dataset: Path, columns: tuple[str, ...], args: argparse.Namespace) -> Measured:
    transforms = [RandomHorizontalFlip(), Resize((args.size, args.size)), ToDtype("float32")]
    with stoker.ImageLoader(
        dataset,
        batch_size=args.batch_size,
        transforms=transforms,
        shuffle=True,
        columns=("image", *columns),
        num_threads=args.threads,
        engine="native",
    ) as loader:
        batches, done = _batches(loader), 0
        for _ in range(_WARM_UP):
            next(batches)
        began, used, busy = time.perf_counter(), time.process_time(), _python_seconds()
        while done < args.batches:
            next(batches)
            done += 1
        seconds, used = time.perf_counter() - began, time.process_time() - used
        busy = _python_seconds() - busy
    return Measured(done * args.batch_size / seconds, 1000 * used / done, 1000 * busy / done)


def _batches(loader: stoker.ImageLoader) -> Any:
    while True:
        yield from loader


def _python_seconds() -> float:
    """Return the CPU seconds so far of the threads on which loaders run Python."""
    idents = [
        thread.ident
        for thread in threading.enumerate()
        if thread.name.startswith("stoker-") and thread.ident is not None
    ]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(ident)) for ident in idents)


def _medians(rounds: list[dict[str, Measured]]) -> dict[str, Measured]:
    return {
        name: Measured(
            *(statistics.median(getattr(one[name], item.name) for one in rounds) for item in fields(Measured))
        )
        for name in _LOADS
    }


def _show(loads: Mapping[str, Measured], console: Console) -> None:
    table = Table("", "images/s", "share", "CPU ms per batch", "in Python")
    base = loads["images only"].images_per_second
    for name, one in loads.items():
        share = one.images_per_second / base
        rates = f"{one.images_per_second:.0f}", f"{share:.2f}"
        table.add_row(name, *rates, f"{one.process_ms:.2f}", f"{one.python_ms:.2f}")
    console.print(table)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "work", "json", rounds=7)
    parser.add_argument("--dataset", type=Path, help="dataset with objects and masks, instead of --source")
    parser.add_argument("--batches", type=int, default=30, help="timed batches of each load in a round")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=320, help="height and width of the output")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    dataset = args.dataset or make_annotated(args.source, args.work / "objects")
    rounds = [
        {name: _measure(dataset, columns, args) for name, columns in _LOADS.items()}
        for _ in range(args.rounds)
    ]
    loads, console = _medians(rounds), Console()
    _show(loads, console)
    share = loads["+ boxes"].images_per_second / loads["images only"].images_per_second
    show_goals([Goal("boxes: share of the rate of images alone", _AIM, share)], console)
    figures = {name: asdict(one) for name, one in loads.items()}
    write_json(args.json, {"machine": describe(allowed_cores()), "loads": figures})


if __name__ == "__main__":
    main()
