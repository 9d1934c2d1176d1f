"""Roles of reStructuredText in docstrings, turned into Markdown for the site; mkdocstrings loads this module.

Docstrings say ``:class:`stoker.mix```, as Python's own do. Pages show the name as code.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")


class Roles(Extension):  # type: ignore[misc]  # griffe is no dependency of the project's checks
    """Replaces roles in every docstring that is collected."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Replace the roles in the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
