"""What a loader of images runs on, on machines with and without GPUs and DALI."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.engines.devices import BatchPlacement, Machine
from stoker.pipeline.engines.registry import ENGINES, ExecutionPlan, choose_engine, executes, plan_execution
from stoker.pipeline.execution.ranks import Process

PLAIN: frozenset[str] = frozenset()
NATIVE_ALONE = frozenset({"noise"})
REFERENCE_ALONE = frozenset({"StepOfAUser"})


def plan(
    engine: str = "auto", device: str | None = None, *, gpus: int = 2, sees_gpu: bool = True, **changes: Any
) -> ExecutionPlan:
    arguments = {
        "needs": PLAIN,
        "machine": Machine(cores=12, gpus=gpus, has_dali=True),
        "ranks": Process(),
        "framework_sees_gpu": lambda: sees_gpu,
        "copies_from_pinned": True,
        "pin_memory": False,
        "num_threads": None,
        "batch_size": 8,
        "prefetch": 16,
        **changes,
    }
    return plan_execution(engine, device, **arguments)


@pytest.mark.parametrize(
    ("gpus", "dali", "engine", "device", "local_rank", "expected"),
    [
        (0, True, "auto", None, 0, ("native", "cpu")),
        (0, True, "dali", None, 0, ("dali", "cpu")),
        (0, False, "auto", "cpu", 0, ("native", "cpu")),
        (2, True, "auto", None, 0, ("native", "cpu")),
        (2, True, "auto", "cuda", 3, ("dali", "cuda:1")),
        (2, True, "auto", "cuda:1", 0, ("dali", "cuda:1")),
        (2, False, "auto", None, 0, ("native", "cpu")),
        (2, True, "dali", None, 3, ("dali", "cuda:1")),
        (2, True, "auto", "cpu", 1, ("native", "cpu")),
        (2, True, "native", "cuda:1", 0, ("native", "cpu")),
        (2, True, "reference", None, 0, ("reference", "cpu")),
        (2, True, "dali", "cpu", 0, ("dali", "cpu")),
        (2, True, "dali", "cuda:1", 0, ("dali", "cuda:1")),
        (2, True, "dali", "cuda", 1, ("dali", "cuda:1")),
        (2, False, "auto", "cuda:1", 0, ("native", "cpu")),
    ],
)
def test_an_engine_runs_on_the_named_device_or_on_the_gpu_of_its_rank_if_it_can(
    gpus: int, dali: bool, engine: str, device: str | None, local_rank: int, expected: tuple[str, str]
) -> None:
    machine = Machine(cores=2, gpus=gpus, has_dali=dali)
    assert choose_engine(engine, device, PLAIN, machine, local_rank) == expected


@pytest.mark.parametrize(
    ("device", "needs", "expected"),
    [
        ("cuda", PLAIN, ("dali", "cuda:0")),
        ("cuda", NATIVE_ALONE, ("native", "cpu")),
        ("cuda", REFERENCE_ALONE, ("reference", "cpu")),
        (None, REFERENCE_ALONE, ("reference", "cpu")),
    ],
)
def test_auto_takes_an_engine_that_executes_the_transforms(
    device: str | None, needs: frozenset[str], expected: tuple[str, str]
) -> None:
    assert choose_engine("auto", device, needs, Machine(cores=2, gpus=1, has_dali=True), 0) == expected


def test_custom_steps_that_come_last_run_in_the_native_engine() -> None:
    assert plan(needs=REFERENCE_ALONE, last_custom=REFERENCE_ALONE).engine == "native"
    assert plan(needs=REFERENCE_ALONE | {"Other"}, last_custom=REFERENCE_ALONE).engine == "reference"
    with pytest.raises(ConfigError, match=r"(?s)need: StepOfAUser.*'native' executes it"):
        plan("dali", needs=REFERENCE_ALONE, last_custom=REFERENCE_ALONE)


def test_unknown_engines_and_devices_and_needs_of_other_engines_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="must be one of 'auto', 'native', 'dali', 'reference', found 'fast'"
    ):
        plan("fast")
    with pytest.raises(ConfigError, match="'cuda:2' was asked for and 2 GPUs are visible"):
        plan("auto", "cuda:2")
    with pytest.raises(ConfigError, match=r"(?s)what the transforms need: noise.*'native' executes it"):
        plan("dali", needs=NATIVE_ALONE)
    with pytest.raises(ConfigError, match=r"(?s)need: StepOfAUser.*'reference' \(slowly\) executes it"):
        plan("native", needs=REFERENCE_ALONE)


def test_dali_leaves_images_where_the_framework_can_hold_them() -> None:
    assert plan("dali", sees_gpu=True).placement == BatchPlacement("cuda:0", pin_memory=False)
    assert plan("dali", sees_gpu=False).placement == BatchPlacement("cpu", pin_memory=False)
    assert plan("dali", sees_gpu=False, gpus=0).placement == BatchPlacement(None, pin_memory=False)


@pytest.mark.parametrize(("engine", "device"), [("auto", None), ("dali", "cpu"), ("dali", "cuda:1")])
def test_a_framework_is_not_asked_for_gpus_in_vain(engine: str, device: str | None) -> None:
    """To answer, some frameworks start CUDA, which a process cannot use after a fork."""

    def asked() -> bool:
        raise AssertionError

    plan(engine, device, framework_sees_gpu=asked)


def test_batches_made_on_the_cpu_go_to_the_gpu_through_pinned_memory() -> None:
    assert plan("native", "cuda:1").placement == BatchPlacement("cuda:1", pin_memory=True)
    assert plan("auto", "cuda:1", needs=NATIVE_ALONE).placement == BatchPlacement("cuda:1", pin_memory=True)
    assert plan("dali", "cuda:1").placement == BatchPlacement("cuda:1", pin_memory=False)


def test_threads_are_shared_with_the_ranks_of_the_machine() -> None:
    assert plan(ranks=Process(local_world_size=4, world_size=4)).num_threads == 3
    assert plan(ranks=Process(local_world_size=16, world_size=16)).num_threads == 1
    assert plan(ranks=Process(local_world_size=4, world_size=4), num_threads=7).num_threads == 7


def test_an_engine_holds_no_more_batches_than_the_prefetcher() -> None:
    assert plan("native").depth == 3  # 12 threads, two samples each, in batches of 8
    assert plan("native", batch_size=1000).depth == 2
    assert plan("native", prefetch=1).depth == 1
    assert plan("dali").depth == 4


def test_every_engine_has_a_row_and_knows_what_it_executes() -> None:
    assert list(ENGINES) == ["native", "dali", "reference"]
    assert executes("native", frozenset({"Table"}))
    assert not executes("dali", frozenset({"Table"}))
    assert executes("reference", REFERENCE_ALONE)
