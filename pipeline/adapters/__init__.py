"""Adapters, which turn the images of an engine into arrays of the framework that the user asks for.

Each framework has a row in :data:`FRAMEWORKS` and a module in this folder, which is imported at its first
use. The module ``<name>.py`` has:

- ``Adapter(device)``, a subclass of :class:`Adapter`. ``device`` is "cpu", "cuda:N", or None,
  which leaves arrays where they are. With ``pins_memory`` in its row it also takes ``pin_memory=True``.
- ``sees_gpu()``, whether the framework as it is installed can hold arrays on a GPU.

The row of a framework that computes with the arrays of another one, such as Keras, has ``borrows``. Its
module has these functions instead:

- ``backend()``, the name of the framework whose arrays loaders return.
- ``specialize_loader(loader)``, which gives a loader the class that the framework's training loop takes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of
from stoker.errors import ConfigError, MissingDependencyError, install_hint
from stoker.types import Layout

from ..engines.registry import BatchPlacement
from ..loader import Loader

if TYPE_CHECKING:
    from stoker.augment.batch import MixParams


@dataclass(frozen=True)
class Framework:
    """One framework whose arrays a loader can return."""

    name: str  # Value of the loaders' argument ``output``, and the module in this folder
    package: str = ""  # Package that pip installs; empty if it has the same name
    ids_dtype: str = "int32"  # Dtype of token ids by default
    # Whether the adapter can make batches in page-locked memory, and copy from there to a GPU
    pins_memory: bool = False
    borrows: bool = False  # Whether it computes with the arrays of another framework


FRAMEWORKS = {
    row.name: row
    for row in (
        Framework("numpy"),
        # Its losses take class numbers only as int64, and token ids are class numbers.
        Framework("torch", ids_dtype="int64", pins_memory=True),
        Framework("tensorflow"),
        Framework("jax"),
        Framework("cupy", package="cupy-cuda12x"),
        Framework("mxnet"),
        Framework("keras", borrows=True),
    )
}
"""All frameworks by name."""


class Adapter(Protocol):
    """Makes arrays of one framework, on one device, for one loader.

    The loader's producer thread calls it, one batch at a time; what it returns belongs to the consumer. An
    adapter holds no threads or files, so nothing closes it.
    """

    library: Any = np
    """Module of the framework, which has ``floor``, ``where`` and ``float32``."""
    copy_stream: Any = None
    """Stream of a GPU on which batches are put together, or None; see ``torch.CopyStream``."""
    allocate: Callable[[tuple[int, ...], str], npt.NDArray[Any]] | None = None
    """Makes the array of a shape and dtype that an engine on the CPU writes into; None for its own memory."""

    def images(self, array: Any, dtype: str) -> Any:
        """A batch of images, without a copy where the framework allows it."""

    def array(self, values: npt.NDArray[Any]) -> Any:
        """An array of the same dtype on the device."""

    def column(self, values: npt.NDArray[Any] | list[str]) -> Any:
        """A column of numbers, (N, ...), of the same dtype; strings stay a list if the framework has none."""
        return values if isinstance(values, list) else self.array(np.asarray(values))

    def ragged(self, values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> Any:
        """N arrays: the next ``counts[i]`` rows of ``values``, (M, ...), for each sample i."""
        ends = np.cumsum(counts).tolist()
        return [self.array(values[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    def take(self, images: Any, index: npt.NDArray[np.int64]) -> Any:
        """The images at ``index``, (K,), as a new array; ``images`` is an array that :meth:`images` made."""

    def cast(self, images: Any, dtype: Any) -> Any:
        """The images with a dtype of the framework."""
        return images.astype(dtype)

    def views(self, images: Any, count: int) -> Any:
        """The images as (count, N, ...), without a copy."""
        return images.reshape((count, -1, *images.shape[1:]))

    def mix(self, params: MixParams, images: Any, layout: Layout) -> Any:
        """The images, an array of :meth:`images` on a GPU, after MixUp or CutMix: few kernels for all."""
        library, mixed, partners = self.library, images, self.take(images, params.partner)
        if (params.share < 1).any():
            share = self.array(params.share[:, None, None, None])
            mixed = share * self.cast(images, library.float32)
            mixed = mixed + (1 - share) * self.cast(partners, library.float32)
            if "uint8" in str(images.dtype):
                mixed = library.floor(mixed + 0.5)
            mixed = self.cast(mixed, images.dtype)
        if params.box[:, 2:].all(axis=1).any():
            rows, columns = (self.array(inside) for inside in _inside_boxes(params, images.shape, layout))
            mixed = library.where(rows & columns, partners, mixed)
        return mixed


def _inside_boxes(params: MixParams, shape: Sequence[int], layout: Layout) -> Iterator[npt.NDArray[np.bool_]]:
    """The rows, then the columns, that the box of each image covers; both broadcast with the images."""
    for side, axis in enumerate((2, 3) if layout == "NCHW" else (1, 2)):
        first = params.box[:, side, None]
        numbers = np.arange(shape[axis])
        inside = (numbers >= first) & (numbers < first + params.box[:, side + 2, None])
        yield inside.reshape(len(inside), *(-1 if other == axis else 1 for other in (1, 2, 3)))


def framework_of(output: str) -> Framework:
    """The framework whose arrays a loader with this ``output`` returns."""
    one_of("output", output, tuple(FRAMEWORKS))
    row = FRAMEWORKS[output]
    return FRAMEWORKS[_module(row).backend()] if row.borrows else row


def specialize_loader(loader: Loader, output: str) -> None:
    """Give a loader the class that the framework's training function takes, such as Keras' ``model.fit``."""
    framework_of(output)
    if FRAMEWORKS[output].borrows:
        _module(FRAMEWORKS[output]).specialize_loader(loader)


def load(framework: Framework, placement: BatchPlacement) -> Adapter:
    """Make the adapter of a framework."""
    if placement.pin_memory and not framework.pins_memory:
        raise ConfigError(
            f"device='pinned' goes with output='torch', found output={framework.name!r}",
            hint="Leave device out.",
        )
    options = {"pin_memory": True} if placement.pin_memory else {}
    adapter: Adapter = _module(framework).Adapter(placement.device, **options)
    return adapter


def sees_gpu(framework: Framework) -> bool:
    """Whether the framework as it is installed can hold arrays on a GPU."""
    return bool(_module(framework).sees_gpu())


def _module(framework: Framework) -> Any:
    name = framework.name
    try:
        return importlib.import_module(f"stoker.pipeline.adapters.{name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"output={name!r} needs {name}, which is not installed",
            hint=install_hint(framework.package or name),
        ) from error


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
