"""The error about a source without images, and the reasons why files were left out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from stoker.errors import SourceError

from ..containers.registry import is_local_shard
from ..dataset.manifest import INDEX_NAME, MANIFEST_NAME
from .listing import Skip

# The next thing to do, by reason.
_REMEDIES = {
    "link": "links are not followed, as asked: leave out --no-follow-links (follow_links=False)",
    "path that leaves the source": "relative paths stay in the folder of the list: write absolute ones",
    "URL in a list on a disk": "a list of images at URLs must lie at a URL, too: "
    "put it there and convert its URL",
}
INDEX_SHARDS = (
    "stoker index makes a dataset of the shards of another program: stoker index SHARDS --into DATASET"
)
"""The hint for a source of shards in place of images."""
_NAMED = 3  # files
_DATASET = {MANIFEST_NAME, INDEX_NAME}


def no_images_error(
    message: str, path: str | os.PathLike[str], skipped: Iterable[Skip], hint: str | None = None
) -> SourceError:
    """The error about a source without images, with the reasons why files were left out and their numbers."""
    skipped = list(skipped)
    if {skip.key for skip in skipped} >= _DATASET:
        return SourceError(message, path=path, hint="it is a dataset already: look at it with stoker info")
    if any(skip.key and is_local_shard(Path(path) / skip.key) for skip in skipped[:_NAMED]):
        return SourceError(message, path=path, hint=INDEX_SHARDS)
    counts = Counter(skip.reason for skip in skipped)
    reasons = name_reasons(skipped)
    remedies = "; ".join(_REMEDIES[reason] for reason in _REMEDIES if counts[reason])
    return SourceError(
        f"{message}; left out: {reasons}" if reasons else message, path=path, hint=remedies or hint
    )


def name_reasons(skipped: Sequence[Skip]) -> str:
    """The reasons, each with the number of its files, and some files of the most frequent one."""
    counts = Counter(skip.reason for skip in skipped)
    reasons = ", ".join(
        f"{count:,} x {_with_detail(reason, skipped)}" for reason, count in counts.most_common()
    )
    keys = [skip.key for skip in skipped if skip.key and skip.reason == counts.most_common(1)[0][0]]
    return f"{reasons}, such as {', '.join(keys[:_NAMED])}" if keys else reasons


def _with_detail(reason: str, skipped: Sequence[Skip]) -> str:
    """A reason, with its detail if all of its files have the same."""
    messages = {skip.message for skip in skipped if skip.reason == reason}
    return messages.pop() if len(messages) == 1 else reason
