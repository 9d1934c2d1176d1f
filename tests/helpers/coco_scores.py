"""COCO's average precision by pycocotools, which must be installed."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

FIELDS = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}
"""The field of an annotation that each kind of evaluation compares."""


def average_precision(truth: dict[str, Any], found: list[dict[str, Any]], kind: str) -> float:
    """The score of predictions against the contents of a file of COCO's annotations."""
    reference = COCO()
    reference.dataset = copy.deepcopy(truth)
    names = ("image_id", "category_id", "score", FIELDS[kind])
    with contextlib.redirect_stdout(io.StringIO()):
        reference.createIndex()
        detected = reference.loadRes([{name: prediction[name] for name in names} for prediction in found])
        evaluation = COCOeval(reference, detected, kind)
        points = max(len(category.get("keypoints", ())) for category in truth["categories"])
        evaluation.params.kpt_oks_sigmas = np.full(points, 0.025)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])
