"""One framework a file, same verbs, imported only when asked for.

An adapter turns what an engine leaves behind into what a framework trains on, without a copy where
the framework allows it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from stoker.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from stoker.augment.batch.base import BatchParams

    from ..engines.base import Layout
    from ..execution.loader import Loader

__all__ = ["Adapter", "CopyStream", "framework", "load", "sees_gpu", "specialize_loader"]

_FRAMEWORKS = ("numpy", "torch", "tensorflow", "jax", "cupy", "mxnet")
_OUTPUTS = (*_FRAMEWORKS, "keras")
_PACKAGES = {"cupy": "cupy-cuda12x"}


class CopyStream(Protocol):
    """A stream of a GPU on which batches are copied there, beside the consumer's."""

    def __enter__(self) -> object:
        """What follows in this thread runs on it."""

    def __exit__(self, *error: object) -> None: ...

    def ready(self, batch: Any) -> Callable[[], None]:
        """What the consumer calls when it receives ``batch``, so that its stream waits for the copies."""


class Adapter(Protocol):
    """The verbs of every adapter module's ``Adapter`` class, made with the device's name or None."""

    copy_stream: CopyStream | None
    """Where batches are put together; None for the thread's own stream."""
    allocate: Callable[[tuple[int, ...], str], npt.NDArray[Any]] | None
    """Makes the memory that an engine on the CPU writes into, of a shape and dtype; None for its own."""

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


def framework(output: str) -> str:
    """Whose arrays a loader hands out: the framework of that name, or the one that Keras computes with.

    Raises: As :func:`load`.
    """
    return str(_module(output).backend()) if output == "keras" else output


def specialize_loader(loader: Loader, output: str) -> None:
    """Have a loader of this output be what the framework's own training takes: Keras' ``model.fit``.

    Raises:
        ConfigError: Its columns are none that the framework takes.
    """
    if output == "keras":
        _module(output).specialize_loader(loader)


def load(name: str, device: str | None, *, pin_memory: bool = False) -> Adapter:
    """The adapter of a framework, for arrays on ``device`` (None: where the engine leaves them).

    Args:
        name: Of the framework.
        device: "cpu", "cuda:N", or None.
        pin_memory: Keep what lies on the CPU in page-locked memory.

    Raises:
        ConfigError: There is no such adapter, or no page-locked memory.
        MissingDependencyError: The framework is not installed.
    """
    if pin_memory and name != "torch":
        raise ConfigError(f"pin_memory=True goes with output='torch', found output={name!r}")
    options = {"pin_memory": True} if pin_memory else {}
    adapter: Adapter = _module(name).Adapter(device, **options)
    return adapter


def sees_gpu(name: str) -> bool:
    """Whether the framework as it is installed can hold arrays on a GPU; raises what :func:`load` does."""
    return bool(_module(name).sees_gpu())


def _module(name: str) -> Any:
    if name not in _OUTPUTS:
        raise ConfigError(f"output must be one of {', '.join(_OUTPUTS)}, found {name!r}")
    try:
        return importlib.import_module(f"stoker.pipeline.adapters.{name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"output={name!r} needs {name}, which is not installed",
            hint=f"pip install {_PACKAGES.get(name, name)}",
        ) from error
