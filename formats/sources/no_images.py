"""The error for a source that has no image left, with the reasons."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stoker.errors import SourceError

from ..dataset.manifest import INDEX_NAME, MANIFEST_NAME

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from .listing import Skip

__all__ = ["no_images_error"]

# The next thing to do, by reason.
_REMEDIES = {
    "link": "links are not followed, as asked: leave out --no-follow-links (follow_links=False)",
    "path that leaves the source": "relative paths stay in the folder of the list: write absolute ones",
    "URL in a list on a disk": "a list of images at URLs must lie at a URL, too: "
    "put it there and convert its URL",
}
_DATASET = {MANIFEST_NAME, INDEX_NAME}


def no_images_error(
    message: str, path: str | os.PathLike[str], skipped: Iterable[Skip], hint: str | None = None
) -> SourceError:
    """The error, with the reasons for which files were left out and their numbers.

    Args:
        message: What is missing.
        path: The source.
        skipped: The files that were left out.
        hint: What to do, unless the reasons have better advice.
    """
    skipped = list(skipped)
    if {skip.key for skip in skipped} >= _DATASET:
        return SourceError(message, path=path, hint="it is a dataset already: look at it with stoker info")
    counts = Counter(skip.reason for skip in skipped)
    reasons = ", ".join(f"{count:,} x {reason}" for reason, count in counts.most_common())
    remedies = "; ".join(_REMEDIES[reason] for reason in _REMEDIES if counts[reason])
    return SourceError(
        f"{message}; left out: {reasons}" if reasons else message, path=path, hint=remedies or hint
    )
