"""Where samples come from: image folders, lists, COCO, Pascal VOC, YOLO, pairs of images and masks."""
