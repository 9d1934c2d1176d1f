"""Pad with an axis: arrays of any rank, as GluonNLP's Pad takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.bucketing import Dict, Pad, Stack
from stoker.errors import ConfigError

FEATURES = [np.full((frames, 4), frames, np.float32) for frames in (3, 5, 1)]


def test_features_are_padded_along_their_frames() -> None:
    padded, lengths = Pad(axis=0, value=-1, ret_length=True, round_to=4)(FEATURES)
    assert padded.shape == (3, 8, 4)
    assert padded.dtype == np.float32
    assert lengths.tolist() == [3, 5, 1]
    for sample, row, length in zip(FEATURES, padded, lengths, strict=True):
        assert (row[:length] == sample).all()
        assert (row[length:] == -1).all()


@pytest.mark.parametrize("axis", [1, -2])
def test_any_axis_and_dtype(axis: int) -> None:
    images = [np.ones((3, width, 2), np.uint8) for width in (2, 6)]
    padded = Pad(axis=axis, dtype="int64")(images, 7)
    assert padded.shape == (2, 3, 7, 2)
    assert padded.dtype == np.int64
    assert padded.sum(axis=(1, 2, 3)).tolist() == [12, 36]


def test_arrays_and_labels_compose() -> None:
    batch = [{"features": sample, "label": i} for i, sample in enumerate(FEATURES)]
    made = Dict({"features": Pad(axis=0), "label": Stack("int64")})(batch, {"features": 6})
    assert made["features"].shape == (3, 6, 4)
    assert made["label"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("pad", "samples", "length", "message"),
    [
        ({"axis": 2}, FEATURES, None, "axis must be one of a sample"),
        ({"axis": 0}, [np.ones((2, 3)), np.ones((2, 4))], None, "differ along axis 0 alone"),
        ({"axis": 0}, [np.ones((2, 3)), np.ones(2)], None, "differ along axis 0 alone"),
        ({"axis": 0}, FEATURES, 4, "sample 1 has length 5"),
        ({"axis": 0}, [], None, "at least one sample"),
        ({"ret_length": True}, FEATURES, None, "ret_length needs an axis"),
        ({"axis": 0, "round_to": 8, "pad_to_multiple_of": 4}, FEATURES, None, "two names of one option"),
    ],
)
def test_what_cannot_be_padded_is_named(
    pad: dict[str, Any], samples: list[Any], length: int | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Pad(**pad)(samples, length)
