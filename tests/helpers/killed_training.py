"""A program that kills training runs, each in a process forked from this one, and lets the next one resume.

    python training.py DATASET FOLDER steps      at fixed steps and checkpoints: the trainer kills itself
    python training.py DATASET FOLDER moments    at ten random moments, or in random checkpoints

After each run that ends, the losses are those of the undisturbed run to the bit, steps done twice included.
"""

from __future__ import annotations

import io
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from helpers.loaders import image_arguments
from helpers.processes import die, end_of, fork
from torch import nn

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

EPOCHS, EVERY = 2, 2  # sixteen steps an epoch, and a checkpoint after every second step
TRANSFORMS = [RandomResizedCrop(16), RandomHorizontalFlip(), Normalize()]


@dataclass(frozen=True)
class Death:
    """Where a trainer kills itself: after its n-th step, or in its n-th checkpoint.

    It has then written a share of that checkpoint, or all of it, under a temporary name.
    """

    step: int = 0
    save: int = 0
    share: float = 1.0


NEVER = Death()
FIXED = (Death(step=5), Death(save=2, share=0.5), Death(save=1))


def save(folder: Path, state: dict[str, Any], death: Death, number: int) -> None:
    """Writes a checkpoint under another name and renames it."""
    content = io.BytesIO()
    torch.save(state, content)
    share = death.share if number == death.save else 1
    temporary = folder / "checkpoint.new"
    with temporary.open("wb") as file:
        file.write(content.getvalue()[: int(share * content.tell())])
        file.flush()
        if number == death.save:
            die()
        os.fsync(file.fileno())
    temporary.rename(folder / "checkpoint")


def train(dataset: str, folder: Path, death: Death) -> None:
    """Trains from the last checkpoint on and writes down the loss of each step."""
    torch.set_num_threads(1)  # several threads wait for each other on a busy machine
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 14 * 14, 61)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    options: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "num_threads": 2}
    loader = stoker.ImageLoader(dataset, **image_arguments(output="torch", transforms=TRANSFORMS, **options))
    epoch = step = steps = 0
    if (folder / "checkpoint").exists():
        saved = torch.load(folder / "checkpoint", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        torch.set_rng_state(saved["random"])
        epoch, step = saved["loader"]["epoch"], saved["step"]
    with (folder / "losses").open("a", buffering=1) as losses:
        for _ in range(epoch, EPOCHS):
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.write(f"{step} {loss.item().hex()}\n")
                step, steps = step + 1, steps + 1
                if steps == death.step:
                    die()
                if step % EVERY == 0:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    state |= {"loader": loader.state_dict(), "random": torch.get_rng_state(), "step": step}
                    save(folder, state, death, steps // EVERY)


class Runs:
    """Training runs in folders of their own, and the losses of an undisturbed one."""

    def __init__(self, dataset: str, folder: Path) -> None:
        self._dataset, self._folder = dataset, folder
        began = time.monotonic()
        assert not self.wait(self.start("undisturbed"))
        self.seconds = time.monotonic() - began
        self._expected = self.losses("undisturbed")
        assert len(self._expected) == EPOCHS * 16

    def start(self, name: str, death: Death = NEVER) -> int:
        """Forks a trainer and returns its process id."""
        (self._folder / name).mkdir(parents=True, exist_ok=True)
        return fork(lambda: train(self._dataset, self._folder / name, death))

    def wait(self, child: int) -> bool:
        """Waits for a trainer and returns whether it was killed."""
        code = end_of(child)
        assert code in (0, -signal.SIGKILL), code
        return code < 0

    def losses(self, name: str) -> dict[int, str]:
        """Returns the loss of each step; a step that several trainers did has the same in each."""
        found: dict[int, str] = {}
        for line in (self._folder / name / "losses").read_text().split("\n")[:-1]:
            step, loss = line.split()
            assert found.setdefault(int(step), loss) == loss, step
        return found

    def check(self, name: str) -> None:
        assert self.losses(name) == self._expected

    def kill_at_steps(self) -> int:
        """Kills a run by each death of ``FIXED`` and returns how many kills left an unfinished checkpoint."""
        torn = 0
        for death in FIXED:
            assert self.wait(self.start("killed", death))
            torn += (self._folder / "killed" / "checkpoint.new").exists()
        assert not self.wait(self.start("killed"))
        self.check("killed")
        return torn

    def kill_at_moments(self, kills: int = 10) -> int:
        """Kills runs at random moments and in random checkpoints, and returns how many runs ended."""
        dice, patience = random.Random(7), self.seconds / 2
        killed = ended = 0
        while killed < kills or not ended:
            name = f"run-{ended}"
            if killed % 2:
                child = self.start(name, Death(save=dice.randint(1, 4), share=dice.random()))
            else:
                child = self.start(name)
                if killed < kills:
                    time.sleep(dice.random() * patience)
                    os.kill(child, signal.SIGKILL)
            if self.wait(child):
                killed += 1
                continue
            self.check(name)
            ended += 1
            patience /= 2  # the machine is faster now, or the run was nearly done
        return ended


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    runs = Runs(sys.argv[1], Path(sys.argv[2]))
    print(runs.kill_at_steps() if sys.argv[3] == "steps" else runs.kill_at_moments())
