"""Annotated sources: COCO, Pascal VOC, YOLO, and pairs of images and masks."""
