"""Hooks that MkDocs calls when it builds the site: pages from outside docs/, links, and the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

from site_pages import ROOT, added_pages, with_links_of_the_site

_COMMANDS = "<!-- commands -->"
_LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(https?:[^"' >]+)""")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that do not lie in docs/."""
    for address, text in added_pages().items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page with links of the site, and with the commands where it asks for them."""
    try:
        markdown = with_links_of_the_site(markdown, page.file.src_uri)
    except ValueError as error:
        raise PluginError(str(error)) from error
    return markdown.replace(_COMMANDS, _commands()) if _COMMANDS in markdown else markdown


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Return a finished page; one that loads something from another host is an error."""
    if loaded := _LOADED.findall(output):
        raise PluginError(
            f"{page.file.src_uri} loads {loaded[0]}, and pages of the site load nothing from other hosts"
        )
    return output


def _commands() -> str:
    """Return the reference of the commands, which an interpreter with Stoker prints."""
    command = [os.environ.get("STOKER_PYTHON", sys.executable), str(ROOT / "tools" / "docs" / "cli_page.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - ours
    if done.returncode:
        hint = "STOKER_PYTHON names an interpreter with Stoker's dependencies."
        raise PluginError(f"{' '.join(command)} failed. {hint}\n{done.stderr}")
    return done.stdout
