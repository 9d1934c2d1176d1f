"""JAX: arrays that share the engine's memory on the CPU, and global arrays over all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from stoker.errors import ConfigError

from .. import adapters

Batch = TypeVar("Batch", bound=NamedTuple)


class Adapter(adapters.Adapter):
    """Makes ``jax.Array``, on ``device`` if it is not None; "cuda:N" is number N of CUDA in this process."""

    library = jnp

    def __init__(self, device: str | None) -> None:
        self._device = None
        if device not in (None, "cpu"):
            self._device = _local_gpu(int(device.partition(":")[2] or 0))

    def images(self, array: Any, dtype: str) -> Any:
        """An array over the same memory on the CPU; a copy of an array that DALI made on a GPU."""
        images = jax.dlpack.from_dlpack(array)
        wanted = jnp.dtype(dtype)
        if images.dtype == jnp.uint16:
            images = jax.lax.bitcast_convert_type(images, wanted)
        images = images if images.dtype == wanted else images.astype(wanted)
        if not isinstance(array, np.ndarray):
            # DALI writes to its memory again once the array is dropped, whatever still reads it.
            images = jnp.array(images, copy=True).block_until_ready()
        return self._to_device(images)

    def array(self, values: Any) -> Any:
        """An array of the values, with 32 bits for 64 unless x64 is enabled."""
        return self._to_device(jnp.asarray(values, dtype=jax.dtypes.canonicalize_dtype(values.dtype)))

    def take(self, images: Any, index: Any) -> Any:
        return jnp.take(images, jnp.asarray(index, dtype=jnp.int32), axis=0)

    def _to_device(self, array: Any) -> Any:
        return array if self._device is None else jax.device_put(array, self._device)


def _local_gpu(number: int) -> Any:
    """The GPU with this number of CUDA in this process; ``jax.devices`` lists the GPUs of all processes."""
    gpus = {gpu.local_hardware_id: gpu for gpu in jax.local_devices(backend="cuda")}
    if number not in gpus:
        known = ", ".join(f"cuda:{local}" for local in sorted(gpus)) or "none"
        raise ConfigError(
            f"device 'cuda:{number}' was asked for, and JAX uses {known} in this process",
            hint="Pass one of jax.local_devices(), or the local_device_ids of jax.distributed.initialize.",
        )
    return gpus[number]


def global_batch(
    batch: Batch, sharding: jax.sharding.Sharding | Mapping[str, jax.sharding.Sharding]
) -> Batch:
    """The batches of all ranks as one batch of global arrays.

    A global array is the ranks' columns one after the other, sharded over the devices. Each process must be
    one rank of the loader, as it is once ``jax.distributed`` is initialised. Lists of strings stay as they
    are.

    Args:
        batch: Batch of a loader with ``output`` "jax" or "numpy" and ``last_batch`` "drop" or "pad", of the
            same step on every process.
        sharding: Divides the first axis over the devices, such as
            ``NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))``. A mapping has one for each
            column of arrays, by its name. Views have the samples on their second axis, and need
            ``PartitionSpec(None, "data")``.

    Raises:
        ValueError: JAX cannot divide the batch so; see ``jax.make_array_from_process_local_data``.
    """

    def spread(name: str, column: Any) -> Any:
        if isinstance(column, (list, tuple)):
            return column
        column_sharding = sharding[name] if isinstance(sharding, Mapping) else sharding
        return jax.make_array_from_process_local_data(column_sharding, np.asarray(column))

    return type(batch)(*map(spread, batch._fields, batch))


def sees_gpu() -> bool:
    return bool(any(device.platform == "gpu" for device in jax.devices()))
