"""What the views of a loader for other frameworks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..execution.loader import Loader

__all__ = ["LoaderView", "PeekState"]


@dataclass
class PeekState:
    """The last look at a first batch: the loader's state before and after it, None where there was none."""

    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


class LoaderView:
    """A loader as an iterable whose first batch may be looked at before training.

    Frameworks take a batch to see its form, drop the iterator and begin anew. On the loader itself that
    would be the next epoch; a view begins a pass again that was left at its first batch.

    Args:
        loader: The loader.
        peek: Where views of one loader remember that together; by default each has its own.
    """

    def __init__(self, loader: Loader, peek: PeekState | None = None) -> None:
        self.loader = loader
        self._peek = peek or PeekState()

    def __iter__(self) -> Iterator[Any]:
        loader, peek = self.loader, self._peek
        # Not where the loader was moved in between, nor where an epoch has but one batch.
        if peek.before and peek.after == loader.state_dict() and len(self) > 1:
            loader.load_state_dict(peek.before)
        peek.before = loader.state_dict()
        for step, batch in enumerate(loader):
            peek.after = loader.state_dict() if step == 0 else None
            yield batch
        peek.after = None

    def __len__(self) -> int:
        return len(self.loader)
