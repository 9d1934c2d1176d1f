"""Fixtures of the tests of engines."""

from __future__ import annotations

import pytest
from helpers.images import convert_marked

from stoker.formats.dataset.dataset import Dataset


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Dataset]:
    """The same images without and with restart markers."""
    return convert_marked(tmp_path_factory.mktemp("marked"))
