"""URLs: whether a path is one, and removal of credentials, which must not get into files or errors."""

from __future__ import annotations

import os
import re

_USER = re.compile(r"(\b[\w+.-]+://)[^/\s?#@'\"]*@")
_QUERY = re.compile(r"(\bhttps?://[^\s?#'\"]*)[?#][^\s'\"]*", re.IGNORECASE)


def is_url(path: object) -> bool:
    """Return whether a path is a URL such as ``s3://bucket/folder``."""
    return isinstance(path, (str, os.PathLike)) and "://" in str(os.fspath(path))


def without_credentials(text: str) -> str:
    """Return a text whose URLs have neither user names and passwords nor, for web servers, queries."""
    # The whole query is removed, because each storage has another name for its signatures.
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))
