"""URLs: whether a path is one, and removal of credentials, which must not get into files or errors."""

from __future__ import annotations

import os
import re

_USER = re.compile(r"(\b[\w+.-]+://)[^/\s?#@'\"]*@")
_QUERY = re.compile(r"(\bhttps?://[^\s?#'\"]*)[?#][^\s'\"]*", re.IGNORECASE)


def is_url(path: object) -> bool:
    """Return whether a path is a URL such as ``s3://bucket/folder``."""
    return isinstance(path, (str, os.PathLike)) and "://" in str(os.fspath(path))


def split_query(url: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a URL of a web server before its query, such as a signature; other paths have none."""
    text = os.fspath(url)
    if not text.lower().startswith(("http://", "https://")):
        return text, ""
    base, mark, query = text.partition("?")
    return base, mark + query


def split_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a URL into that of its folder, which keeps the query, and the name of its file."""
    base, query = split_query(url)
    folder, _, name = base.rpartition("/")
    return folder + query, name


def join_url(folder: str, name: str) -> str:
    """The URL of a file in a folder, with the query of the folder."""
    base, query = split_query(folder)
    return f"{base.rstrip('/')}/{name}{query}"


def without_credentials(text: str) -> str:
    """Return a text whose URLs have neither user names and passwords nor, for web servers, queries."""
    # The whole query is removed, because each storage has another name for its signatures.
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))
