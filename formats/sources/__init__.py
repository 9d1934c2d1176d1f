"""Sources of images, one format a file: folders, lists, COCO, Pascal VOC, YOLO, masks, archives, tables.

:mod:`.registry` finds the format of a :class:`.source.Source` by the tests in :mod:`.detection`, and lists
it; the result is a :class:`.listing.Listing`. :mod:`.image_files` then reads one file after the other.
"""
