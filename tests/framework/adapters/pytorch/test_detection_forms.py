"""Batches in the forms that detectors take, beside the columns that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.annotations import load, write_annotated

from stoker.augment import Resize
from stoker.errors import ConfigError


@pytest.fixture
def annotated(pack_images: Callable[..., Path]) -> Path:
    return write_annotated(pack_images)


def both(folder: Path, form: str, **options: Any) -> tuple[Any, Any]:
    """The first batch in a form, and as columns."""
    options = {"output": "torch", "transforms": [Resize(24)], **options}
    names = ("image", "boxes", "box_labels", "row", "area", "crowd", "keypoints", "key", "source_size")
    shaped, plain = (load(folder, batch_as=one, columns=names, **options) for one in (form, None))
    return next(iter(shaped)), next(iter(plain))


def test_torchvision(annotated: Path) -> None:
    (images, targets), plain = both(annotated, "torchvision-detection", sizes="ragged")
    assert [image.shape for image in images] == [image.shape for image in plain.image]
    for i, target in enumerate(targets):
        assert torch.equal(target["labels"], plain.box_labels[i] + 1)
        assert torch.equal(target["boxes"], plain.boxes[i])
        assert torch.equal(target["keypoints"], plain.keypoints[i])
        assert (target["labels"].dtype, target["image_id"]) == (torch.int64, int(plain.row[i]))


def test_detr_as_the_processor_of_transformers_makes_it(annotated: Path) -> None:
    processor = pytest.importorskip("transformers").DetrImageProcessorPil
    batch, plain = both(annotated, "detr", sizes="padded", dtype="uint8")
    process = processor(do_resize=False, do_rescale=False, image_mean=[0] * 3, image_std=[1] * 3)
    for i, label in enumerate(batch["labels"]):
        height, width = plain.image_size[i].tolist()
        corners, area = plain.boxes[i].numpy(), plain.area[i].tolist()
        sides = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1).tolist()
        objects = zip(sides, plain.box_labels[i].tolist(), area, plain.crowd[i].tolist(), strict=True)
        annotation = {
            "image_id": int(plain.row[i]),
            "annotations": [
                {"bbox": box, "category_id": kind, "area": size, "iscrowd": int(crowd)}
                for box, kind, size, crowd in objects
                if not crowd  # the processor leaves them out
            ],
        }
        image = plain.image[i, :, :height, :width]
        made = process(
            images=[image.numpy()],
            annotations=[annotation],
            return_tensors="pt",
            input_data_format="channels_first",
        )
        kept = label["iscrowd"] == 0
        expected = made["labels"][0]
        assert torch.allclose(label["boxes"][kept], expected["boxes"], atol=1e-5)
        assert torch.equal(label["class_labels"][kept], expected["class_labels"])
        assert torch.equal(label["image_id"], expected["image_id"])
        assert torch.equal(batch["pixel_mask"][i, :height, :width], made["pixel_mask"][0])
        assert batch["pixel_mask"][i].sum() == height * width


def test_ultralytics(annotated: Path) -> None:
    batch, plain = both(annotated, "ultralytics", transforms=[Resize((24, 32))])
    counts = [len(boxes) for boxes in plain.boxes]
    assert batch["batch_idx"].tolist() == np.repeat(np.arange(len(counts)), counts).tolist()
    assert batch["cls"].ravel().tolist() == torch.cat(list(plain.box_labels)).tolist()
    x, y, width, height = (batch["bboxes"] * torch.tensor([32, 24, 32, 24])).unbind(1)
    corners = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], dim=1)
    assert torch.allclose(corners, torch.cat(list(plain.boxes)), atol=1e-4)
    assert (batch["im_file"], batch["resized_shape"][0]) == (plain.key, (24, 32))


def test_the_columns_that_a_form_needs_are_the_default(annotated: Path) -> None:
    with load(annotated, columns=None, batch_as="torchvision-detection", output="torch") as loader:
        assert loader.columns == ("image", "boxes", "box_labels", "row", "area", "crowd")
    with pytest.raises(ConfigError, match="needs the columns boxes"):
        load(annotated, columns=["image", "box_labels"], batch_as="detr", output="torch")
    with pytest.raises(ConfigError, match="needs output='torch'"):
        load(annotated, columns=None, batch_as="detr")
