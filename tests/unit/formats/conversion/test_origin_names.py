"""Columns of a source or a sample with the name of a column of origins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stoker
from stoker.errors import ConfigError


def test_a_list_with_a_column_of_origins_is_refused_only_if_images_are_resized(tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    (tmp_path / "list.csv").write_text("path,label,source_height\na.png,0,7\n")
    with pytest.raises(ConfigError, match="has a column 'source_height'"):
        stoker.convert(tmp_path / "list.csv", tmp_path / "out", resize="shorter=10")
    stoker.convert(tmp_path / "list.csv", tmp_path / "whole")  # no origins are kept
    assert stoker.open(tmp_path / "whole").column("source_height").tolist() == [7]


def test_a_writer_refuses_a_column_with_the_name_of_an_origin(tmp_path: Path) -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    with (
        pytest.raises(ConfigError, match="'source_scale_x' is a name that the index uses itself"),
        stoker.Writer(tmp_path / "written", resize="shorter=2") as writer,
    ):
        writer.write(image, source_scale_x=1.0)
