"""The tables of docs/architecture.md, and the paths that this page and docs/common-changes.md name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]


@cache
def page() -> str:
    """Returns the text of both pages."""
    return "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("architecture", "common-changes"))


def parts(folder: str) -> list[list[str]]:
    """Returns the parts of a folder, as full names of modules, for each row of its table."""
    (table,) = re.findall(rf"### {folder}\n\n((?:\|.*\n)+)", page())
    rows = [re.findall(r"`([\w./]+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    names = [[path.rstrip("/").removesuffix(".py").replace("/", ".") for path in row] for row in rows]
    return [[f"stoker.{name}" for name in row] for row in names]


def paths() -> list[str]:
    """Returns the paths that the pages name, in backquotes and in links."""
    links = re.findall(r"\]\(([\w./-]+)\)", page())
    return re.findall(r"`([\w.-]+/[\w./-]*)`", page()) + [f"docs/{link}" for link in links]
