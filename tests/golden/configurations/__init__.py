"""Named configurations of the library, each a function that returns named results.

They use public names only, so that they stay as they are while the inside changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import batches, bucketing, conversions, datasets, order, params, pixels, text
from .sources import Sandbox

__all__ = ["CONFIGURATIONS"]

_MODULES = (conversions, datasets, order, params, pixels, batches, text, bucketing)

CONFIGURATIONS: dict[str, Callable[[Sandbox], dict[str, Any]]] = {
    function.__name__: function for module in _MODULES for function in module.CONFIGURATIONS
}
