"""Train on photographs with JAX on all devices of all processes; run it again to continue (Orbax).

python examples/frameworks/jax_mesh.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint import CheckpointManager, args

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.pipeline.adapters.jax import global_batch

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


@partial(jax.jit, donate_argnums=0)
def step(weights: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    def loss_of(weights: jax.Array) -> jax.Array:
        logits = images.reshape(len(images), -1) @ weights
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 1e-3 * gradient, loss


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    # On several machines, call jax.distributed.initialize() first: it tells the loader its rank.
    if not Path(shards, "dataset.json").exists():
        stoker.convert(PHOTOS, shards, seed=0)
    augment = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize()]
    options = {"batch_size": 36, "shuffle": True, "last_batch": "drop", "output": "jax"}
    loader = stoker.ImageLoader(shards, transforms=augment, **options)
    mesh = Mesh(jax.devices(), "data")
    divided, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    weights = jax.device_put(jnp.zeros((3 * 32 * 32, loader.dataset.num_classes)), everywhere)
    with CheckpointManager(Path(f"{shards}-orbax").absolute()) as checkpoints:
        if checkpoints.latest_step() is not None:
            restore = args.Composite(model=args.StandardRestore([weights]), loader=args.JsonRestore())
            restored = checkpoints.restore(None, args=restore)
            (weights,) = restored["model"]
            loader.load_state_dict(restored["loader"])
        for epoch in range(loader.state_dict()["epoch"], int(epochs)):
            for batch in loader:
                images, labels = global_batch(batch, divided)
                weights, loss = step(weights, images, labels)
            state = args.JsonSave(loader.state_dict())
            checkpoints.save(epoch, args=args.Composite(model=args.StandardSave([weights]), loader=state))
            print(f"epoch {epoch}  loss {loss:.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
