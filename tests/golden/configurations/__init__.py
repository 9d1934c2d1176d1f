"""Named configurations of the library, each a function that returns named results.

They use public names only, so that they stay as they are while the inside changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import batches, bucketing, conversions, datasets, order, params, pixels, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sources import Sandbox

__all__ = ["CONFIGURATIONS"]

_MODULES = (conversions, datasets, order, params, pixels, batches, text, bucketing)

CONFIGURATIONS: dict[str, Callable[[Sandbox], dict[str, Any]]] = {
    function.__name__: function for module in _MODULES for function in module.CONFIGURATIONS
}
