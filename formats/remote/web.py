"""Folders of web servers, of which HTTP knows nothing: pages with links, and files of which each is asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from stoker.errors import StorageError

from ..concurrency.bounded_map import bounded_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["crawl", "look_up"]

_AT_ONCE = 32
_DEEPEST = 64
"""Folders in folders; a server that answers every address with the same page shows them without end."""


def crawl(list_links: Callable[[str], list[str]], root: str) -> list[str]:
    """Names of the files that the pages of a folder, and of folders in it, link to.

    Args:
        list_links: URLs that a page links to.
        root: URL of the folder.

    Raises:
        StorageError: If folders lie in each other without end.
    """
    found: dict[str, None] = {}
    folders = [""]
    while folders:
        folder = folders.pop()  # the newest first: what has no end is soon seen
        page = f"{root}/{folder}"
        if folder.count("/") > _DEEPEST:
            raise StorageError(
                f"more than {_DEEPEST} folders lie in each other",
                path=page,
                hint="see whether the server has one page for all addresses; or name the images in a list",
            )
        for link in list_links(page):
            name = folder + _within(page, link)
            if name != folder and name not in found:
                found[name] = None
                if name.endswith("/"):
                    folders.append(name)
    return [unquote(name) for name in found if not name.endswith("/")]


def _within(page: str, link: str) -> str:
    """Where a link leads to in its page's folder; empty where that is above, elsewhere, or a view of it."""
    parts = [part for part in link.removeprefix(page).split("/") if part != "."]
    leads_away = not link.startswith(page) or ".." in parts or "" in parts[:-1] or {"?", "#"} & set(link)
    return "" if leads_away else "/".join(parts)


def look_up(ask: Callable[[str], dict[str, Any] | None], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What a server says of each of some files, by name, without those that are not there.

    Args:
        ask: Of a name, what the server says; None where there is no such file.
        names: Of the files.
    """
    tasks = ((name, partial(ask, name)) for name in names)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="stoker-ask") as pool:
        answers = bounded_map(pool, tasks, 4 * _AT_ONCE)
        return {name: answer for name, answer in answers if answer is not None}
