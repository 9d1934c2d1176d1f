"""Annotated sources: COCO, Pascal VOC, YOLO, lists of boxes, and pairs of images and masks."""
