"""A fuzzer of all code that reads files from users: it must read each input rightly, or refuse it.

A target is a module below ``targets`` with a function ``make(scratch)``. This returns an attack, which makes
an input from a random generator, hands it to Stoker and returns whether Stoker accepted it. The target checks
that accepted inputs were read rightly. Stoker refuses an input by a StokerError, or the attack returns False.
Any other exception is a finding, and so are a crash, an input that takes more than ``--limit`` seconds of CPU
time, a hang of ten times as long, and a MemoryError above ``--memory`` MiB. The process then ends, and prints
the command that repeats the input.

    python tests/fuzz/fuzz.py --seconds 600
    python tests/fuzz/fuzz.py --inputs 100 --target coco --target yolo
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stoker.errors import StokerError

Attack = Callable[[np.random.Generator], bool]

_FOLDER = Path(__file__).resolve().parent
TARGETS = {
    path.stem: ".".join(path.relative_to(_FOLDER).with_suffix("").parts)
    for path in sorted(_FOLDER.glob("targets/**/*.py"))
    if "\ndef make(" in path.read_text("utf-8")
}
"""The module of each target, by its name."""


@dataclass
class Target:
    """An attack, its name, and counts of its inputs."""

    name: str
    attack: Attack
    inputs: int = 0
    accepted: int = 0
    slowest: float = 0.0

    def attack_once(self, seed: int) -> None:
        """Attack with the next input, and count it."""
        rng = np.random.default_rng([seed, self.inputs, *self.name.encode()])
        self.inputs += 1
        began = time.process_time()
        with contextlib.suppress(StokerError):
            self.accepted += self.attack(rng)
        self.slowest = max(self.slowest, time.process_time() - began)


def run(targets: list[Target], options: argparse.Namespace) -> None:
    """Attack the targets in turn until the time is up, or each has had all its inputs."""
    until = time.monotonic() + options.seconds
    while time.monotonic() < until and targets[0].inputs < options.first + options.inputs:
        for target in targets:
            again = f"--target {target.name} --seed {options.seed} --first {target.inputs} --inputs 1"
            options.last.write_text(again)
            faulthandler.dump_traceback_later(10 * options.limit, exit=True)
            try:
                target.attack_once(options.seed)
                if target.slowest > options.limit:
                    raise AssertionError(f"the input took {target.slowest:.1f} s of CPU time")
            except BaseException:
                print(f"repeat it: python tests/fuzz/fuzz.py {again}", file=sys.stderr)
                raise
            finally:
                faulthandler.cancel_dump_traceback_later()


def limit_memory(mebibytes: int) -> None:
    """Let the process have this much more address space than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description="Fuzzer of all code that reads files from users.")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long to run")
    parser.add_argument("--inputs", type=int, default=1 << 62, help="inputs of each target")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=TARGETS, help="all by default")
    parser.add_argument("--limit", type=float, default=10, help="CPU seconds that an input may take")
    # Arrow 26 leaks half a MiB at each damaged Brotli stream, which is a gigabyte in ten minutes.
    parser.add_argument("--memory", type=int, default=3072, help="MiB that all inputs may add; 0: any")
    parser.add_argument("--scratch", type=Path, help="folder to work in, where last-input names the last one")
    return parser.parse_args(arguments)


def main() -> None:
    """Fuzz, and print a line for each target."""
    options = parse()
    sys.path[1:1] = [str(_FOLDER.parent)]
    faulthandler.enable()
    warnings.simplefilter("ignore")  # Pillow warns of many images before it refuses them
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        options.last = (options.scratch or Path(folder)) / "last-input"
        targets = []
        for name in options.target or TARGETS:
            (scratch := Path(folder) / name).mkdir()
            attack = importlib.import_module(TARGETS[name]).make(scratch)
            targets.append(Target(name, attack, inputs=options.first))
        for target in targets:  # pools of memory and threads, which are made once, count for no input
            with contextlib.suppress(StokerError):
                target.attack(np.random.default_rng(0))
        if options.memory:
            limit_memory(options.memory)
        run(targets, options)
        for target in targets:
            inputs = target.inputs - options.first
            print(
                f"{target.name}: {inputs} inputs, {target.accepted} accepted, "
                f"{inputs - target.accepted} refused, slowest {target.slowest:.2f} s"
            )


if __name__ == "__main__":
    main()
