"""A training run is killed ten times at any moment: its losses are those of the undisturbed run, to the bit.

One process that has imported everything forks a trainer for each attempt, so that the kills cost no
imports. Half of the kills come at a random moment, half while a checkpoint is being written: there the
trainer itself stops, somewhere in the bytes of one, and waits for its end.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLER = """
import io, os, random, signal, sys, time
from pathlib import Path
import torch
from torch import nn
import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

dataset, work, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
EPOCHS, EVERY = 3, 2
TRANSFORMS = [RandomResizedCrop(16), RandomHorizontalFlip(), Normalize()]

def save(folder, state, share, stopped):
    content = io.BytesIO()
    torch.save(state, content)
    temporary = folder / "checkpoint.new"
    with temporary.open("wb") as file:
        file.write(content.getvalue()[: int(share * content.tell())])
        file.flush()
        if share < 1:
            os.write(stopped, b"s")
            signal.pause()
        os.fsync(file.fileno())
    temporary.rename(folder / "checkpoint")

def train(folder, last_save, share, stopped):
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 14 * 14, 61)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = stoker.ImageLoader(dataset, batch_size=4, shuffle=True, seed=3, output="torch",
                                transforms=TRANSFORMS, num_threads=2)
    epoch = step = saves = 0
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
                losses.write(f"{step} {loss.item().hex()}\\n")
                step += 1
                if step % EVERY == 0:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    state |= {"loader": loader.state_dict(), "random": torch.get_rng_state(), "step": step}
                    saves += 1
                    save(folder, state, share if saves == last_save else 1, stopped)
    return step

def start(folder, last_save=0, share=1):
    folder.mkdir(exist_ok=True)
    heard, stopped = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            train(folder, last_save, share, stopped)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(5)
    os.close(stopped)
    return child, heard

def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def losses(folder):
    found = {}
    for line in (folder / "losses").read_text().split("\\n")[:-1]:
        step, loss = line.split()
        found.setdefault(int(step), set()).add(loss)
    return found

began = time.monotonic()
child, heard = start(work / "reference")
assert wait(child) == 0
os.close(heard)
patience = (time.monotonic() - began) / 2
expected = losses(work / "reference")
assert len(expected) == EPOCHS * 16, len(expected)
assert all(len(found) == 1 for found in expected.values())
dice = random.Random(7)
killed = finished = torn = 0
while killed < kills or finished == 0:
    folder = work / f"run-{finished}"
    if killed >= kills:
        child, heard = start(folder)
    elif killed % 2:
        child, heard = start(folder, dice.randint(1, 4), dice.random())
        os.read(heard, 1)  # nothing, where it ends before
        os.kill(child, signal.SIGKILL)
    else:
        child, heard = start(folder)
        time.sleep(dice.random() * patience)
        os.kill(child, signal.SIGKILL)
    code = wait(child)
    os.close(heard)
    assert code in (0, -signal.SIGKILL), code
    killed += code == -signal.SIGKILL
    torn += code != 0 and (folder / "checkpoint.new").exists()
    if code == 0:
        assert losses(folder) == expected
        finished += 1
        patience *= 0.5  # the machine has become faster, or it was a short one
print(killed, finished, torn)
"""


@pytest.mark.slow
def test_ten_kills(tmp_path: Path, thumbnails: Path) -> None:
    pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, "-c", KILLER, thumbnails, tmp_path, "10"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    killed, finished, torn = map(int, run.stdout.split())
    assert killed == 10
    assert finished > 0
    assert torn >= 5, "while they wrote a checkpoint"
