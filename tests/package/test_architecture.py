"""The pages of the architecture and of common changes: their paths exist. So do names in comments of C++."""

from __future__ import annotations

import pkgutil
import re

import pytest
from helpers.tree import FOLDERS, ROOT, paths


def test_every_path_of_the_pages_exists() -> None:
    assert len(paths()) > 60
    assert [path for path in paths() if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("folder", [*FOLDERS, "native", "tests"])
def test_the_page_names_every_folder(folder: str) -> None:
    named = {ROOT / path for path in paths()}
    files = [path for path in (ROOT / folder).glob("*/*") if path.is_file() and path.suffix != ".pyc"]
    assert files or folder == "bucketing"  # its modules are in no further folder
    assert {path.parent for path in files} - named == set()


def test_comments_of_cpp_name_python_objects_that_exist() -> None:
    files = [path for suffix in ("h", "cpp") for path in (ROOT / "native").rglob(f"*.{suffix}")]
    comments = "".join(line for path in files for line in path.read_text().splitlines() if "//" in line)
    named = {name.rstrip(".") for name in re.findall(r"stoker(?:\.\w+)+", comments)}
    assert len(named) > 10
    for name in named:
        pkgutil.resolve_name(name)
