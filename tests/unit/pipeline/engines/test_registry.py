"""What a loader of images runs on, on machines with and without GPUs and DALI."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.engines import registry
from stoker.pipeline.engines.registry import (
    ENGINES,
    BatchPlacement,
    ExecutionPlan,
    Machine,
    choose_engine,
    choose_placement,
    device_name,
    executes,
    numbered_device,
    plan_execution,
    select_visible,
    visible_gpus,
)
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


FOUR_GPUS = Machine(cores=8, gpus=4, has_dali=False)


def test_devices_of_frameworks_are_named_by_their_text() -> None:
    class Device:
        def __str__(self) -> str:
            return "cuda:1"

    assert device_name(Device()) == device_name("cuda:1") == "cuda:1"
    assert device_name("cpu:0") == device_name("cpu") == "cpu"
    assert device_name(None) is None


def test_a_gpu_of_jax_has_the_number_of_this_process() -> None:
    class Device:
        """The second process's first GPU, in a job of two GPUs for each process."""

        platform = "gpu"
        local_hardware_id = 0

        def __str__(self) -> str:
            return "cuda:2"

    assert device_name(Device()) == "cuda:0"


def test_cuda_without_a_number_is_the_gpu_of_the_rank() -> None:
    assert numbered_device("cuda", FOUR_GPUS, 6) == "cuda:2"
    assert numbered_device("cuda:3", FOUR_GPUS, 6) == "cuda:3"
    assert numbered_device("cpu", FOUR_GPUS, 6) == "cpu"
    assert numbered_device(None, FOUR_GPUS, 6) is None


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "device must be 'cpu', 'cuda' or 'cuda:N', found 'gpu'"),
        ("0", "device must be 'cpu', 'cuda' or 'cuda:N', found '0'"),
        ("cuda:x", "found 'cuda:x'"),
        ("cuda:4", "'cuda:4' was asked for and 4 GPUs are visible"),
    ],
)
def test_a_name_of_no_device_of_the_machine_is_refused(device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        numbered_device(device, FOUR_GPUS, 0)


@pytest.mark.parametrize(
    ("device", "made_on", "pin_memory", "copies_from_pinned", "expected"),
    [
        (None, "cpu", False, True, BatchPlacement(None, pin_memory=False)),
        (None, "cpu", True, True, BatchPlacement(None, pin_memory=True)),
        ("cpu", "cpu", False, True, BatchPlacement("cpu", pin_memory=False)),
        ("cuda:1", "cpu", False, True, BatchPlacement("cuda:1", pin_memory=True)),
        ("cuda:1", "cpu", False, False, BatchPlacement("cuda:1", pin_memory=False)),
        (None, "cuda:2", False, True, BatchPlacement("cuda:2", pin_memory=False)),
        ("cuda:1", "cuda:1", False, True, BatchPlacement("cuda:1", pin_memory=False)),
    ],
)
def test_batches_are_on_the_named_device_or_where_they_are_made(
    device: str | None, made_on: str, pin_memory: bool, copies_from_pinned: bool, expected: BatchPlacement
) -> None:
    placement = choose_placement(
        device, made_on=made_on, pin_memory=pin_memory, copies_from_pinned=copies_from_pinned
    )
    assert placement == expected


UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-cc33", "GPU-dd44"]


def fake_nvml(calls: list[str], status: int = 0) -> Any:
    """NVML of a machine with four GPUs."""

    def init() -> int:
        calls.append("init")
        return status

    def count(number: Any) -> int:
        number._obj.value = len(UUIDS)
        return 0

    def handle(number: Any, device: Any) -> int:
        device._obj.value = number.value + 1
        return 0

    def uuid(device: Any, text: Any, length: Any) -> int:
        text.value = UUIDS[device.value - 1].encode()
        return 0

    def name(device: Any, text: Any, length: Any) -> int:
        text.value = f"NVIDIA {'ABCD'[device.value - 1]}".encode()
        return 0

    return SimpleNamespace(
        nvmlInit_v2=init,
        nvmlDeviceGetCount_v2=count,
        nvmlDeviceGetHandleByIndex_v2=handle,
        nvmlDeviceGetUUID=uuid,
        nvmlDeviceGetName=name,
        nvmlShutdown=lambda: calls.append("shutdown"),
    )


def use(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Load this NVML, or none, from here on; return the names of the libraries that are loaded."""
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        if nvml is None:
            raise OSError
        return nvml

    monkeypatch.setattr(registry.ctypes, "CDLL", load)
    return loaded


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 4),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("2,0", 2),
        (" 1 , 3 ", 2),
        ("0,-1,2", 1),
        ("0,7,1", 1),
        ("1,1", 0),
        ("none", 0),
        ("GPU-cc33,GPU-aa11", 2),
        ("GPU-a", 0),
        ("GPU-ab", 1),
        ("GPU-ee", 0),
        ("GPU-aa11,0", 0),
        ("MIG-1234,MIG-5678", 1),
    ],
)
def test_cuda_visible_devices_names_gpus_by_the_rules_of_cuda(visible: str | None, count: int) -> None:
    assert len(select_visible(UUIDS, visible)) == count


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        (None, [(0, "NVIDIA A"), (1, "NVIDIA B"), (2, "NVIDIA C"), (3, "NVIDIA D")]),
        ("2,GPU-ab", [(2, "NVIDIA C"), (1, "NVIDIA B")]),
        ("MIG-1234", [(None, "")]),
    ],
)
def test_gpus_have_the_order_of_cuda_and_the_numbers_of_nvml(
    visible: str | None, gpus: list[tuple[int | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(fake_nvml([]), monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_gpus() == gpus


def test_the_library_of_cuda_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    loaded = use(fake_nvml(calls), monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert len(visible_gpus()) == 4
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-cc33")
    assert len(visible_gpus()) == 1
    assert set(loaded) == {"libnvidia-ml.so.1"}
    assert calls == ["init", "shutdown"] * 2


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use(None, monkeypatch)
    assert visible_gpus() == []
    calls: list[str] = []
    use(fake_nvml(calls, status=9), monkeypatch)  # NVML_ERROR_DRIVER_NOT_LOADED
    assert visible_gpus() == []
    assert calls == ["init"]
