"""The result of a change of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ChangeSummary:
    """The result of :func:`stoker.append`, :func:`stoker.merge` or :func:`stoker.exclude`.

    Attributes:
        path: The dataset's folder.
        version: Its last version now.
        samples: Samples of this version.
        added: Number of samples that the version before lacks.
        removed: Number of samples of the version before that this one lacks.
        skipped: Number of files or samples that were left out, by reason.
        already: Whether the dataset had all samples before, so that no version was made.
    """

    path: Path
    version: int
    samples: int
    added: int = 0
    removed: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    already: bool = False
