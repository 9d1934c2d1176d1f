"""Conversions in processes that are killed or interrupted: no process is left, and the same call resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.chats import FOLDER, make_chats
from helpers.datasets import read_files
from helpers.options import text_options
from helpers.processes import wait_until

import stoker

OPTIONS = {"messages": "messages", "tokenizer": str(FOLDER / "tokenizer.json"), "shard_size": "256KB"}
TEXT = (
    "stoker.convert_text(sys.argv[1], sys.argv[2], processes=2, training=stoker.Training('messages'), "
    f"tokenizer={OPTIONS['tokenizer']!r}, shard_size='256KB')"
)
SAMPLES = (
    "stoker.convert(range(10**9), sys.argv[2], num_threads=2, source_options=stoker.SourceOptions(make=wait))"
)
PROGRAM = """
import sys, time, stoker
def wait(number):
    time.sleep(3600)
CALL
"""


def parents() -> dict[int, int]:
    """The parents of all processes that have not ended."""
    parent_of = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended
            continue
        if state != "Z":
            parent_of[int(path.parent.name)] = int(parent)
    return parent_of


def children(parent: int) -> list[int]:
    return [child for child, its_parent in parents().items() if its_parent == parent]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chats") / "chats.jsonl"
    path.write_text("\n".join(json.dumps(chat) for chat in make_chats() for _ in range(2000)))
    return path


def start(call: str, source: Path, target: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.replace("CALL", call), str(source), str(target)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def kill_parent(running: subprocess.Popen[str]) -> None:
    running.kill()


def interrupt(running: subprocess.Popen[str]) -> None:
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does


def kill_child(running: subprocess.Popen[str]) -> None:
    os.kill(children(running.pid)[0], signal.SIGKILL)


@pytest.mark.parametrize("call", [TEXT, SAMPLES])
@pytest.mark.parametrize(
    ("action", "message"),
    [(kill_parent, ""), (interrupt, "KeyboardInterrupt"), (kill_child, "a process that makes")],
)
def test_a_killed_or_interrupted_conversion_leaves_no_process_and_resumes(
    source: Path, tmp_path: Path, call: str, action: Callable[[subprocess.Popen[str]], None], message: str
) -> None:
    target = tmp_path / "d"
    with start(call, source, target) as running:
        wait_until(lambda: len(children(running.pid)) == 2)
        workers = children(running.pid)
        if call is TEXT:
            wait_until(lambda: any(target.rglob("*.json")))
        action(running)
        errors = running.communicate()[1]
    assert running.returncode != 0
    assert message in errors
    wait_until(lambda: not parents().keys() & set(workers), seconds=30)
    assert not (target / "dataset.json").exists()
    if call is TEXT:
        stoker.convert_text(source, target, processes=2, **text_options(OPTIONS))  # type: ignore[arg-type]  # of several types
        stoker.convert_text(source, tmp_path / "whole", **text_options(OPTIONS))  # type: ignore[arg-type]
        assert read_files(target) == read_files(tmp_path / "whole")
