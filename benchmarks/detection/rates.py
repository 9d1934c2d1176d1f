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

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stoker.augment import CopyPaste, DetectionMixUp, Letterbox, Mosaic, load_recipe, recipe_names

from ..comparison.photographs import imagenet_like
from ..comparison.sources import open_source
from ..images.annotation_cost import make_annotated
from ..measuring import (
    Cost,
    Epoch,
    allowed_cores,
    costs_in_turns,
    loading,
    make_parser,
    show_costs,
    write_costs,
)
from ..peers.base import PeerSettings

_SIZE, _BATCH = 640, 16
_WITH_MASKS = ("ade20k-train", "coco-segmentation")  # recipes for images with masks of classes
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
    """Return the median costs of an image by load."""
    turns: dict[str, Callable[[], int]] = {}

    def add(name: str, dataset: Path, transforms: Any, columns: Sequence[str] = _COLUMNS) -> None:
        turns[name] = loading(dataset, transforms, _BATCH, columns=columns)

    for kind in ("", ", restart markers"):
        many = make_annotated(work / "made", work / f"many{kind}", 8 * copies, restarts=bool(kind))
        few = make_annotated(work / "made", work / f"few{kind}", copies, restarts=bool(kind))
        for name, transforms in _MOSAICS.items():
            add(f"{name}{kind}", many, transforms)
        for name, transforms in {} if mosaics_only else _COMBINED.items():
            add(f"{name}{kind}", few, transforms)
    plain = work / "few"
    if not mosaics_only:
        for name in recipe_names():
            columns = ("image", "segmentation") if name in _WITH_MASKS else ("image", "row")
            boxes = name.startswith(("coco", "yolo")) and name not in _WITH_MASKS
            add(f"recipe {name}", plain, load_recipe(name), _COLUMNS if boxes else columns)
    if find_spec("torchvision") and not mosaics_only:
        from ..peers.torchvision import IMAGE_PIPELINES, PIPELINES, make_batches, make_mask_batches

        source = open_source(plain, work, boxes=True)
        for name in (*PIPELINES, *_WITH_MASKS, *IMAGE_PIPELINES):
            make = make_batches if name in PIPELINES else make_mask_batches
            settings = PeerSettings(_BATCH, num_threads=len(allowed_cores()), recipe=name)
            turns[f"torchvision {name}"] = Epoch(make(source, settings))
    return costs_in_turns(turns, rounds)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "scratch", "json", rounds=5, copies=192)
    parser.add_argument("--mosaics", action="store_true", help="measure mosaics and the letterbox alone")
    args = parser.parse_args()
    with imagenet_like(args, "detection") as work:
        costs = measure(work, args.rounds, args.copies, mosaics_only=args.mosaics)
    show_costs(costs, "Detection and segmentation")
    for name, cost in costs.items():
        if peer := costs.get(name.replace("recipe", "torchvision")) if name.startswith("recipe") else None:
            print(
                f"{name}: {peer.cpu_seconds / cost.cpu_seconds:.1f} times torchvision's images a CPU second"
            )
    write_costs(args.json, costs)


if __name__ == "__main__":
    main()
