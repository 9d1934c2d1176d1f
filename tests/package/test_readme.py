"""The README: its commands read folders of a clone. `test_site.py` holds its links and its code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_commands_read_folders_of_a_clone() -> None:
    sources = re.findall(r"stoker convert (\w[\w./-]*)", README)
    assert sources
    assert [name for name in sources if not (ROOT / name).exists()] == []
