"""COCO's JSON as a source."""
