"""The pages of the site that do not lie in docs/, and the links between all pages.

Pages outside docs/ stay in their folders of the repository, where their links work as well. On the site they
have an address, to which links lead. :mod:`hooks` gives all of this to MkDocs; tests need no MkDocs.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "added_pages", "addresses", "with_links_of_the_site"]

ROOT = Path(__file__).parents[2]

_COPIED = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "examples/photos/CREDITS.md": "credits.md",
}
_PROGRAMS = {
    "frameworks": "Frameworks",
    "images": "Images",
    "detection": "Detection, segmentation and poses",
    "text": "Text",
}
"""The heading of each folder of programs in examples/."""
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def addresses() -> dict[str, str]:
    """Return the address on the site of everything outside docs/ that a page may link to, by its path."""
    notebooks = {f"examples/notebooks/{path.name}": f"notebooks/{path.stem}.md" for path in _notebooks()}
    programs = {str(path.relative_to(ROOT)): f"examples.md#{path.stem}py" for path in _programs()}
    return {**_COPIED, "examples": "examples.md", **notebooks, **programs}


def added_pages() -> dict[str, str]:
    """Return the text of each page that does not lie in docs/, by its address on the site."""
    pages = {address: (ROOT / path).read_text("utf-8") for path, address in _COPIED.items()}
    notebooks = {f"notebooks/{path.stem}.md": _notebook_page(path) for path in _notebooks()}
    return {**pages, **notebooks, "examples.md": _examples_page()}


def with_links_of_the_site(markdown: str, address: str) -> str:
    """Return the page at an address with links to other pages of the site.

    Raises:
        ValueError: A link leads to a file that is not on the site.
    """
    source = next((path for path, other in addresses().items() if other == address), f"docs/{address}")
    code = [match.span() for match in _CODE.finditer(markdown)]

    def moved(match: re.Match[str]) -> str:
        if any(first <= match.start() < last for first, last in code):
            return match[0]
        return match[1] + _on_site(match[2], source, address) + match[3]

    return _LINK.sub(moved, markdown)


def _on_site(link: str, source: str, address: str) -> str:
    """Return a link of the file ``source`` as the page at ``address`` needs it."""
    path, mark, anchor = link.partition("#")
    if "://" in link or path.startswith("data:") or not path:
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    found = target.removeprefix("docs/") if target.startswith("docs/") else addresses().get(target)
    if found is None:
        raise ValueError(
            f"{source} links to {path}, which is not on the site. Name the path as code instead, or add the "
            "file to tools/docs/site_pages.py."
        )
    return posixpath.relpath(found, posixpath.dirname(address) or ".") + mark + anchor


def _notebooks() -> list[Path]:
    return sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def _programs() -> list[Path]:
    """Return the programs of the page of examples, folder by folder."""
    return [path for folder in _PROGRAMS for path in sorted((ROOT / "examples" / folder).glob("*.py"))]


def _notebook_page(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and what the code prints."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", [])]
    title, text = parts[0].split("\n", 1)
    note = f"This page is the notebook `{path.relative_to(ROOT)}`."
    return "\n\n".join([title, note, text.strip(), *parts[1:]])


def _output(output: dict[str, Any]) -> str:
    """Return what a cell of a notebook shows: a text, or an image within the page."""
    if "text" in output:
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    return f"![What the code shows](data:image/jpeg;base64,{output['data']['image/jpeg']})"


def _examples_page() -> str:
    """Return the page that shows the programs in examples/."""
    parts = ["# Examples", "Each program trains a network on photographs, texts or shapes in `examples/`."]
    folder = ""
    for path in _programs():
        if path.parent.name != folder:
            folder = path.parent.name
            parts.append(f"## {_PROGRAMS[folder]}")
        code = path.read_text("utf-8")
        first_line = (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0]
        parts += [f"### {path.name}", first_line, f"```python\n{code}```"]
    return "\n\n".join(parts)
