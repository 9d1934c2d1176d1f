"""Roles of reStructuredText in docstrings, turned into Markdown for the site; mkdocstrings loads this module.

Docstrings say ``:class:`stoker.Mixture```, as Python's own do. Pages show the name as code, and as a link
where the reference has it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from griffe import Docstring, Extension

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
_DOCUMENTED = {
    name
    for page in (Path(__file__).parents[2] / "docs" / "reference").glob("*.md")
    for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
}


class Roles(Extension):  # type: ignore[misc]  # griffe is no dependency of the project's checks
    """Replaces roles in every docstring that is collected."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Replace the roles in the docstring of one object; an option has its help as docstring."""
        if obj.is_attribute and obj.docstring is None and str(obj.value).startswith("option("):
            default, text, *_ = ast.parse(str(obj.value), mode="eval").body.args  # type: ignore[attr-defined]
            obj.docstring = Docstring(_constant(text), parent=obj)
            obj.value = ast.unparse(default)
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(_markdown, obj.docstring.value)


def _constant(text: ast.expr) -> str:
    """The constant parts of a text, which may be an f-string."""
    return "".join(str(part.value) for part in ast.walk(text) if isinstance(part, ast.Constant))


def _markdown(role: re.Match[str]) -> str:
    name = role[1]
    return f"[`{name}`][{name}]" if name in _DOCUMENTED else f"`{name}`"
