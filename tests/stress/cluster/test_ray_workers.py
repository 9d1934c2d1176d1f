"""Workers on real Ray clusters of several nodes: kills, lost and added nodes, and an empty store after."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

BEGIN = """
import logging, os, random, signal, subprocess, sys, time
import numpy as np
import ray, stoker
from ray._private.internal_api import memory_summary
from ray.cluster_utils import Cluster
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop
from stoker.pipeline.images import image_pipeline

SCALE = 2.5  # custom functions go to the workers by value
def sharing(**options):
    return stoker.Reading(workers=stoker.RayWorkers(**options))

OPTIONS = {
    "batch_size": 4, "shuffle": True, "seed": 7, "engine": "native", "columns": ("image", "label", "key"),
    "transforms": [RandomResizedCrop(64), RandomHorizontalFlip(), lambda images: images * SCALE],
}

def workers():
    lines = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
    found = (line.split(maxsplit=1) for line in lines)
    return [int(pid) for pid, name in found if name.startswith("ray::BatchMaker")]

def until(done):
    for _ in range(2400):
        if done():
            return
        time.sleep(0.1)
    raise AssertionError("waited for four minutes")

def digest(batch):
    return batch.image.tobytes(), batch.label.tobytes(), tuple(batch.key)
"""

CLUSTER = (
    BEGIN
    + """
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
"""
)

FAULTS = (
    CLUSTER
    + """
ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
with stoker.ImageLoader(sys.argv[1], **OPTIONS) as alone:
    expected = [[digest(batch) for batch in alone] for _ in range(2)]
image_pipeline._MOST_TOGETHER = 2  # several requests in an epoch
draw = random.Random(int(sys.argv[2]))
loader = stoker.ImageLoader(sys.argv[1], **OPTIONS, reading=sharing(local=False))
def both_make_batches():
    loader.set_epoch(0)
    assert [digest(batch) for batch in loader] == expected[0]
    return len(loader.stats().makers) == 2
until(both_make_batches)  # one of them may start much later than the other
for epoch in range(6):
    loader.set_epoch(epoch % 2)
    for number, batch in enumerate(loader):
        assert digest(batch) == expected[epoch % 2][number]
        event = draw.random()
        if event < 0.03 and workers():
            os.kill(draw.choice(workers()), signal.SIGKILL)
        elif event < 0.05 and len(nodes) > 1:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
        elif event < 0.08 and len(nodes) < 3:
            nodes.append(cluster.add_node(num_cpus=1))
with stoker.ImageLoader(sys.argv[1], **OPTIONS) as alone:
    loader.set_epoch(1)
    running = iter(loader)
    next(running)
    alone.load_state_dict(loader.state_dict())
    assert [digest(batch) for batch in alone] == expected[1][1:]
loader.close()
until(lambda: not workers())
until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1 + len(nodes))  # lost ones cannot be asked
until(lambda: "0 MiB, 0 objects" in memory_summary(address=cluster.address, stats_only=True))
"""
)

TRAINER = (
    BEGIN
    + """
loader = stoker.ImageLoader(
    sys.argv[1], **OPTIONS, reading=sharing(address=sys.argv[2], local=False)
)
while True:
    for batch in loader:
        print("a batch", flush=True)
"""
)

KILLED = (
    CLUSTER
    + f"TRAINER = {TRAINER!r}"
    + """
for end in (signal.SIGKILL, signal.SIGINT):
    command = [sys.executable, "-c", TRAINER, sys.argv[1], cluster.address]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for _ in range(5):
        assert trainer.stdout.readline() == "a batch\\n"
    until(lambda: len(workers()) == 2)
    trainer.send_signal(end)
    trainer.wait(60)
    until(lambda: not workers())
ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
until(lambda: "0 MiB, 0 objects" in memory_summary(address=cluster.address, stats_only=True))
"""
)

LOST = (
    CLUSTER
    + """
with stoker.ImageLoader(sys.argv[1], **OPTIONS) as alone:
    expected = [digest(batch) for batch in alone]
loader = stoker.ImageLoader(
    sys.argv[1], **OPTIONS, reading=sharing(address=cluster.address, local=False)
)
running = iter(loader)
found = [digest(next(running)) for _ in range(2)]
if sys.argv[2] == "gcs":
    cluster.head_node.kill_gcs_server(check_alive=False)
else:
    cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
for node in nodes:
    node.kill_all_processes(check_alive=False, allow_graceful=False)
began = time.monotonic()
found += [digest(batch) for batch in running]
assert found == expected
while time.monotonic() - began < 75:  # a minute after the loss Ray used to end the process
    loader.set_epoch(0)
    assert [digest(batch) for batch in loader] == expected
    time.sleep(1)
loader.close()
print("alone", flush=True)
os._exit(0)  # Ray's own end waits for the cluster
"""
)


@pytest.fixture
def temporary() -> Iterator[str]:
    # Names of sockets are short: there is no room for pytest's folder in them.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


def run(program: str, temporary: str, *arguments: object) -> str:
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={
            **os.environ,
            "RAY_TMPDIR": temporary,
            "RAY_memory_monitor_refresh_ms": "0",  # no worker dies of memory that others take
            "RAY_gcs_rpc_server_reconnect_timeout_s": "100000",  # programs import Ray first
        },
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


@pytest.mark.parametrize("seed", range(2))
def test_batches_are_those_of_one_process_while_real_workers_die(
    seed: int, thumbnails: Path, temporary: str
) -> None:
    run(FAULTS, temporary, thumbnails, seed)


def test_nothing_is_left_of_a_trainer_that_is_killed_or_interrupted(thumbnails: Path, temporary: str) -> None:
    run(KILLED, temporary, thumbnails)


@pytest.mark.parametrize("part", ["gcs", "all"])
def test_a_trainer_survives_its_cluster(part: str, thumbnails: Path, temporary: str) -> None:
    assert "alone" in run(LOST, temporary, thumbnails, part)
