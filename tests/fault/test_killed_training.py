"""A training run is killed ten times at any moment: its losses are those of the undisturbed run, to the bit.

One process that has imported everything forks a trainer for each attempt, so that the kills cost no
imports. Half of the kills come at a random moment, half while a checkpoint is being written.
"""

import subprocess
import sys
from pathlib import Path

import pytest

KILLER = """
import os, random, signal, sys, time
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

def save(folder, state, saving):
    temporary = folder / "checkpoint.new"
    with temporary.open("wb") as file:
        os.write(saving, b"s")
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / "checkpoint")

def train(folder, saving):
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 14 * 14, 61)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = stoker.ImageLoader(dataset, batch_size=4, shuffle=True, seed=3, output="torch",
                                transforms=TRANSFORMS, num_threads=2)
    epoch = step = 0
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
                    save(folder, state, saving)
    return step

def start(folder):
    folder.mkdir(exist_ok=True)
    heard, saving = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            train(folder, saving)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(5)
    os.close(saving)
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
usual = time.monotonic() - began
expected = losses(work / "reference")
assert len(expected) == EPOCHS * 16, len(expected)
assert all(len(found) == 1 for found in expected.values())
dice = random.Random(7)
killed = finished = torn = 0
while killed < kills or finished == 0:
    folder = work / f"run-{finished}"
    child, heard = start(folder)
    if killed >= kills:
        pass
    elif killed % 2:
        for _ in range(dice.randint(1, 4)):
            os.read(heard, 1)
        time.sleep(dice.random() * 0.002)
        os.kill(child, signal.SIGKILL)
    else:
        time.sleep(dice.random() * usual / 2)
        os.kill(child, signal.SIGKILL)
    code = wait(child)
    os.close(heard)
    assert code in (0, -signal.SIGKILL), code
    killed += code == -signal.SIGKILL
    torn += code != 0 and (folder / "checkpoint.new").exists()
    if code == 0:
        assert losses(folder) == expected
        finished += 1
print(killed, finished, torn)
"""


@pytest.mark.slow
def test_ten_kills(tmp_path: Path, thumbnails: Path) -> None:
    pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, "-c", KILLER, thumbnails, tmp_path, "10"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    killed, finished, torn = map(int, run.stdout.split())
    assert killed == 10
    assert finished > 0
    assert torn > 0, "some were killed while they wrote a checkpoint"
