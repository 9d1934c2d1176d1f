"""A conversion on Ray whose worker is killed in the middle ends with the bytes of a local one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers.datasets import read_files
from helpers.options import convert_options

import stoker

PHOTOGRAPHS = Path(__file__).parents[3] / "examples" / "photos"
OPTIONS = {"shards": 8, "seed": 5, "resize": "shorter=300", "encoding": "png"}

# Each process of Ray runs this as it starts. It kills the first worker that has written a shard and not yet
# renamed it, and no other.
DIES = """
import os, signal, sys
from pathlib import Path

killed = Path(__file__).with_name("killed")

def dies_once(path):
    sync(path)
    try:
        killed.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

if "default_worker.py" in "".join(sys.orig_argv) and not killed.exists():
    from stoker.formats.conversion import shard
    sync, shard.sync = shard.sync, dies_once
"""

CONVERT = """
import json, sys
import ray, stoker

# Ray gives its own processes half a minute to start, which is short on a busy machine: it gets more tries.
start = ray.init
def init(**options):
    for left in (2, 1, 0):
        try:
            return start(**options)
        except Exception:
            ray.shutdown()
            if not left:
                raise
ray.init = init

source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
options["storage"] = stoker.ImageStorage(shards=options.pop("shards"))
shown = []
summary = stoker.convert(
    source, target, engine="ray", num_threads=2, progress=lambda *state: shown.append(state), **options
)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)  # from here on, one that runs already
stoker.convert(source, f"file://{target}-url", engine="ray", **options)
ray.shutdown()
print(json.dumps([summary.written, summary.shards, shown[-1]]))
"""


def test_a_conversion_survives_a_killed_worker(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    local = stoker.convert(PHOTOGRAPHS, tmp_path / "local", **convert_options(OPTIONS))
    (tmp_path / "sitecustomize.py").write_text(DIES)
    # Names of sockets are short: there is no room for pytest's folder in them.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as temporary:
        run = subprocess.run(
            [sys.executable, "-c", CONVERT, PHOTOGRAPHS, tmp_path / "ray", json.dumps(OPTIONS)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
                "RAY_TMPDIR": temporary,
                "RAY_memory_monitor_refresh_ms": "0",  # no worker dies of memory that others take
            },
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    written, shards, shown = json.loads(run.stdout.splitlines()[-1])  # Ray prints the death before it
    assert (tmp_path / "killed").exists()
    assert (written, shards) == (local.written, local.shards) == (shown[0], 8)
    assert shown[3] == "publishing"
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "ray-url") == read_files(tmp_path / "local")


MAKE = """
import sys
import numpy as np
import stoker

def make(number):
    picture = np.full((8, 8, 3), number, np.uint8)
    return {"image": picture, "label": number % 2, "vector": np.arange(number % 3)}

stoker.convert(range(40), sys.argv[1], source_options=stoker.SourceOptions(make=make), engine=sys.argv[2],
    num_threads=2, storage=stoker.ImageStorage(shard_records=9))
"""


def test_samples_that_are_made_on_ray_are_those_that_processes_make(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for engine in ("local", "ray"):
        command = [sys.executable, "-c", MAKE, str(tmp_path / engine), engine]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")
