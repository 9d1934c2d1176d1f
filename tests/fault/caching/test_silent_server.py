"""A loader with a cache over HTTP whose server is silent."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.loaders import loader, received
from helpers.processes import wait_until

from stoker.formats.remote import store as file_system
from stoker.pipeline.caching.read_ahead import CachedEpoch


@pytest.mark.parametrize("end", ["close", "break", "drop"])
def test_ending_does_not_wait_for_a_silent_server(
    tmp_path: Path,
    server: Any,
    new_threads: Callable[[str], list[threading.Thread]],
    end: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Users choose no limit; the default is shorter than a busy machine may need.
    monkeypatch.setattr(file_system, "_SILENT_SECONDS", 300.0)
    remote = loader(server.url, cache=tmp_path)
    server.held.clear()
    batches = iter(remote)
    wait_until(lambda: server.count(".tfrecord") > 0)
    began = time.monotonic()
    if end == "close":
        remote.close()
    elif end == "break":
        remote.set_epoch(4)
        del batches
        server.held.set()
        assert len(received(remote)) == 20
        remote.close()
    else:
        del batches, remote
    assert time.monotonic() - began < 150  # a silent server counts as dead after 300
    wait_until(lambda: not new_threads("stoker-read-ahead"))
    wait_until(lambda: not new_threads("stoker-fetch"))
    server.held.set()
    (state,) = tmp_path.glob("*/.blocks")
    wait_until(lambda: state.resolve() not in {path.resolve() for path in Path("/proc/self/fd").iterdir()})


def test_the_interpreter_ends_without_waiting_for_a_silent_server(tmp_path: Path, server: Any) -> None:
    code = """
import sys, stoker
from stoker.augment import CenterCrop, Resize
reading = stoker.Reading(cache=stoker.Cache(sys.argv[2]))
loader = stoker.ImageLoader(sys.argv[1], reading=reading, batch_size=8, engine="native",
                            transforms=[Resize(32), CenterCrop(32)])
print("made", flush=True)
sys.stdin.readline()
batches = iter(loader)
sys.stdin.readline()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, server.url, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "made\n"
        server.held.clear()
        child.stdin.write("\n")
        child.stdin.flush()
        wait_until(lambda: server.count(".tfrecord") > 0)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.wait(timeout=300) == 0


def test_stats_name_the_server_that_a_batch_waited_for(
    source: Path, tmp_path: Path, serve: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, waits, wait = serve(source), threading.Event(), CachedEpoch.wait

    def waited_for(cached_epoch: CachedEpoch) -> None:
        waits.set()
        wait(cached_epoch)

    # From outside it cannot be seen when the loader begins to wait.
    monkeypatch.setattr(CachedEpoch, "wait", waited_for)
    with loader(server.url.replace("//", "//me:SECRET@"), cache=tmp_path) as remote:
        server.held.clear()
        batches = iter(remote)
        assert waits.wait(60)
        time.sleep(0.05)
        server.held.set()
        next(batches)
        assert remote.stats().producer["fetching"] >= 0.05
        next(batches)  # the verdict leaves out the first wait
        assert f"% of the time for data of {server.url} (engine 'native')." in remote.stats().verdict
    with loader(source) as local:
        next(iter(local))
        assert "fetching" not in local.stats().producer
