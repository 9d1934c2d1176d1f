"""Trains one epoch with JAX on global arrays; run by ranks/test_jax.py, once in each process.

python jax_ranks.py SHARDS GLOBAL_BATCH [COORDINATOR PROCESSES PROCESS]
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, Resize
from stoker.pipeline.adapters.jax import global_batch

shards, batch_size, *launcher = sys.argv[1:]
if launcher:
    coordinator, processes, process = launcher
    jax.distributed.initialize(coordinator, int(processes), int(process))
loader = stoker.ImageLoader(
    shards,
    batch_size=int(batch_size) // jax.process_count(),
    shuffle=True,
    last_batch="drop",
    output="jax",
    columns=("image", "label", "row"),
    num_threads=1,
    transforms=[Resize((8, 8)), RandomHorizontalFlip(), Normalize()],
)
sharding = NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))


@jax.jit
def step(weights: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    def loss_of(weights: jax.Array) -> jax.Array:
        logits = images.reshape(len(images), -1) @ weights
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.01 * gradient, loss


weights, losses, rows = jnp.zeros((3 * 8 * 8, 61)), [], []
for batch in loader:
    images, labels, _ = spread = global_batch(batch, sharding)
    assert images.shape[0] == int(batch_size)
    assert len(images.sharding.device_set) == len(jax.devices())
    weights, loss = step(weights, images, labels)
    losses.append(float(loss))
    rows.append(batch.row.tolist())
    local = [row for shard in spread.row.addressable_shards for row in shard.data.tolist()]
    assert local == rows[-1]
print(json.dumps({"devices": len(jax.devices()), "losses": losses, "rows": rows}))
