"""A conversion is killed a hundred times at any moment: it resumes and ends byte for byte the same.

One process that has imported everything forks a converter for each attempt, so that a hundred of
them cost a hundred conversions and no hundred imports.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

KILLER = """
import os, random, select, shutil, signal, sys, time
from pathlib import Path
import stoker
from stoker.errors import DatasetError
from stoker.formats.dataset.manifest import MANIFEST_NAME

# A killed process loses nothing that it has written, unlike a machine without power: no need to wait.
os.fsync = lambda descriptor: None
source, work, kind, kills = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
options = dict(format=kind, seed=3, shards=4, val="20%", num_threads=2, resize="shorter=8")
dice = random.Random(kind)

def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

def start(target):
    child = os.fork()
    if child == 0:
        try:
            stoker.convert(source, target, **options)
            os._exit(0)
        except DatasetError as error:
            # Killed after the last rename: it is finished, and that is what it says.
            os._exit(3 if "already" in str(error) else 4)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(5)
    return child

began = time.monotonic()
assert os.waitstatus_to_exitcode(os.waitpid(start(work / "reference"), 0)[1]) == 0
patience = time.monotonic() - began
expected = content(work / "reference")
killed = finished = visible = 0
while killed < kills:
    target = work / f"out-{finished}"
    child = start(target)
    ended = os.pidfd_open(child)
    select.select([ended], [], [], dice.random() * patience)
    os.close(ended)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 3, -signal.SIGKILL), code
    killed += code == -signal.SIGKILL
    # However slow or fast the machine has become meanwhile, some attempts finish and others do not.
    patience *= 1.25 if code == -signal.SIGKILL else 0.5
    for split in ("train", "val"):
        if (target / split / MANIFEST_NAME).exists():
            visible += 1
            stoker.open(target / split)
            wanted = {k: v for k, v in expected.items() if k.startswith(split)}
            assert {f"{split}/{k}": v for k, v in content(target / split).items()} == wanted
    if code in (0, 3):
        assert content(target) == expected, sorted(content(target).keys() ^ expected.keys())
        shutil.rmtree(target)
        finished += 1
target = work / f"out-{finished}"
assert os.waitstatus_to_exitcode(os.waitpid(start(target), 0)[1]) in (0, 3)
assert content(target) == expected
print(killed, finished, visible)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tfrecord", "lmdb"])
def test_fifty_kills_for_each_container(tmp_path: Path, make_jpeg: Callable[..., bytes], kind: str) -> None:
    source = tmp_path / "photos"
    for i in range(40):
        (source / f"class-{i % 4}").mkdir(parents=True, exist_ok=True)
        (source / f"class-{i % 4}" / f"{i}.jpg").write_bytes(make_jpeg(i))
    (tmp_path / "work").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", KILLER, source, tmp_path / "work", kind, "50"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    killed, finished, _ = map(int, run.stdout.split())
    assert killed == 50
    assert finished > 0
