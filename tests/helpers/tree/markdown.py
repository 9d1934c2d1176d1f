"""Pages in Markdown: their blocks of code, headings and links, for tests of the documentation."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Block", "anchors", "blocks", "links", "prose"]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block of code between fences.

    Attributes:
        language: The word after the fence, such as "python" or "shell".
        code: The lines between the fences.
    """

    language: str
    code: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of code of a page, in their order."""
    return [Block(*found) for found in _FENCE.findall(text)]


def prose(text: str) -> str:
    """Return a page without its blocks and spans of code."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures, without those at other hosts."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)) if "://" not in link]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and Python-Markdown name them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading) for heading in words}
