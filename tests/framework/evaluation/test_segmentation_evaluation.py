"""Masks of classes of every kind of folder, through every recipe and back, score a mean IoU of 1.000.

A recipe that crops shows a part of the source: only this part is scored. Where an image is shrunk, masks are
resampled, so that an edge between classes may move by a pixel of the output and half a pixel of the source.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import MASK_FOLDERS, VOID, MaskSource
from helpers.options import convert_options
from helpers.transforms import OF_ONE_SAMPLE

import stoker
from stoker.augment import Letterbox, RandomHorizontalFlip, Resize, load_recipe, masks_to_source

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

SHRINKING = ("coco-lsj", "shrunk")


def mean_iou(found: Any, truth: Any) -> float:
    """Mean over the classes of the truth; its pixels without a class do not count."""
    counts = truth != VOID
    shares = []
    for label in np.unique(truth[counts]):
        both = (found == label) & (truth == label)
        either = ((found == label) | (truth == label)) & counts
        shares.append(both.sum() / either.sum())
    return float(np.mean(shares))


def near_edges(truth: Any, distance: float) -> Any:
    """Whether another class, or none, lies within a distance of each pixel, (H, W)."""
    reach = int(np.ceil(distance))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(truth, reach, mode="edge"), (2 * reach + 1, 2 * reach + 1)
    )
    return windows.max(axis=(2, 3)) != windows.min(axis=(2, 3))


def round_trip(shards: Path, source: MaskSource, transforms: Any, epochs: int) -> tuple[float, set[int]]:
    """Mean IoU of the visible parts of all images in some epochs, and the classes that were visible.

    Wrong pixels lie within the bound of resampling from an edge.
    """
    columns = ("image", "row", "segmentation", "to_source", "source_size")
    options: dict[str, Any] = {"batch_size": 1, "layout": "NCHW", "seed": 3, "num_threads": 1}
    found, wanted = [], []
    with stoker.ImageLoader(shards, transforms=transforms, columns=columns, **options) as loader:
        for batch in itertools.chain.from_iterable(loader for _ in range(epochs)):
            matrix, size = batch.to_source[0], batch.source_size[0]
            truth, mask = source.truth(int(batch.row[0])), batch.segmentation[0]
            back = masks_to_source(mask, matrix, size, fill=VOID)
            seen = masks_to_source(np.ones_like(mask), matrix, size).astype(bool)
            bound = np.abs(matrix[[0, 1], [0, 1]]).max() + 0.5
            assert near_edges(truth, bound)[seen & (back != truth)].all()
            found.append(back[seen])
            wanted.append(truth[seen])
    labels, truth = np.concatenate(found), np.concatenate(wanted)
    return mean_iou(labels, truth), set(np.unique(truth).tolist())


@pytest.mark.parametrize("recipe", [*OF_ONE_SAMPLE, "letterbox", "shrunk"])
def test_masks_of_classes_score_one_through_every_recipe_and_back(tmp_path: Path, recipe: str) -> None:
    chains = {"letterbox": [Letterbox(320)], "shrunk": [Resize((30, 40)), RandomHorizontalFlip()]}
    needs_boxes = recipe in ("coco-ssd", "coco-ssdlite")
    source = MASK_FOLDERS["coco polygons" if needs_boxes else "voc SegmentationClass"](tmp_path / "source")
    stoker.convert(source.src, tmp_path / "shards", **convert_options(source.options))
    score, _ = round_trip(tmp_path / "shards", source, chains.get(recipe) or load_recipe(recipe), 4)
    if recipe in SHRINKING:
        assert 0.8 < score < 1
    else:
        assert f"{score:.3f}" == "1.000"


@pytest.mark.parametrize("kind", MASK_FOLDERS)
def test_masks_of_classes_of_every_kind_of_folder_score_one(kind: str, tmp_path: Path) -> None:
    """Through a recipe with crops."""
    source = MASK_FOLDERS[kind](tmp_path / "source")
    stoker.convert(source.src, tmp_path / "shards", **convert_options(source.options))
    score, seen = round_trip(tmp_path / "shards", source, load_recipe("ade20k-train"), 2)
    assert seen == {*source.classes, *([VOID] if source.has_void else [])}
    assert f"{score:.3f}" == "1.000"
