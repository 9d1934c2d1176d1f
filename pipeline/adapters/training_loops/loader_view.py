"""A loader as an iterable for frameworks that look at a first batch before they train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...execution.loader import Loader


@dataclass
class PeekState:
    """States of a loader around the first batch of a pass that may have been abandoned there."""

    before: Mapping[str, Any] | None = None  # State before the pass; None before the first pass
    # State after its first batch; None if the pass went on, or has not reached it
    after: Mapping[str, Any] | None = None


class LoaderView:
    """A view of a loader that repeats an epoch if the consumer left it after the first batch.

    Frameworks take a batch to see its form, drop the iterator, and iterate again. The loader itself would
    begin the next epoch.
    """

    def __init__(self, loader: Loader, peek: PeekState | None = None) -> None:
        self.loader = loader
        self._peek = peek or PeekState()

    def __iter__(self) -> Iterator[Any]:
        loader, peek = self.loader, self._peek
        # Not if the loader was moved meanwhile, or if the epoch has one batch.
        if peek.before and peek.after == loader.state_dict() and len(self) > 1:
            loader.load_state_dict(peek.before)
        peek.before = loader.state_dict()
        for step, batch in enumerate(loader):
            peek.after = loader.state_dict() if step == 0 else None
            yield batch
            peek.after = None  # the consumer has asked for more, even if the next batch is an error

    def __len__(self) -> int:
        return len(self.loader)
