"""A check of an installed wheel: images are converted and loaded, without a compiler or the sources.

Run as `python check.py`, outside of the project's folder.
"""

import hashlib
import tempfile
import time
from pathlib import Path

began = time.perf_counter()
import stoker  # noqa: E402 (its time is what is measured)

imported = time.perf_counter() - began

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from stoker import _native  # noqa: E402
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop  # noqa: E402


def main() -> None:
    """Prints the import's time, the instruction set, and a digest of pixels that every platform shares."""
    with tempfile.TemporaryDirectory() as folder:
        source, shards = Path(folder, "source"), Path(folder, "shards")
        random = np.random.default_rng(0)
        for number in range(32):
            path = source / f"class{number % 4}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 256, (90, 120, 3), dtype=np.uint8)).save(path)
        stoker.convert(source, shards, seed=0)
        transforms = [RandomResizedCrop(64), RandomHorizontalFlip(), Normalize()]
        digest = hashlib.sha256()
        options = {"batch_size": 8, "shuffle": True, "seed": 0, "output": "numpy", "transforms": transforms}
        with stoker.ImageLoader(shards, **options) as loader:
            for images, labels in loader:
                digest.update(images.tobytes() + labels.tobytes())
    print(f"imported in {imported:.3f} s, {_native.cpu_level()}, pixels {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
