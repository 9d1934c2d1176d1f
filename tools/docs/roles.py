"""Roles of reStructuredText in docstrings, turned into Markdown for the site; mkdocstrings loads this module.

Docstrings say ``:class:`stoker.Mixture```, as Python's own do. Pages show the name as code, and as a link
where the reference has it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from griffe import Extension

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
_DOCUMENTED = {
    name
    for page in (Path(__file__).parents[2] / "docs" / "reference").glob("*.md")
    for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
}


class Roles(Extension):  # type: ignore[misc]  # griffe is no dependency of the project's checks
    """Replaces roles in every docstring that is collected."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Replace the roles in the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(_markdown, obj.docstring.value)


def _markdown(role: re.Match[str]) -> str:
    name = role[1]
    return f"[`{name}`][{name}]" if name in _DOCUMENTED else f"`{name}`"
