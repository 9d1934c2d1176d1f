"""Fixtures of the tests of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def pictures(encode_picture: Callable[..., bytes]) -> list[bytes]:
    """Seven pictures, JPEGs and PNGs in turn."""
    return [encode_picture(i, ("JPEG", "PNG")[i % 2]) for i in range(7)]
