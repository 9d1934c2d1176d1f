"""What the views of a loader for other frameworks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stoker.pipeline.loader import Loader

__all__ = ["View"]


class View:
    """A loader as an iterable whose first batch may be looked at before training.

    Frameworks take a batch to see its form, drop the iterator and begin anew. On the loader itself that
    would be the next epoch; a view begins a pass again that was left at its first batch.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._begun: Mapping[str, Any] = {}
        self._looked_at: Mapping[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        loader, state = self.loader, self.loader.state_dict()
        # Not where the loader was moved in between, nor where an epoch has but one batch.
        if state == self._looked_at and len(self) > 1:
            loader.load_state_dict(self._begun)
        self._begun = loader.state_dict()
        for step, batch in enumerate(loader):
            self._looked_at = loader.state_dict() if step == 0 else None
            yield batch
        self._looked_at = None

    def __len__(self) -> int:
        return len(self.loader)
