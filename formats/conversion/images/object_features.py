"""The features of objects in a tf.train.Example, as TensorFlow's object detection API names them.

The names are those of research/object_detection/dataset_tools/create_coco_tf_record.py in
tensorflow/models. There, coordinates are shares of the image's width and height, and labels count from 1,
because 0 is the background.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...containers.protobuf import Feature
from ...dataset.annotations import Annotations

_OBJECT = "image/object/"


def object_features(
    objects: Annotations, height: int, width: int, classes: Sequence[str], keypoints: Sequence[str]
) -> dict[str, Feature]:
    """Features of the objects of one image."""
    left, top, right, bottom = (objects.boxes / (width, height, width, height)).T.tolist()
    labels = objects.labels.tolist()
    features: dict[str, Feature] = {
        "bbox/xmin": left,
        "bbox/xmax": right,
        "bbox/ymin": top,
        "bbox/ymax": bottom,
        "class/label": [label + 1 for label in labels],
        "is_crowd": objects.crowd.astype(int).tolist(),
        "area": objects.area.tolist(),
    }
    if classes:
        features["class/text"] = [classes[label].encode() for label in labels]
    if objects.keypoints is not None:
        x, y, visibility = objects.keypoints.reshape(-1, 3).T
        features["keypoint/x"] = (x.astype(float) / width).tolist()
        features["keypoint/y"] = (y.astype(float) / height).tolist()
        features["keypoint/visibility"] = visibility.astype(int).tolist()
        features["keypoint/num"] = [len(points) for points in objects.keypoints]
        features["keypoint/text"] = [name.encode() for name in keypoints] * len(objects)
    return {_OBJECT + name: value for name, value in features.items()}
