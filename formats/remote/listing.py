"""Folders of web servers: their pages link to files, and each file takes a request for its size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from stoker.errors import StorageError

from ..threads import thread_map

_CONCURRENT = 32
_DEEPEST = 64  # levels of folders; a server with one page for all addresses has folders without end


def crawl(list_links: Callable[[str], list[str]], root: str) -> list[str]:
    """Return the names of the files that the pages of a folder, and of folders in it, link to."""
    # ``list_links`` returns the URLs that a page links to.
    names: dict[str, None] = {}
    folders = [""]
    while folders:
        folder = folders.pop()  # the newest first, so that endless nesting shows soon
        page = f"{root}/{folder}"
        if folder.count("/") > _DEEPEST:
            raise StorageError(
                f"folders are nested more than {_DEEPEST} levels deep",
                path=page,
                hint="Check whether the server has one page for all addresses, or name the images in a list.",
            )
        for link in list_links(page):
            name = folder + _within(page, link)
            if name != folder and name not in names:
                names[name] = None
                if name.endswith("/"):
                    folders.append(name)
    return [unquote(name) for name in names if not name.endswith("/")]


def _within(page: str, link: str) -> str:
    """Return the name of a link in its page's folder; empty for a link out of it, or to a view of it."""
    parts = [part for part in link.removeprefix(page).split("/") if part != "."]
    leads_away = not link.startswith(page) or ".." in parts or "" in parts[:-1] or {"?", "#"} & set(link)
    return "" if leads_away else "/".join(parts)


def look_up(ask: Callable[[str], dict[str, Any] | None], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the answers of ``ask`` about files, by name, without files that do not exist."""
    answers = thread_map(ask, names, "ask", _CONCURRENT, 4 * _CONCURRENT)
    return {name: answer for name, answer in answers if answer is not None}
