"""Sources of images: folders of classes, lists, COCO, Pascal VOC, YOLO, pairs of images and masks.

:mod:`.detect` finds the format of a source in :mod:`.registry` and lists the source; the result is a
:class:`.listing.Listing`. :mod:`.source_reader` then reads one file after the other.
"""
