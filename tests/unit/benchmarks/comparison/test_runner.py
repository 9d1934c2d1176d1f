"""The runner of a comparison: its results, and the processes of the loaders."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from helpers.annotations import FOLDERS
from helpers.processes import wait_until

import stoker
from stoker.augment import Letterbox, save_recipe
from stoker.benchmarks.comparison.bench import run_bench
from stoker.benchmarks.comparison.runner import ComparisonPlan, PeerGone, PeerProcess
from stoker.benchmarks.comparison.usage import usage_of_tree
from stoker.benchmarks.peers.base import PeerSettings
from stoker.errors import ConfigError

PHOTOGRAPHS = Path(__file__).parents[4] / "examples" / "photos" / "val"
CORES = sorted(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "val"
    stoker.convert(PHOTOGRAPHS, folder, storage=stoker.ImageStorage(shards=2))
    return folder


def test_a_comparison_of_stoker_alone_has_all_figures(dataset, tmp_path):
    lines = []
    found = run_bench(
        dataset,
        [],
        tmp_path / "out.json",
        rounds=2,
        batch_size=16,
        num_threads=1,
        size=64,
        min_seconds=0.05,
        report=lines.append,
    )
    (peer,) = found.measured()
    assert (peer.name, found.records, len(peer.images_per_second)) == ("stoker", 48, 2)
    assert min(peer.images_per_second) > 0
    assert peer.first_batch_seconds > 0
    assert peer.peak_rss > 10 << 20
    assert peer.versions["numpy"]
    assert found.machine["cores"] == 1
    assert lines == ["stoker: preparing", "round 1 of 2: stoker", "round 2 of 2: stoker"]
    (document,) = json.loads((tmp_path / "out.json").read_text())
    assert document["workload"] == "val"
    assert os.uname().nodename not in (tmp_path / "out.json").read_text()


def test_a_comparison_takes_a_recipe_of_detection(tmp_path):
    made = FOLDERS["coco"](tmp_path / "source")
    stoker.convert(made.src, tmp_path / "shards", encoding="jpeg")
    save_recipe([Letterbox(32)], tmp_path / "recipe.json")
    options = {"batch_size": 2, "rounds": 1, "num_threads": 1, "min_seconds": 0.01, "min_size": 2}
    found = run_bench(tmp_path / "shards", [], transforms=str(tmp_path / "recipe.json"), **options)
    assert [(peer.name, peer.missing) for peer in found.peers] == [("stoker", "")]
    assert found.settings["min_size"] == 2


@pytest.mark.skipif(importlib.util.find_spec("ffcv") is not None, reason="FFCV is installed")
def test_a_loader_that_is_not_installed_is_in_the_result_with_the_reason(dataset):
    found = run_bench(
        dataset, ["ffcv"], rounds=1, batch_size=8, num_threads=1, size=32, min_seconds=0.01, engines=()
    )
    assert found.peers[0].missing == "ModuleNotFoundError: No module named 'ffcv'"


def test_a_batch_that_the_dataset_does_not_fill_is_refused(dataset):
    with pytest.raises(ConfigError, match="48 samples do not fill one batch of 64"):
        run_bench(dataset, [], batch_size=64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peers": ("stoker", "petastorm")}, "petastorm"),
        ({"peers": ()}, "one or more different names"),
        ({"peers": ("dali", "dali")}, "one or more different names"),
        ({"cores": ()}, "at least one core"),
        ({"rounds": 0}, "rounds"),
        ({"min_seconds": 0}, "min_seconds"),
    ],
)
def test_a_plan_checks_itself(change, message):
    with pytest.raises(ConfigError, match=message):
        ComparisonPlan(**{"peers": ("stoker",), "settings": PeerSettings(), "cores": (0,), **change})


def test_a_failure_of_a_peer_is_its_reason_and_the_process_continues():
    with PeerProcess("stoker", CORES[:1], 1) as process:
        with pytest.raises(PeerGone, match="AttributeError"):
            process.ask("dance")
        assert process.ask("import")["versions"]["numpy"]


def test_a_process_that_ends_is_noticed_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with PeerProcess("stoker", CORES[:1], 1) as process:
        process.ask("import")
        (temporary,) = set(tmp_path.iterdir())
        os.kill(process.pid, 9)
        with pytest.raises(PeerGone, match="ended in 'warm_up'"):
            process.ask("warm_up")
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert not temporary.exists()


def test_a_process_is_stopped_between_its_answers():
    with PeerProcess("stoker", CORES[:1], 1) as process:
        process.ask("import")
        wait_until(lambda: state(process.pid) == "T")


def test_a_peer_ends_when_its_runner_is_killed(tmp_path):
    # The helper is like a worker of a DataLoader: it is in the group of the peer, and stopped with it.
    code = f"""
import os, signal, subprocess
from stoker.benchmarks.comparison.runner import PeerProcess
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
peer = PeerProcess("stoker", {CORES[:1]}, 1)
peer.ask("import")
helper = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: os.setpgid(0, peer.pid))
os.kill(helper.pid, signal.SIGSTOP)
print(helper.pid, peer.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        # The kernel sends no SIGHUP if the new parent, init, is in the same session, as in a container.
        start_new_session=True,
    ) as runner:
        pids = [int(pid) for pid in runner.stdout.readline().split()]
        assert len(pids) == 2
        wait_until(lambda: all(state(pid) == "T" for pid in pids))
        runner.kill()
    wait_until(lambda: all(state(pid) in ("Z", "") for pid in pids))


def state(pid):
    """Return the state of a process in /proc; empty after its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def test_usage_counts_the_time_and_memory_of_this_process():
    before = usage_of_tree(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = usage_of_tree(os.getpid())
    assert after.cpu_seconds > before.cpu_seconds
    assert after.peak_rss >= 10 << 20
