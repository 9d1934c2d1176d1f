"""Random uses of loaders, compared with a plain model: nothing is lost, hangs or is left behind.

Every run of the test takes the same actions. For more actions, or others:

    python tests/stress/test_loader_stress.py ACTIONS [SEED]
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import stoker
from stoker import ImageLoader
from stoker.augment import RandomHorizontalFlip, Resize
from stoker.errors import LoaderClosedError

sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.loader_model import Model, N, build, check_pixels  # found when run by its path, too
from helpers.loaders import image_arguments
from helpers.processes import settled

ACTIONS = 400
HANG = 120  # seconds after which an action has hung, on any machine
ARROW = 2
"""Threads that Arrow may start later, one in each of its two pools."""
BAD = {5, 20, 21, 22, 36}


class Stress:
    """Random sequences of actions on a few loaders at once."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.clean, self.damaged = build(folder / "clean", set()), build(folder / "damaged", BAD)
        self.models: list[Model] = []
        self.orders: dict[str, list[list[int]]] = {}
        self.counts: dict[str, int] = {}

    def run(self, actions: int) -> None:
        for _ in range(actions):
            faulthandler.dump_traceback_later(HANG, exit=True)
            self.act()
        self.models.clear()
        gc.collect()
        faulthandler.cancel_dump_traceback_later()

    def act(self) -> None:
        if len(self.models) < 3:
            self.models.append(self.make())
        model = self.random.choice(self.models)
        weights = {
            self.finish: 6, self.some: 6, self.begin: 3, self.leave: 2, self.set_epoch: 2, self.resume: 2,
            self.reload: 1, self.close: 1, self.drop: 2, self.drop_in_cycle: 2, self.drop_in_thread: 1,
            self.collect: 1, self.in_turn: 1, self.fork: 0.3, self.check_held: 2, self.fill: 1,
        }  # fmt: skip
        (action,) = self.random.choices(list(weights), list(weights.values()))
        self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
        action(model)

    def make(self) -> Model:
        pick = self.random.choice
        options: dict[str, Any] = {
            "on_error": pick(["raise", "skip", "replace"]),
            "bad": pick([set(), BAD]),
            "hold": pick([False, True]),
        }
        folder = self.damaged if options["bad"] else self.clean
        masks = pick([False, True])
        if not masks:
            options["bad"] = {row for row in options["bad"] if row % 2}
        kind = pick(["plain", "weighted", "mixture", "stream"])
        order = self.make_order(kind)
        mixed = kind == "mixture"

        def source(folder: Path) -> Any:
            return stoker.mix([(folder, 1.0)], samples=23) if mixed else folder

        fast = {"prefetch": pick([1, 2, 5]), "num_threads": pick([1, 2, 3]), "read_ahead": pick([0, 8])}
        columns = ("image", "row", "segmentation") if masks else ("image", "row")
        arguments = {"columns": columns, "dtype": "uint8", "engine": "native", **order, **fast}
        transforms = [Resize((12, 16)), RandomHorizontalFlip()]
        if options["on_error"] != "raise":
            arguments |= {"on_error": options["on_error"], "max_bad": 1.0}
        loader = ImageLoader(source(folder), **image_arguments(transforms=transforms, **arguments))
        name = f"{kind} {masks} {sorted(order.items(), key=lambda item: item[0])}"

        def epochs(epoch: int) -> list[list[int]]:
            """Rows of each step, from a loader of intact samples that does nothing else."""
            key = f"{name} {epoch}"
            if key not in self.orders:
                with ImageLoader(
                    source(self.clean), **image_arguments(transforms=transforms, **arguments)
                ) as spare:
                    spare.set_epoch(epoch)
                    self.orders[key] = [batch.row.tolist() for batch in spare]
            return self.orders[key]

        return Model(loader, options, epochs)

    def make_order(self, kind: str) -> dict[str, Any]:
        """The options of a loader that decide which samples form its batches."""
        pick = self.random.choice
        order: dict[str, Any] = {"shuffle": pick([False, True]), "seed": pick([0, 7])}
        order["batch_size"] = pick([1, 3, 8, 37, 50])
        full = order["batch_size"] <= (23 if kind == "mixture" else N)
        ends = ["drop"] if kind == "stream" else ["partial", "drop"] if full else ["partial"]
        order["last_batch"] = pick(ends)
        if kind == "weighted":
            order |= {"sampler": stoker.Weighted(np.arange(N) + 1.0), "shuffle": False}
        if kind == "stream":
            order["steps_per_epoch"] = pick([1, 4, 9])
        return order

    def begin(self, model: Model) -> None:
        model.begin()

    def some(self, model: Model) -> None:
        if model.running is None:
            model.begin()
        for _ in range(self.random.randrange(4)):
            if not model.receive():
                break

    def finish(self, model: Model) -> None:
        if model.running is None:
            model.begin()
        while model.receive():
            pass

    def leave(self, model: Model) -> None:
        model.running = None
        model.others.clear()

    def set_epoch(self, model: Model) -> None:
        epoch = self.random.choice([model.epoch, model.epoch, 0, self.random.randrange(20)])
        model.set_epoch(epoch)

    def resume(self, model: Model) -> None:
        """Load the present state of the loader: exactly the next batch follows."""
        following = model.next_step()
        model.load(model.state(), following)

    def reload(self, model: Model) -> None:
        """Load an older state."""
        state, following = model.state(), model.next_step()
        self.some(model)
        model.load(state, following)

    def close(self, model: Model) -> None:
        model.loader.close()
        model.loader.close()
        if model.running is not None:
            try:
                next(model.running)
            except (LoaderClosedError, StopIteration):
                pass
            else:
                raise AssertionError("a batch of a closed loader")
        self.drop(model)

    def drop(self, model: Model) -> None:
        self.models.remove(model)

    def drop_in_cycle(self, model: Model) -> None:
        self.models.remove(model)
        model.held.append(model)

    def drop_in_thread(self, model: Model) -> None:
        """Drop a loader in a cycle that another thread collects."""
        self.drop_in_cycle(model)
        del model
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()

    def collect(self, _: Model) -> None:
        gc.collect(self.random.randrange(3))

    def in_turn(self, model: Model) -> None:
        """Begin a second pass: the older iterator raises an error unless it was complete."""
        model.begin()
        older = model.running
        model.begin()
        assert older is not None
        try:
            next(older)
        except (LoaderClosedError, StopIteration):
            return
        raise AssertionError("a batch of a pass that was ended")

    def fork(self, model: Model) -> None:
        child = os.fork()
        if not child:
            signal.alarm(HANG // 2)  # the child has no copy of the watchdog's thread
            try:
                model.loader.close()
                del model
                self.models.clear()
                gc.collect()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the child hung"

    def check_held(self, model: Model) -> None:
        """Check that batches which the consumer holds have not changed."""
        for batch, rows in model.held:
            check_pixels(batch, rows)

    def fill(self, _: Model) -> None:
        """Run many loaders at once."""
        while len(self.models) < 8:
            self.models.append(self.make())
            self.some(self.models[-1])


def main(actions: int, seed: int) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    gc.set_threshold(200, 2, 2)  # often, and so in all threads
    sys.setswitchinterval(1e-4)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        stress = Stress(Path(folder), seed)
        stress.run(min(100, actions // 4))
        before = settled()
        before["tasks"] += ARROW
        for taken in range(0, actions, 2000):
            stress.run(min(2000, actions - taken))
            now = settled(before)
            print(min(taken + 2000, actions), now, flush=True)
            for name in before.keys() - {"MiB"}:
                assert now[name] <= before[name], (name, before, now)
        assert now["MiB"] <= before["MiB"] + 64, (before, now)
        print(stress.counts)


def test_random_uses_of_loaders_leave_nothing_and_lose_nothing() -> None:
    command = [sys.executable, __file__, str(ACTIONS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
