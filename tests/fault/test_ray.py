"""A conversion on Ray whose worker is killed in the middle ends with the bytes of a local one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from stoker.errors import ConfigError, MissingDependencyError

PHOTOGRAPHS = Path(__file__).parents[2] / "examples" / "photos"
OPTIONS = {"shards": 8, "seed": 5, "resize": "shorter=300", "encoding": "png"}

CONVERT = """
import json, os, signal, sys, threading, time
from pathlib import Path
import ray, stoker

source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
state = Path(target) / ".stoker-convert"
killed = []

def workers():
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "cmdline").read_bytes().startswith(b"ray::_make"):
                    yield int(folder.name)
            except OSError:
                pass

def kill():
    while not killed:
        time.sleep(0.01)
        # One shard is done, others are being made.
        if any(state.glob("0*.json")) and (found := list(workers())):
            os.kill(found[0], signal.SIGKILL)
            killed.append(found[0])

threading.Thread(target=kill, daemon=True).start()
shown = []
summary = stoker.convert(
    source, target, engine="ray", num_workers=2, progress=lambda *state: shown.append(state), **options
)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)  # from here on, one that runs already
stoker.convert(source, f"file://{target}-url", engine="ray", **options)
print(json.dumps([killed, summary.written, summary.shards, shown[-1]]))
"""


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    local = stoker.convert(PHOTOGRAPHS, tmp_path / "local", **OPTIONS)
    run = subprocess.run(
        [sys.executable, "-c", CONVERT, PHOTOGRAPHS, tmp_path / "ray", json.dumps(OPTIONS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    killed, written, shards, shown = json.loads(run.stdout.splitlines()[-1])  # Ray itself tells of the death
    assert len(killed) == 1
    assert (written, shards) == (local.written, local.shards) == (shown[0], 8)
    assert shown[3] == "publishing"
    assert content(tmp_path / "ray") == content(tmp_path / "ray-url") == content(tmp_path / "local")


def test_another_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="engine must be one of local, ray, not 'spark'"):
        stoker.convert(PHOTOGRAPHS, tmp_path / "out", engine="spark")  # type: ignore[arg-type]  # the test


def test_without_ray_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"stoker\[ray\]"):
        stoker.convert(PHOTOGRAPHS, tmp_path / "out", engine="ray")
