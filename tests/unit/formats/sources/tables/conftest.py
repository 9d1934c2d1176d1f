"""Fixtures of the tests of tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def pictures(encode_picture: Callable[..., bytes]) -> list[bytes]:
    """Seven pictures, JPEGs and PNGs in turn."""
    return [encode_picture(i, ("JPEG", "PNG")[i % 2]) for i in range(7)]
