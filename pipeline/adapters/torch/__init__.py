"""PyTorch: tensors that share the engine's memory on the CPU and on the GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from stoker.errors import CheckpointError, ConfigError

from ... import adapters
from ...loader import Loader
from .. import LoaderView


class CopyStream:
    """A stream for copies to a GPU, beside the stream on which the consumer computes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        self._entered.append(torch.cuda.stream(self._stream))
        self._entered[-1].__enter__()

    def __exit__(self, *error: object) -> None:
        self._entered.pop().__exit__(*error)

    def ready(self, batch: Any) -> Callable[[], None]:
        """Return a function that makes the current stream of its caller wait for the copies of ``batch``."""
        event = self._stream.record_event()

        def wait() -> None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            for tensor in _tensors(batch):
                if tensor.device == self._device:
                    tensor.record_stream(stream)  # freed memory is not reused before this stream has read it

        return wait


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    for column in batch:
        if isinstance(column, torch.Tensor):
            yield column
        elif isinstance(column, (list, tuple)):  # ragged columns, and tuples of them for views
            yield from _tensors(column)


def _pinned(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """An array in page-locked memory, which PyTorch reuses once it is freed and copied from."""
    return np.asarray(torch.empty(shape, dtype=getattr(torch, dtype), pin_memory=True).numpy())


class Adapter(adapters.Adapter):
    library = torch

    def __init__(self, device: str | None, *, pin_memory: bool = False) -> None:
        self._device = None if device in (None, "cpu") else torch.device(device)
        if pin_memory and not torch.cuda.is_available():
            raise ConfigError(
                "device='pinned' needs a GPU, and PyTorch sees none",
                hint="Leave it out: batches on the CPU need no page-locked memory.",
            )
        self._pin = pin_memory
        self.allocate = _pinned if pin_memory else None
        self.copy_stream = CopyStream(self._device) if self._device else None

    def images(self, array: Any, dtype: str) -> torch.Tensor:
        """A tensor over the same memory on the CPU; a copy of an array that DALI made on a GPU."""
        tensor = torch.from_dlpack(array)
        wanted = getattr(torch, dtype)
        if tensor.dtype == torch.uint16:
            tensor = tensor.view(wanted)
        if not tensor.is_cuda:
            return self._to_device(tensor.to(wanted))
        # DALI writes to its memory again once the array is dropped, whatever stream still reads it.
        images = tensor.to(wanted, copy=True)
        torch.cuda.current_stream(tensor.device).synchronize()
        return self._to_device(images)

    def array(self, values: Any) -> torch.Tensor:
        return self._to_device(torch.from_numpy(np.ascontiguousarray(values)))

    def ragged(self, values: Any, counts: Any) -> list[torch.Tensor]:
        return list(self.array(values).split(counts.tolist()))

    def take(self, images: torch.Tensor, index: Any) -> torch.Tensor:
        return images[torch.from_numpy(index).to(images.device)]

    def cast(self, images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return images.to(dtype)

    def _to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._pin and tensor.device.type == "cpu" and not tensor.is_pinned():
            tensor = tensor.pin_memory()
        if self._device is None or tensor.device == self._device:
            return tensor
        return tensor.to(self._device, non_blocking=True)


class _IterableDataset(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc]  # torch is optional
    def __init__(self, loader: Loader, batches: Loader | LoaderView) -> None:
        self._loader = loader
        self._batches = batches
        self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict

    def __iter__(self) -> Iterator[Any]:
        if torch.utils.data.get_worker_info() is not None:
            raise ConfigError(
                "a loader cannot run in workers of a DataLoader, because it runs its own threads",
                hint="Give the DataLoader num_workers=0 and batch_size=None.",
            )
        if self._loader.process.world_size > 1 and _processes_of_accelerate() > 1:
            raise ConfigError(
                "Accelerate would deal the batches of this rank to all ranks again, and lose samples",
                hint="Iterate over the loader itself, which needs no prepare.",
            )
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def _processes_of_accelerate() -> int:
    if "accelerate.state" not in sys.modules:
        return 1
    from ..accelerate import number_of_processes

    return number_of_processes()


def iterable_dataset(loader: Loader) -> torch.utils.data.IterableDataset[Any]:
    """A PyTorch dataset of the loader's batches, for ``DataLoader(dataset, batch_size=None)``.

    Each pass over it is an epoch of the loader. It has the loader's state, which torchdata's
    StatefulDataLoader saves and loads. Under Accelerate on several ranks it refuses to be used, because
    Accelerate would deal out the batches of each rank again.
    """
    return _IterableDataset(loader, loader)


def check_resume(loader: Any, steps: int, *, accumulated: int = 1) -> None:
    """Check that a loader is where a trainer resumes that counts steps itself.

    Lightning and Hugging Face's Trainer restore the number of steps that are done, whatever a step holds. If
    the loader is at another step, the rest of the training leaves out samples. Call this function in the hook
    ``on_train_start`` of Lightning, with ``self.trainer.global_step``, or ``on_train_begin`` of a
    TrainerCallback, with ``state.global_step``.

    Args:
        loader: Loader of the training, or a ``DataLoader`` of :mod:`stoker.torch`. If its epochs differ in
            length, it is not checked.
        steps: Steps of the optimizer that are done.
        accumulated: Batches whose gradients a step adds up.

    Raises:
        CheckpointError: The loader is at another step.
    """
    if isinstance(loader, Loader) and not loader.has_equal_epochs:
        return
    epoch, step = divmod(steps, -(-len(loader) // accumulated))
    wanted = epoch, step * accumulated
    state = loader.state_dict()
    done = len(loader) - loader.steps_left if isinstance(loader, Loader) else state["step"]
    current = state["epoch"], done
    is_new = not steps and not done  # a training may begin with any epoch of a loader
    if wanted != current and not is_new:
        raise CheckpointError(
            f"the trainer resumes at batch {wanted[1]} of epoch {wanted[0]}, and the loader is at batch "
            f"{current[1]} of epoch {current[0]}: samples would be left out",
            hint="Load the state of this checkpoint into the loader, and keep the samples of a step. With "
            "other steps, load the weights alone, and give the loader its state yourself.",
        )


def data_loader(view: LoaderView) -> torch.utils.data.DataLoader[Any]:
    """A PyTorch ``DataLoader`` of the batches of ``view``, as tuples."""
    dataset = _IterableDataset(view.loader, view)
    return torch.utils.data.DataLoader(dataset, batch_size=None, collate_fn=tuple)


def sees_gpu() -> bool:
    """Whether this build of PyTorch finds a CUDA device; asks the driver, and does not start CUDA."""
    return bool(torch.cuda.device_count() > 0)
