"""Fixtures of the tests of annotated sources."""

from pathlib import Path

import pytest
from helpers.data.annotations.coco_files import write_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images, beside which tests write their JSON."""
    write_images(tmp_path)
    return tmp_path
