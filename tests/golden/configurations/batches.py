"""Batches beside their pixels: annotations, mixed labels, bad samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.loaders import image_arguments

import stoker
import stoker.augment as aug

from .datasets import damage
from .results import Near, Pixels
from .sources import Sandbox, picture, png

OPTIONS: dict[str, Any] = {"num_threads": 1, "rank": 0, "world_size": 1, "engine": "native"}
TOLERANCES = {"boxes": 1e-5, "area": 1e-5, "keypoints": 1e-5, "masks": 0.01, "segmentation": 0.01}
"""Tolerances of columns that move with images: an edge of a mask may fall into the next pixel."""
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
    options = {"batch_size": 5, "shuffle": True, "seed": 1, **OPTIONS, **options}
    with stoker.ImageLoader(
        dataset, **image_arguments(transforms=transforms, columns=names, **options)
    ) as loader:
        batches = list(loader)
        order = loader.columns
    results: dict[str, Any] = {}
    for name in order:
        values = [getattr(batch, name) for batch in batches]
        results[name] = Near((values,), TOLERANCES[name]) if name in TOLERANCES else values
    return results


def annotated(sandbox: Sandbox) -> dict[str, Any]:
    """Objects that move with their images, in every form."""
    results: dict[str, Any] = {}
    for name, transforms in MOVES.items():
        for form in ("ragged", "padded"):
            columns = columns_of(sandbox.coco, ("row", *OBJECT_COLUMNS), transforms, objects=form)
            results |= {f"{name}/{form}/{column}": value for column, value in columns.items()}
    for box_format in ("XYWH", "CXCYWH"):
        options = {"box_format": box_format, "min_visible": 0.4, "min_size": 5}
        columns = columns_of(sandbox.coco, ("row", "boxes", "box_labels"), MOVES["cropped"], **options)
        results |= {f"{box_format}/{column}": value for column, value in columns.items()}
    return results


def segmented(sandbox: Sandbox) -> dict[str, Any]:
    """Masks of classes that move with their images."""
    results: dict[str, Any] = {}
    for name, transforms in MOVES.items():
        if name != "iou":
            columns = columns_of(sandbox.pairs, ("row", "segmentation"), transforms)
            results |= {f"{name}/{column}": value for column, value in columns.items()}
    return results


def mixed(sandbox: Sandbox) -> dict[str, Any]:
    """MixUp, CutMix and a choice of the two, with labels and class masks."""
    results: dict[str, Any] = {}
    crop = [aug.RandomResizedCrop(32)]
    mixers = {
        "mixup": aug.MixUp(0.4),
        "cutmix": aug.CutMix(),
        "choice": aug.RandomChoice([aug.MixUp(), aug.CutMix()]),
    }
    for name, transform in mixers.items():
        for engine in ("native", "reference"):
            for dtype in ("uint8", "float16"):
                options = {"engine": engine, "dtype": dtype, "batch_size": 4}
                columns = columns_of(
                    sandbox.squares, ("image", "label", "row"), [*crop, transform], **options
                )
                images = np.concatenate(columns["image"])
                prefix = f"{name}/{engine}/{dtype}"
                results[f"{prefix}/image"] = Pixels(images, 1 if dtype == "uint8" else 255)
                results[f"{prefix}/label"] = Near((columns["label"],))
                results[f"{prefix}/row"] = columns["row"]
    columns = columns_of(sandbox.pairs, ("row", "segmentation"), [*crop, mixers["cutmix"]])
    return results | {f"cutmix/{column}": value for column, value in columns.items()}


def bad_samples(sandbox: Sandbox) -> dict[str, Any]:
    """Batches of a damaged dataset, whose bad samples are skipped or replaced, and the counts of these."""
    folder = sandbox.removed("sets/damaged")
    stoker.convert(sandbox.small_source, folder, storage=stoker.ImageStorage(shards=2))
    damage(folder, (3, 4, 20, 55, 56, 57, 58))
    results: dict[str, Any] = {}
    for engine in ("native", "reference"):
        for on_error in ("skip", "replace"):
            options = {**OPTIONS, "engine": engine, "on_error": on_error, "batch_size": 7, "max_bad": 1.0}
            options["shuffle"] = True
            names = ("row", "key", "label")
            with stoker.ImageLoader(
                folder, **image_arguments(transforms=[aug.CenterCrop(8)], columns=names, **options)
            ) as loader:
                batches = [[list(batch) for batch in loader] for _ in range(2)]
                stats = loader.stats()
            counts = [stats.samples, stats.batches, stats.skipped, stats.replaced, stats.bad_keys]
            results |= {f"{engine}/{on_error}": batches, f"{engine}/{on_error}/counts": counts}
    return results


def further_columns(sandbox: Sandbox) -> dict[str, Any]:
    """Columns of the index, several labels, and the forms of columns."""
    for i in range(5):
        sandbox.write(f"several/{i}.png", png(picture(i)))
    lines = [f"{i}.png,{'|'.join('abc'[: i % 4])},{i * 7}" for i in range(5)]
    path = sandbox.write("several/list.csv", "\n".join(["path,labels,weight", *lines]))
    folder = sandbox.removed("sets/several")
    stoker.convert(path, folder)
    results = columns_of(folder, ("label", "weight", "key", "row"), [aug.CenterCrop(8)])
    for name, dataset, names in (
        ("plain", sandbox.small, ("image", "label", "row")),
        ("several", folder, ("label", "weight")),
        ("objects", sandbox.coco, ("image", *OBJECT_COLUMNS)),
        ("masks", sandbox.pairs, ("image", "segmentation")),
    ):
        with stoker.ImageLoader(
            dataset, **image_arguments(batch_size=2, transforms=[aug.CenterCrop(8)], columns=names, **OPTIONS)
        ) as loader:
            results[f"spec/{name}"] = loader.element_spec()
    return results


CONFIGURATIONS = (annotated, segmented, mixed, bad_samples, further_columns)
