"""Workers on a Ray cluster of two machines, which are network namespaces that a slow link joins.

Needs root and iproute2. Both namespaces, their processes and their addresses exist on this machine alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD, WORKER = "10.203.77.1", "10.203.77.2"

TRAINER = """
import logging, sys
from pathlib import Path
import numpy as np
import ray, stoker
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop

dataset, address, device = sys.argv[1:]
received = Path(f"/sys/class/net/{device}/statistics/rx_bytes")
quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
ray.init(address=f"{address}:6390", _node_ip_address=address, **quiet)
options = {
    "batch_size": 8, "shuffle": True, "seed": 7, "engine": "native", "dtype": "uint8",
    "columns": ("image", "key"), "transforms": [RandomResizedCrop(224), RandomHorizontalFlip()],
}
workers = stoker.RayWorkers(local=False, in_flight=1)
alone = stoker.ImageLoader(dataset, **options)
with alone, stoker.ImageLoader(dataset, **options, reading=stoker.Reading(workers=workers)) as shared:
    before = int(received.read_text())
    for _ in range(2):
        for batch, expected in zip(shared, alone, strict=True):
            assert np.array_equal(batch.image, expected.image)
            assert batch.key == expected.key
    moved = int(received.read_text()) - before
    (maker,) = shared.stats().makers
image = 224 * 224 * 3
ahead = 2 * 8 * 8 * image  # two requests of eight batches
assert maker.bytes == maker.samples * image
assert 2 * len(stoker.open(dataset)) <= maker.samples
assert maker.bytes <= moved <= 1.2 * (maker.bytes + ahead), (maker.bytes, moved)
print(maker.name)
"""


def ip(*arguments: str, within: str | None = None) -> str:
    command = ["ip", "netns", "exec", within, *arguments] if within else ["ip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces, of the head and of a worker, joined by a link of 200 Mbit/s."""
    if os.geteuid() or not (shutil.which("ip") and shutil.which("tc")):
        pytest.skip("network namespaces need root, and ip and tc of iproute2")
    names = (f"stoker-h{os.getpid()}", f"stoker-w{os.getpid()}")
    made: list[str] = []
    try:
        for name in names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"this machine lets no network namespace be made: {error.stderr.strip()}")
            made.append(name)
        ends = [("name", "eth9", "netns", name) for name in names]
        ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for name, address in zip(names, (HEAD, WORKER), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth9")
            for device in ("lo", "eth9"):
                ip("-n", name, "link", "set", device, "up")
            limit = ["root", "tbf", "rate", "200mbit", "burst", "256kb", "latency", "50ms"]
            ip("tc", "qdisc", "add", "dev", "eth9", *limit, within=name)
        yield names
    finally:
        for name in made:
            for process in ip("netns", "pids", name).split():
                os.kill(int(process), signal.SIGKILL)
            ip("netns", "del", name)


def test_batches_over_a_slow_link_are_those_of_one_process(
    namespaces: tuple[str, str], thumbnails: Path
) -> None:
    pytest.importorskip("ray")
    head, worker = namespaces
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:

        def run(name: str, *command: str) -> str:
            (Path(folder) / name[7]).mkdir(exist_ok=True)
            settings = {
                "RAY_TMPDIR": f"{folder}/{name[7]}",  # names of sockets are short
                "RAY_AUTH_MODE": "disabled",  # else only the head asks for a token, where the user has one
                "RAY_memory_monitor_refresh_ms": "0",
            }
            done = subprocess.run(
                ["ip", "netns", "exec", name, sys.executable, *command],
                env={**os.environ, **settings},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-5000:]
            return done.stdout

        start = ("-m", "ray.scripts.scripts", "start", "--object-store-memory=200000000")
        run(
            head,
            *start,
            "--head",
            "--port=6390",
            f"--node-ip-address={HEAD}",
            "--num-cpus=0",
            "--include-dashboard=false",
        )
        run(worker, *start, f"--address={HEAD}:6390", f"--node-ip-address={WORKER}", "--num-cpus=1")
        assert run(head, "-c", TRAINER, str(thumbnails), HEAD, "eth9").startswith(WORKER)
    assert " overlimits 0 " not in ip("tc", "-s", "qdisc", "show", "dev", "eth9", within=worker)
