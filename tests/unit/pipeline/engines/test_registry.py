"""What a loader of images runs on, on machines with and without GPUs and DALI."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.engines.devices import BatchPlacement, Machine
from stoker.pipeline.engines.registry import ENGINES, ExecutionPlan, choose_engine, plan_execution
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
        (2, True, "auto", None, 0, ("dali", "cuda:0")),
        (2, True, "auto", None, 3, ("dali", "cuda:1")),
        (2, False, "auto", None, 0, ("native", "cpu")),
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
    ("gpus", "needs", "expected"),
    [
        (1, PLAIN, ("dali", "cuda:0")),
        (1, NATIVE_ALONE, ("native", "cpu")),
        (1, REFERENCE_ALONE, ("reference", "cpu")),
        (0, REFERENCE_ALONE, ("reference", "cpu")),
    ],
)
def test_auto_takes_an_engine_that_executes_the_transforms(
    gpus: int, needs: frozenset[str], expected: tuple[str, str]
) -> None:
    assert choose_engine("auto", None, needs, Machine(cores=2, gpus=gpus, has_dali=True), 0) == expected


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


def test_a_framework_that_sees_no_gpu_has_its_batches_on_the_cpu() -> None:
    assert plan(sees_gpu=False).engine == "native"
    assert plan(sees_gpu=False).placement == BatchPlacement("cpu", pin_memory=False)
    assert plan(sees_gpu=False, gpus=0).placement == BatchPlacement(None, pin_memory=False)
    assert plan(sees_gpu=True).placement == BatchPlacement("cuda:0", pin_memory=False)


@pytest.mark.parametrize(("gpus", "device"), [(0, None), (2, "cpu"), (2, "cuda:1")])
def test_a_framework_is_not_asked_for_gpus_in_vain(gpus: int, device: str | None) -> None:
    """To answer, some frameworks start CUDA, which a process cannot use after a fork."""

    def asked() -> bool:
        raise AssertionError

    plan("native", device, gpus=gpus, framework_sees_gpu=asked)


def test_batches_made_on_the_cpu_go_to_the_gpu_through_pinned_memory() -> None:
    assert plan("native", "cuda:1").placement == BatchPlacement("cuda:1", pin_memory=True)
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


@pytest.mark.parametrize("fastest", ["dali", "native"])
def test_batches_are_on_the_gpu_whichever_engine_is_faster(fastest: str) -> None:
    asked = []

    def choose(engines: tuple[str, ...], device: str) -> str:
        asked.append((engines, device))
        return fastest

    ranks = Process(local_rank=1, local_world_size=2, world_size=2)
    chosen = plan(fastest=choose, ranks=ranks)
    assert asked == [(("dali", "native"), "cuda:1")]
    assert chosen.engine == fastest
    assert chosen.placement == BatchPlacement("cuda:1", pin_memory=fastest == "native")


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": 0},
        {"machine": Machine(cores=4, gpus=2, has_dali=False)},
        {"device": "cpu"},
        {"engine": "native"},
        {"engine": "dali"},
        {"sees_gpu": False},
        {"needs": NATIVE_ALONE},
    ],
)
def test_engines_are_not_measured_where_there_is_no_choice(changes: dict[str, Any]) -> None:
    def measure(engines: tuple[str, ...], device: str) -> str:
        raise AssertionError

    plan(fastest=measure, **changes)


def test_every_row_has_the_name_and_the_needs_of_its_engine() -> None:
    assert [row.name for row in ENGINES.values()] == list(ENGINES) == ["native", "dali", "reference"]
    assert ENGINES["reference"].executes is None
    assert "Table" in (ENGINES["native"].executes or ())
