"""One framework a file, same verbs, imported only when asked for.

An adapter turns what an engine leaves behind into what a framework trains on, without a copy where
the framework allows it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, Protocol

from stoker.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from stoker.augment.batch import BatchParams
    from stoker.pipeline.engines.base import Layout

__all__ = ["Adapter", "OutputName", "load", "sees_gpu"]

OutputName = Literal["numpy", "torch", "tensorflow", "jax", "cupy", "mxnet"]

_FRAMEWORKS = ("numpy", "torch", "tensorflow", "jax", "cupy", "mxnet")
_PACKAGES = {"cupy": "cupy-cuda12x"}


class Adapter(Protocol):
    """The verbs of every adapter module's ``Adapter`` class, made with the device's name or None."""

    def images(self, array: Any, dtype: str) -> Any:
        """A batch of images of the framework; ``array`` speaks DLPack, bfloat16 may come as uint16 bits."""

    def column(self, values: Any) -> Any:
        """A column of numbers, (N,) or (N, ...), of the framework; lists of strings stay what they are."""

    def ragged(self, values: Any, counts: Any) -> Any:
        """N arrays of the framework, ``counts[i]`` of NumPy's ``values``, (M, ...), each, in order."""

    def take(self, images: Any, index: Any) -> Any:
        """Images at ``index``, (M,) int64, as a new array of the framework."""

    def mix(self, params: BatchParams, images: Any, layout: Layout) -> Any:
        """Images of the framework, on a GPU, under the parameters of a transform of batches."""


def load(name: str, device: str | None) -> Adapter:
    """The adapter of a framework, for arrays on ``device`` (None: where the engine leaves them).

    Raises:
        ConfigError: There is no such adapter.
        MissingDependencyError: The framework is not installed.
    """
    adapter: Adapter = _module(name).Adapter(device)
    return adapter


def sees_gpu(name: str) -> bool:
    """Whether the framework as it is installed can hold arrays on a GPU; raises what :func:`load` does."""
    return bool(_module(name).sees_gpu())


def _module(name: str) -> Any:
    if name not in _FRAMEWORKS:
        raise ConfigError(f"output must be one of {', '.join(_FRAMEWORKS)}, found {name!r}")
    try:
        return importlib.import_module(f"stoker.pipeline.adapters.{name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"output={name!r} needs {name}, which is not installed",
            hint=f"pip install {_PACKAGES.get(name, name)}",
        ) from error
