"""The page on the architecture: what it names exists, and it names every folder."""

from __future__ import annotations

import pytest
from helpers.tree.architecture import ROOT, paths
from helpers.tree.import_graph import FOLDERS


def test_every_path_of_the_page_exists() -> None:
    assert len(paths()) > 60
    assert [path for path in paths() if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("folder", [*FOLDERS, "native", "tests"])
def test_every_folder_is_named(folder: str) -> None:
    named = {ROOT / path for path in paths()}
    files = [path for path in (ROOT / folder).glob("*/*") if path.is_file() and path.suffix != ".pyc"]
    assert files
    assert {path.parent for path in files} - named == set()
