"""A check of an installed wheel: images converted and loaded, the README's lines, the command line.

tools/wheels/try.sh and cibuildwheel run it as `python check.py`. Of the project's folder it reads the README
and the photographs only.
"""

import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
import time
from pathlib import Path

began = time.perf_counter()
import stoker  # noqa: E402 (the time of this import is measured)

imported = time.perf_counter() - began

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from stoker import _native  # noqa: E402
from stoker.__main__ import main as run_command  # noqa: E402
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def pixels() -> str:
    """Returns a digest of pixels that every platform shares."""
    random = np.random.default_rng(0)
    for number in range(32):
        path = Path(f"source/class{number % 4}/{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (90, 120, 3), dtype=np.uint8)).save(path)
    stoker.convert("source", "shards/noise", seed=0)
    transforms = [RandomResizedCrop(64), RandomHorizontalFlip(), Normalize()]
    digest = hashlib.sha256()
    options = {"batch_size": 8, "shuffle": True, "seed": 0, "output": "numpy", "transforms": transforms}
    with stoker.ImageLoader("shards/noise", **options) as loader:
        for images, labels in loader:
            digest.update(images.tobytes() + labels.tobytes())
    return digest.hexdigest()[:16]


def command(*arguments: str) -> str:
    """Returns what `stoker` prints for these arguments, in this process: an emulator starts no other."""
    printed = io.StringIO()
    sys.argv = ["stoker", *arguments]
    with contextlib.redirect_stdout(printed):
        try:
            run_command()
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(printed.getvalue()) from ended
    return printed.getvalue()


def main() -> None:
    """Prints the import's time, the instruction set, the digest, and what the README's lines made."""
    readme = (ROOT / "README.md").read_text()
    lines = re.search(r"```python\n(import stoker\n.*?)```", readme, re.DOTALL).group(1)
    lines = lines.replace('output="torch"', 'output="numpy"')  # which needs no framework
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        summary = f"imported in {imported:.3f} s, {_native.cpu_level()}, pixels {pixels()}"
        command("convert", str(ROOT / "examples/photos/train"), "shards/train", "--seed", "0")
        names = {}
        exec(lines, names)  # noqa: S102 - the project's own lines
        summary += f", README: {names['images'].dtype} {names['images'].shape}"
        summary += f", {command('doctor').count(chr(10))} lines of stoker doctor"
        os.chdir(home)
    print(summary)


if __name__ == "__main__":
    main()
