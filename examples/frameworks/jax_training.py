"""Train a linear classifier on photographs with JAX.

python examples/frameworks/jax_training.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


def loss_of(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
    logits = images.reshape(len(images), -1) @ weights
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()


@partial(jax.jit, donate_argnums=0)
def step(weights: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
    return weights - 1e-3 * gradient, loss


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    if not Path(shards, "dataset.json").exists():
        stoker.convert(PHOTOS, shards, seed=0)
    loader = stoker.ImageLoader(
        shards,
        batch_size=36,
        shuffle=True,
        seed=0,
        output="jax",
        last_batch="drop",  # batches of one shape need one compilation
        transforms=[RandomResizedCrop(32), RandomHorizontalFlip(), Normalize()],
    )
    weights = jnp.zeros((3 * 32 * 32, loader.dataset.num_classes))
    for epoch in range(int(epochs)):
        for images, labels in loader:
            weights, loss = step(weights, images, labels)
        print(f"epoch {epoch}  loss {loss:.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
