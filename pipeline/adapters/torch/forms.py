"""Batches as detectors of PyTorch's libraries take them, made of a named tuple of columns."""

from __future__ import annotations

from typing import Any

import torch

_MASK = "mask"  # whatever form a padded batch has, it says which samples are repeated


def _torchvision_detection(batch: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """Images and targets as torchvision's detectors take them: corners in pixels, labels from 1."""
    # https://docs.pytorch.org/vision/stable/models/faster_rcnn.html; 0 is the background.
    names = {"boxes": "boxes", "masks": "masks", "keypoints": "keypoints", "area": "area", "crowd": "iscrowd"}
    targets = [
        {"labels": labels + 1, "image_id": int(batch.row[i])}
        | {new: batch[name][i] for name, new in names.items() if name in batch}
        for i, labels in enumerate(batch.box_labels)
    ]
    return list(batch.image), targets


def _detr(batch: Any) -> dict[str, Any]:
    """A dict as transformers' DETR models take it: centre boxes as shares of the image, labels from 0."""
    # https://huggingface.co/docs/transformers/model_doc/detr; an image that is padded fills its own part.
    height, width = batch.image.shape[-2:]
    sizes = batch["image_size"] if "image_size" in batch else torch.tensor([[height, width]] * len(batch.row))
    sizes = sizes.to(batch.image.device)
    pixels = torch.zeros(len(sizes), height, width, dtype=torch.int64, device=sizes.device)
    labels = []
    for i, (boxes, size) in enumerate(zip(batch.boxes, sizes, strict=True)):
        pixels[i, : size[0], : size[1]] = 1
        labels.append(
            {
                "class_labels": batch.box_labels[i],
                "boxes": _centres(boxes, size),
                "area": batch.area[i],
                "iscrowd": batch.crowd[i].to(torch.int64),
                "image_id": batch.row[i : i + 1],
                "size": size,
            }
        )
    made = {"pixel_values": batch.image, "pixel_mask": pixels, "labels": labels}
    return made | ({_MASK: batch[_MASK]} if _MASK in batch else {})


def _ultralytics(batch: Any) -> dict[str, Any]:
    """A dict as Ultralytics' trainers collate it: all boxes in one tensor, with the image of each."""
    # https://docs.ultralytics.com/reference/data/dataset, YOLODataset.collate_fn
    size = torch.tensor(batch.image.shape[-2:])
    counts = torch.tensor([len(one) for one in batch.boxes])
    shape = tuple(size.tolist())
    made = {
        "img": batch.image,
        "cls": torch.cat(list(batch.box_labels)).to(torch.float32)[:, None],
        "bboxes": _centres(torch.cat(list(batch.boxes)), size.to(batch.image.device)),
        "batch_idx": torch.arange(len(counts)).repeat_interleave(counts).to(torch.float32),
        "im_file": list(batch.key),
        "ori_shape": [tuple(one) for one in batch.source_size.tolist()],
        "resized_shape": [shape] * len(counts),
    }
    return made | ({_MASK: batch[_MASK]} if _MASK in batch else {})


def _centres(boxes: Any, size: Any) -> Any:
    """(M, 4) float32: centre, width and height as shares of an image of (height, width) ``size``."""
    scale = size.flip(0).repeat(2).to(boxes.dtype)
    left_top, right_bottom = boxes[:, :2], boxes[:, 2:]
    return torch.cat([(left_top + right_bottom) / 2, right_bottom - left_top], dim=1) / scale


FORMS = {"torchvision-detection": _torchvision_detection, "detr": _detr, "ultralytics": _ultralytics}
