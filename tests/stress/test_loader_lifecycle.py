"""Loaders in processes that are interrupted at random moments, or that make many passes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from helpers.processes import run, run_until_signal

WAITING = """
from stoker.pipeline.execution.pipeline import Producer
finish = Producer.finish
def slow(self):
    if slow.calls == 3:
        print("ready", flush=True)
        slow.event.wait(0.7)
    slow.calls += 1
    return finish(self)
slow.calls, slow.event = 0, threading.Event()
Producer.finish = slow
for batch in make(): pass
time.sleep(600)
"""
BETWEEN_PASSES = """
loader = make()
for epoch in range(10**9):
    for batch in loader: pass
    if epoch == 3: print("ready", flush=True)
"""
IN_THE_STEP = "for batch in make(): print('ready', flush=True); time.sleep(600)"


def test_sigterm_in_a_step_ends_the_process(engine: str, thumbnails: Path) -> None:
    run_until_signal(engine, thumbnails, IN_THE_STEP, signal.SIGTERM)


@pytest.mark.parametrize(
    "code", [WAITING, BETWEEN_PASSES, IN_THE_STEP], ids=["waiting", "between passes", "in the step"]
)
def test_ctrl_c_ends_a_training_loop(engine: str, thumbnails: Path, code: str) -> None:
    assert "KeyboardInterrupt" in run_until_signal(engine, thumbnails, code, signal.SIGINT)


def test_nothing_grows_over_200_epochs(engine: str, thumbnails: Path) -> None:
    code = """
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
def descriptors():
    return len(os.listdir("/proc/self/fd"))
loader = make(prefetch=2, batch_size=16)
figures = []
for epoch in range(1, 201):
    for number, batch in enumerate(loader):
        if epoch % 3 == 0 and number == 1:
            break
    del batch
    if epoch in (50, 200):
        gc.collect()
        if figures:
            settled(tasks, figures[1])
        figures += [threading.active_count(), tasks(), descriptors(), resident()]
print(*figures)
"""
    figures = [int(figure) for figure in run(engine, thumbnails, code).split()]
    (threads, tasks, descriptors, resident), later = figures[:4], figures[4:]
    assert all(now <= before for now, before in zip(later, (threads, tasks, descriptors), strict=False))
    assert later[3] <= 1.05 * resident
