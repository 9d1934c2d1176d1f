"""Small models of torchvision's R-CNN family, which learn shapes on a CPU, for the examples of detection."""

from typing import Any

from shapes import POINTS
from torch import nn
from torchvision.models.detection import FasterRCNN, KeypointRCNN, MaskRCNN, keypoint_rcnn, mask_rcnn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead

CHANNELS, SIDE = 64, 128  # of the features; of the shorter side of an image, pixels


def small_rcnn(kind: str, classes: int) -> nn.Module:
    """Return a model of the kind faster, mask or keypoint, for images of ``SIDE`` pixels."""
    layers: list[nn.Module] = []
    for n, m, stride in ((3, 16, 2), (16, 32, 2), (32, CHANNELS, 2), (CHANNELS, CHANNELS, 1)):
        layers += [nn.Conv2d(n, m, 3, stride, 1), nn.BatchNorm2d(m), nn.ReLU()]
    backbone = nn.Sequential(*layers)
    backbone.out_channels = CHANNELS
    counts = {"rpn_pre_nms_top_n_train": 200, "rpn_post_nms_top_n_train": 50, "box_batch_size_per_image": 24}
    counts |= {"rpn_pre_nms_top_n_test": 100, "rpn_post_nms_top_n_test": 30, "box_detections_per_img": 10}
    anchors = AnchorGenerator(((20, 32, 48),), ((0.7, 1.0, 1.4),))
    heads: dict[str, Any] = {"box_head": TwoMLPHead(CHANNELS * 7**2, 128)}
    heads["box_predictor"] = FastRCNNPredictor(128, 1 + classes)
    if kind == "mask":
        heads["mask_head"] = mask_rcnn.MaskRCNNHeads(CHANNELS, (32, 32), 1)
        heads["mask_predictor"] = mask_rcnn.MaskRCNNPredictor(32, 32, 1 + classes)
    if kind == "keypoint":
        heads["keypoint_head"] = keypoint_rcnn.KeypointRCNNHeads(CHANNELS, (64, 64))
        heads["keypoint_predictor"] = keypoint_rcnn.KeypointRCNNPredictor(64, len(POINTS))
    model = {"faster": FasterRCNN, "mask": MaskRCNN, "keypoint": KeypointRCNN}[kind]
    sides = {"min_size": SIDE, "max_size": 2 * SIDE}
    return model(backbone, rpn_anchor_generator=anchors, **heads, **sides, **counts)
