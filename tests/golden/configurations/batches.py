"""Batches beside their pixels: annotations, mixed labels, bad samples."""

from __future__ import annotations

from typing import Any

import numpy as np

import stoker
import stoker.augment as aug

from .datasets import damage
from .results import Near, Pixels
from .sources import Sandbox, picture, png

OPTIONS: dict[str, Any] = {"num_threads": 1, "rank": 0, "world_size": 1, "engine": "native"}
TOLERANCES = {"boxes": 1e-5, "area": 1e-5, "keypoints": 1e-5, "masks": 0.01, "segmentation": 0.01}
"""Of what is moved: an edge of a mask may fall into the next pixel."""
OBJECT_COLUMNS = ("boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "masks")

MOVES: dict[str, list[Any]] = {
    "resized": [aug.Resize((30, 40))],
    "cropped": [aug.RandomResizedCrop(32), aug.RandomHorizontalFlip(1)],
    "turned": [aug.Resize((40, 40)), aug.RandomRotation(40), aug.RandomVerticalFlip()],
    "perspective": [aug.Resize((40, 40)), aug.RandomPerspective(p=1)],
    "iou": [aug.RandomZoomOut(side_range=(1, 2)), aug.RandomIoUCrop(), aug.Resize((40, 40))],
    "border": [aug.Resize((30, 40)), aug.RandomCrop(40, padding=5, padding_mode="reflect")],
    "policy": [aug.Resize((40, 40)), aug.RandAugment(2, 9)],
}


def columns_of(dataset: Any, names: tuple[str, ...], transforms: list[Any], **options: Any) -> dict[str, Any]:
    """Returns the columns of all batches of an epoch, coordinates within a tolerance."""
    given = {"batch_size": 5, "shuffle": True, "seed": 1, **OPTIONS, **options}
    with stoker.ImageLoader(dataset, transforms=transforms, columns=names, **given) as made:
        batches = list(made)
        order = made.columns
    found: dict[str, Any] = {}
    for name in order:
        values = [getattr(batch, name) for batch in batches]
        found[name] = Near((values,), TOLERANCES[name]) if name in TOLERANCES else values
    return found


def annotated(sandbox: Sandbox) -> dict[str, Any]:
    """Objects that move with their images, in every form."""
    found: dict[str, Any] = {}
    for name, transforms in MOVES.items():
        for form in ("ragged", "padded"):
            columns = columns_of(sandbox.coco, ("row", *OBJECT_COLUMNS), transforms, objects=form)
            found |= {f"{name}/{form}/{column}": value for column, value in columns.items()}
    for box_format in ("XYWH", "CXCYWH"):
        given = {"box_format": box_format, "min_visible": 0.4, "min_size": 5}
        columns = columns_of(sandbox.coco, ("row", "boxes", "box_labels"), MOVES["cropped"], **given)
        found |= {f"{box_format}/{column}": value for column, value in columns.items()}
    return found


def segmented(sandbox: Sandbox) -> dict[str, Any]:
    """Masks of classes that move with their images."""
    found: dict[str, Any] = {}
    for name, transforms in MOVES.items():
        if name != "iou":
            columns = columns_of(sandbox.pairs, ("row", "segmentation"), transforms)
            found |= {f"{name}/{column}": value for column, value in columns.items()}
    return found


def mixed(sandbox: Sandbox) -> dict[str, Any]:
    """MixUp, CutMix and Mosaic, one of them drawn, with labels and all that they carry along."""
    found: dict[str, Any] = {}
    crop = [aug.RandomResizedCrop(32)]
    made = {
        "mixup": aug.MixUp(0.4),
        "cutmix": aug.CutMix(),
        "mosaic": aug.Mosaic(),
        "choice": aug.RandomChoice([aug.MixUp(), aug.CutMix()]),
    }
    for name, transform in made.items():
        for engine in ("native", "reference"):
            for dtype in ("uint8", "float16"):
                given = {"engine": engine, "dtype": dtype, "batch_size": 4}
                columns = columns_of(sandbox.squares, ("image", "label", "row"), [*crop, transform], **given)
                images = np.concatenate(columns["image"])
                where = f"{name}/{engine}/{dtype}"
                found[f"{where}/image"] = Pixels(images, 1 if dtype == "uint8" else 255)
                found[f"{where}/label"] = Near((columns["label"],))
                found[f"{where}/row"] = columns["row"]
    columns = columns_of(
        sandbox.coco, ("row", "boxes", "box_labels", "keypoints", "masks"), [*crop, made["mosaic"]]
    )
    found |= {f"mosaic/objects/{column}": value for column, value in columns.items()}
    for name in ("mosaic", "cutmix"):
        columns = columns_of(sandbox.pairs, ("row", "segmentation"), [*crop, made[name]])
        found |= {f"{name}/{column}": value for column, value in columns.items()}
    return found


def bad_samples(sandbox: Sandbox) -> dict[str, Any]:
    """What is left out or replaced of a damaged dataset, and counted."""
    folder = sandbox.remade("sets/damaged")
    stoker.convert(sandbox.small_source, folder, shards=2)
    damage(folder, (3, 4, 20, 55, 56, 57, 58))
    found: dict[str, Any] = {}
    for engine in ("native", "reference"):
        for on_error in ("skip", "replace"):
            given = {**OPTIONS, "engine": engine, "on_error": on_error, "batch_size": 7, "max_bad": 1.0}
            given["shuffle"] = True
            names = ("row", "key", "label")
            with stoker.ImageLoader(folder, transforms=[aug.CenterCrop(8)], columns=names, **given) as made:
                batches = [[list(batch) for batch in made] for _ in range(2)]
                stats = made.stats()
            counts = [stats.samples, stats.batches, stats.skipped, stats.replaced, stats.bad_keys]
            found |= {f"{engine}/{on_error}": batches, f"{engine}/{on_error}/counts": counts}
    return found


def further_columns(sandbox: Sandbox) -> dict[str, Any]:
    """Columns of the index, several labels, and the forms of columns."""
    for i in range(5):
        sandbox.write(f"several/{i}.png", png(picture(i)))
    lines = [f"{i}.png,{'|'.join('abc'[: i % 4])},{i * 7}" for i in range(5)]
    path = sandbox.write("several/list.csv", "\n".join(["path,labels,weight", *lines]))
    folder = sandbox.remade("sets/several")
    stoker.convert(path, folder)
    found = columns_of(folder, ("label", "weight", "key", "row"), [aug.CenterCrop(8)])
    for name, dataset, names in (
        ("plain", sandbox.small, ("image", "label", "row")),
        ("several", folder, ("label", "weight")),
        ("objects", sandbox.coco, ("image", *OBJECT_COLUMNS)),
        ("masks", sandbox.pairs, ("image", "segmentation")),
    ):
        with stoker.ImageLoader(
            dataset, batch_size=2, transforms=[aug.CenterCrop(8)], columns=names, **OPTIONS
        ) as made:
            found[f"spec/{name}"] = made.element_spec()
    return found


CONFIGURATIONS = (annotated, segmented, mixed, bad_samples, further_columns)
