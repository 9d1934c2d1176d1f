"""The rates of mosaics beside a letterbox, and of all recipes beside torchvision's pipelines.

    python -m stoker.benchmarks.detection.rates [--source DIR] [--rounds 5] [--mosaics] [--json FILE]

Photographs of ImageNet's size and quality get synthetic objects. Mosaics, MixUp and CopyPaste are made at 640
pixels in batches of 16, as uint8 and with boxes, of photographs as they are and with restart markers. Mosaics
have YOLO's default scale, 0.5 to 1.5, and shift, 0.1, and the buffer of 128 samples that Ultralytics has at
batch 16. A pass has many more photographs than the buffer, which may hold some of the pass before. Recipes
end in float32. All loads take turns in one tree of processes, each with as many threads or workers as cores.
Rates are images for each CPU second, because other programs may run on the machine. In detection
torchvision's images keep their sizes, and Stoker's recipes pad them to one size. Images come with boxes or
masks of classes where the recipe needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import stoker
from stoker.augment import (
    CopyPaste,
    DetectionMixUp,
    Letterbox,
    Mosaic,
    load_recipe,
    recipe_names,
)
from stoker.benchmarks.images.annotation_cost import make_annotated
from stoker.benchmarks.peers.base import PeerSettings

from ..comparison.photographs import imagenet_like
from ..comparison.sources import open_source
from ..measuring import (
    Cost,
    Goal,
    allowed_cores,
    costs_in_turns,
    describe,
    make_parser,
    show_goals,
    write_json,
)
from ..peers.torchvision import IMAGE_PIPELINES, MASK_PIPELINES, PIPELINES, make_batches, make_mask_batches

_SIZE, _BATCH = 640, 16
_LEAST = 0.7
_MOSAICS: Mapping[str, list[Any]] = {
    "letterbox": [Letterbox(_SIZE)],
    "mosaic": [Mosaic(_SIZE)],
    "mosaic of the whole epoch": [Mosaic(_SIZE, buffer=None)],
}
_COMBINED: Mapping[str, list[Any]] = {
    "mosaic and MixUp": [Mosaic(_SIZE), DetectionMixUp()],
    "letterbox and CopyPaste": [Letterbox(_SIZE), CopyPaste(1.0)],
}
_COLUMNS = ("image", "boxes", "box_labels")


def measure(work: Path, rounds: int, copies: int, *, mosaics_only: bool) -> dict[str, Cost]:
    """Return the median costs of an image by load, after an untimed turn of each."""
    threads = len(allowed_cores())
    turns: dict[str, Iterable[Any]] = {}
    for kind in ("", ", restart markers"):
        many = make_annotated(work / "made", work / f"many{kind}", 8 * copies, restarts=bool(kind))
        few = make_annotated(work / "made", work / f"few{kind}", copies, restarts=bool(kind))
        turns |= {f"{name}{kind}": _loader(many, one, threads) for name, one in _MOSAICS.items()}
        if not mosaics_only:
            turns |= {f"{name}{kind}": _loader(few, one, threads) for name, one in _COMBINED.items()}
    plain = work / "few"
    if not mosaics_only:
        for name in recipe_names():
            turns[f"recipe {name}"] = _loader(plain, load_recipe(name), threads, _columns(name))
    if find_spec("torchvision") and not mosaics_only:
        source = open_source(plain, work, boxes=True)
        for name in (*PIPELINES, *MASK_PIPELINES, *IMAGE_PIPELINES):
            make = make_batches if name in PIPELINES else make_mask_batches
            settings = PeerSettings(_BATCH, num_threads=threads, recipe=name)
            turns[f"torchvision {name}"] = make(source, settings)
    return costs_in_turns(turns, rounds)


def _columns(recipe: str) -> tuple[str, ...]:
    if recipe in MASK_PIPELINES:
        return ("image", "segmentation")
    return _COLUMNS if recipe.startswith(("coco", "yolo")) else ("image", "row")


def _loader(
    dataset: Path, transforms: Any, threads: int, columns: tuple[str, ...] = _COLUMNS
) -> stoker.ImageLoader:
    return stoker.ImageLoader(
        dataset,
        batch_size=_BATCH,
        transforms=transforms,
        shuffle=True,
        columns=columns,
        num_threads=threads,
        prefetch=2,
    )


def _show(costs: Mapping[str, Cost], console: Console) -> None:
    table = Table("load", "images a CPU second", "CPU ms an image", "over torchvision")
    compared = any(name.startswith("torchvision") for name in costs)
    for name, cost in costs.items():
        peer = costs.get(name.replace("recipe", "torchvision")) if name.startswith("recipe") else None
        factor = "it has none" if compared and name.startswith("recipe") else ""
        if peer:
            factor = f"{peer.cpu_seconds / cost.cpu_seconds:.1f}"
        table.add_row(name, f"{1 / cost.cpu_seconds:,.0f}", f"{1000 * cost.cpu_seconds:.2f}", factor)
    console.print(table)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "scratch", "json", rounds=5, copies=192)
    parser.add_argument("--mosaics", action="store_true", help="measure mosaics and the letterbox alone")
    args = parser.parse_args()
    with imagenet_like(args, "detection") as work:
        costs = measure(work, args.rounds, args.copies, mosaics_only=args.mosaics)
    console = Console()
    _show(costs, console)
    goals = [
        Goal(f"mosaic over letterbox{kind}, CPU seconds", _LEAST, _share(costs, kind))
        for kind in ("", ", restart markers")
    ]
    show_goals(goals, console)
    loads = {name: 1000 * cost.cpu_seconds for name, cost in costs.items()}
    write_json(args.json, {"machine": describe(allowed_cores()), "cpu_ms_per_image": loads})


def _share(costs: Mapping[str, Cost], kind: str) -> float:
    return costs[f"letterbox{kind}"].cpu_seconds / costs[f"mosaic{kind}"].cpu_seconds


if __name__ == "__main__":
    main()
