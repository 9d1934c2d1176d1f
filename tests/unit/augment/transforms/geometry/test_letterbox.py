"""Letterbox has the geometry of Ultralytics' LetterBox, and pads with one colour."""

import numpy as np
import pytest

from stoker.augment import CenterCrop, Letterbox, Pad, Resize, compile_image
from stoker.augment.geometry import transform_boxes
from stoker.errors import ConfigError


def ultralytics(height, width, size, enlarge, center):
    """LetterBox.__call__ of ultralytics 8.3, data/augment.py: the new size, and the padding before it."""
    r = min(size[0] / height, size[1] / width)
    if not enlarge:
        r = min(r, 1.0)
    new_width, new_height = round(width * r), round(height * r)
    dw, dh = size[1] - new_width, size[0] - new_height
    top, left = (round(dh / 2 - 0.1), round(dw / 2 - 0.1)) if center else (0, 0)
    return new_height, new_width, top, left


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("enlarge", [True, False])
def test_the_geometry_is_that_of_ultralytics(enlarge, center):
    heights, widths = (a.reshape(-1) for a in np.meshgrid([7, 63, 480, 641], [9, 64, 333, 1280]))
    plan = compile_image([Letterbox((64, 96), enlarge=enlarge, center=center)])
    params = plan.draw(heights, widths, np.arange(len(heights)), 0, 0)
    whole = np.stack([heights * 0, heights * 0, widths, heights], axis=1)
    boxes, _ = transform_boxes(params, whole, np.arange(len(heights)))
    for box, height, width in zip(boxes, heights, widths, strict=True):
        new_height, new_width, top, left = ultralytics(height, width, (64, 96), enlarge, center)
        # A side of less than half a pixel becomes one pixel here.
        new_height, new_width = max(new_height, 1), max(new_width, 1)
        np.testing.assert_allclose(box, [left, top, left + new_width, top + new_height], atol=1e-9)


def test_all_padding_has_one_fill():
    assert compile_image([Letterbox(32)]).draw(*_one(10, 20)).fill.tolist() == [114] * 3
    assert compile_image([CenterCrop(32, fill=(1, 2, 3))]).draw(*_one(10, 20)).fill.tolist() == [1, 2, 3]
    assert CenterCrop(32).to_dict() == {"name": "CenterCrop", "size": [32, 32]}  # as in older states
    with pytest.raises(ConfigError, match="Use one fill in a list of transforms"):
        compile_image([Pad(3, fill=7), Letterbox(32)]).draw(*_one(10, 20))


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 8, "fill": 300}, {"size": 8, "enlarge": 1}])
def test_a_bad_argument_is_refused(wrong):
    with pytest.raises(ConfigError, match="Letterbox"):
        Letterbox(**wrong)


def test_a_resize_with_max_size_and_a_crop_have_the_geometry_of_a_letterbox():
    lists = [Resize(64, max_size=64), CenterCrop(64)], [Letterbox(64)]
    resized, letterboxed = (compile_image(transforms).draw(*_one(100, 50)) for transforms in lists)
    assert resized.dest.tolist() == letterboxed.dest.tolist()


def _one(height, width):
    return np.array([height]), np.array([width]), np.arange(1), 0, 0
