"""The README: its links lead to files of a clone, and its commands read folders of a clone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def missing(names: list[str]) -> list[str]:
    return [name for name in names if not (ROOT / name.partition("#")[0]).exists()]


def test_links_lead_to_files_of_a_clone() -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", README) if "://" not in link]
    assert len(links) > 15
    assert missing(links) == []


def test_commands_read_folders_of_a_clone() -> None:
    sources = re.findall(r"(?:stoker convert|--source) (\w[\w./-]*)", README)
    assert len(sources) == 2
    assert missing(sources) == []
