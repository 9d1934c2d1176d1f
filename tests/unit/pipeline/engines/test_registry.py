"""What a loader of images runs on, on machines with and without GPUs and DALI."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.engines import registry
from stoker.pipeline.engines.registry import (
    BatchPlacement,
    ExecutionPlan,
    Machine,
    choose_engine,
    device_name,
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
    ("gpus", "dali", "engine", "device", "local_rank", "needs", "expected"),
    [
        (0, True, "auto", None, 0, PLAIN, ("native", "cpu")),
        (0, True, "dali", None, 0, PLAIN, ("dali", "cpu")),
        (0, False, "auto", "cpu", 0, PLAIN, ("native", "cpu")),
        (2, True, "auto", None, 0, PLAIN, ("native", "cpu")),
        (2, True, "auto", "cuda", 3, PLAIN, ("dali", "cuda:1")),
        (2, True, "auto", "cuda:1", 0, PLAIN, ("dali", "cuda:1")),
        (2, False, "auto", None, 0, PLAIN, ("native", "cpu")),
        (2, True, "dali", None, 3, PLAIN, ("dali", "cuda:1")),
        (2, True, "auto", "cpu", 1, PLAIN, ("native", "cpu")),
        (2, True, "native", "cuda:1", 0, PLAIN, ("native", "cpu")),
        (2, True, "reference", None, 0, PLAIN, ("reference", "cpu")),
        (2, True, "dali", "cpu", 0, PLAIN, ("dali", "cpu")),
        (2, True, "dali", "cuda:1", 0, PLAIN, ("dali", "cuda:1")),
        (2, True, "dali", "cuda", 1, PLAIN, ("dali", "cuda:1")),
        (2, False, "auto", "cuda:1", 0, PLAIN, ("native", "cpu")),
        (1, True, "auto", "cuda", 0, NATIVE_ALONE, ("native", "cpu")),
        (1, True, "auto", "cuda", 0, REFERENCE_ALONE, ("reference", "cpu")),
        (1, True, "auto", None, 0, REFERENCE_ALONE, ("reference", "cpu")),
    ],
)
def test_an_engine_that_executes_the_transforms_runs_on_the_named_device_or_on_the_gpu_of_its_rank(
    gpus: int,
    dali: bool,
    engine: str,
    device: str | None,
    local_rank: int,
    needs: frozenset[str],
    expected: tuple[str, str],
) -> None:
    machine = Machine(cores=2, gpus=gpus, has_dali=dali)
    assert choose_engine(engine, device, needs, machine, local_rank) == expected


def test_custom_steps_that_come_last_run_in_the_native_engine() -> None:
    assert plan(needs=REFERENCE_ALONE, last_custom=REFERENCE_ALONE).engine == "native"
    assert plan(needs=REFERENCE_ALONE | {"Other"}, last_custom=REFERENCE_ALONE).engine == "reference"
    with pytest.raises(ConfigError, match=r"(?s)need: StepOfAUser.*'native' executes it"):
        plan("dali", needs=REFERENCE_ALONE, last_custom=REFERENCE_ALONE)


@pytest.mark.parametrize(
    ("engine", "device", "needs", "message"),
    [
        ("fast", None, PLAIN, "must be one of auto, native, dali, reference, found 'fast'"),
        ("dali", None, NATIVE_ALONE, r"(?s)what the transforms need: noise.*'native' executes it"),
        ("native", None, REFERENCE_ALONE, r"(?s)need: StepOfAUser.*'reference' \(slowly\) executes it"),
        ("auto", "gpu", PLAIN, "device must be 'cpu', 'cuda' or 'cuda:N', found 'gpu'"),
        ("auto", "0", PLAIN, "device must be 'cpu', 'cuda' or 'cuda:N', found '0'"),
        ("auto", "cuda:x", PLAIN, "found 'cuda:x'"),
        ("auto", "cuda:2", PLAIN, "'cuda:2' was asked for and 2 GPUs are visible"),
    ],
)
def test_unknown_engines_and_devices_and_needs_of_other_engines_are_refused(
    engine: str, device: str | None, needs: frozenset[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(engine, device, needs=needs)


@pytest.mark.parametrize(("engine", "device"), [("auto", None), ("dali", "cpu"), ("dali", "cuda:1")])
def test_a_framework_is_not_asked_for_gpus_in_vain(engine: str, device: str | None) -> None:
    """To answer, some frameworks start CUDA, which a process cannot use after a fork."""

    def asked() -> bool:
        raise AssertionError

    plan(engine, device, framework_sees_gpu=asked)


@pytest.mark.parametrize(
    ("engine", "device", "options", "expected"),
    [
        ("native", None, {}, (None, False)),
        ("native", None, {"pin_memory": True}, (None, True)),
        ("native", "cpu", {}, ("cpu", False)),
        ("native", "cuda:1", {}, ("cuda:1", True)),
        ("native", "cuda:1", {"copies_from_pinned": False}, ("cuda:1", False)),
        ("auto", "cuda:1", {"needs": NATIVE_ALONE}, ("cuda:1", True)),
        ("dali", "cuda:1", {}, ("cuda:1", False)),
        ("dali", None, {}, ("cuda:0", False)),
        ("dali", None, {"sees_gpu": False}, ("cpu", False)),
        ("dali", None, {"sees_gpu": False, "gpus": 0}, (None, False)),
    ],
)
def test_batches_are_on_the_named_device_or_where_they_are_made_and_the_framework_holds_them(
    engine: str, device: str | None, options: dict[str, Any], expected: tuple[str | None, bool]
) -> None:
    """Those that are made on the CPU go to a GPU through page-locked memory."""
    assert plan(engine, device, **options).placement == BatchPlacement(*expected)


def test_threads_are_shared_with_the_ranks_of_the_machine() -> None:
    assert plan(ranks=Process(local_world_size=4, world_size=4)).num_threads == 3
    assert plan(ranks=Process(local_world_size=16, world_size=16)).num_threads == 1
    assert plan(ranks=Process(local_world_size=4, world_size=4), num_threads=7).num_threads == 7


def test_an_engine_holds_no_more_batches_than_the_prefetcher() -> None:
    assert plan("native").depth == 3  # 12 threads, two samples each, in batches of 8
    assert plan("native", batch_size=1000).depth == 2
    assert plan("native", prefetch=1).depth == 1
    assert plan("dali").depth == 4


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
