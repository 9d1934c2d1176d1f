"""A function of the user that sees all columns of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.errors import ConfigError


@dataclass(frozen=True)
class AllColumns:
    """A function of your own that takes a whole batch, at the end of a loader's transforms.

    ``function(batch)`` gets the named tuple that the loader would hand out, in the framework's arrays, and
    returns it with changed columns: ``batch._replace(image=..., boxes=...)``. It runs on the loader's
    background thread. ``loader.element_spec()`` describes the columns before it.

    Args:
        function: The function. States of loaders hold its name.
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ConfigError(
                f"AllColumns takes a function of a batch; found {self.function!r}",
                hint="Write AllColumns(change), where change(batch) returns batch._replace(...).",
            )

    def __call__(self, batch: Any) -> Any:
        """The batch that the function returns; ConfigError if it returns something else."""
        changed = self.function(batch)
        if type(changed) is not type(batch):
            name = getattr(self.function, "__qualname__", repr(self.function))
            raise ConfigError(
                f"{name} must return the batch, a named tuple with the columns {', '.join(batch._fields)}; "
                f"it has returned {type(changed).__name__}",
                hint="Return batch._replace(image=...), or the batch itself.",
            )
        return changed
