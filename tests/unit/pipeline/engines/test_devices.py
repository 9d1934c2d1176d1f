"""Which engine runs where, on machines with and without GPUs and DALI."""

from __future__ import annotations

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.engines import devices


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> object:
    def pretend(gpus: int, dali: bool) -> None:
        monkeypatch.setattr(devices, "gpu_count", lambda: gpus)
        monkeypatch.setattr(devices, "has_dali", lambda: dali)

    return pretend


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
        (2, True, "dali", "cpu", 0, ("dali", "cpu")),
        (2, True, "dali", "cuda:1", 0, ("dali", "cuda:1")),
        (2, True, "dali", "cuda", 1, ("dali", "cuda:1")),
        (2, False, "auto", "cuda:1", 0, ("native", "cpu")),
    ],
)
def test_choice(
    machine: object,
    gpus: int,
    dali: bool,
    engine: str,
    device: str | None,
    local_rank: int,
    expected: tuple[str, str],
) -> None:
    machine(gpus, dali)
    assert devices.choose(engine, device, local_rank) == expected


def test_cuda_without_a_number_is_the_GPU_of_the_rank(machine: object) -> None:  # noqa: N802 - a GPU
    machine(4, True)
    assert devices.place("cuda", 6) == "cuda:2"
    assert devices.place("cuda:3", 6) == "cuda:3"
    assert devices.place("cpu", 6) == "cpu"


def test_devices_of_frameworks_are_named_by_their_text() -> None:
    class Device:
        def __str__(self) -> str:
            return "cuda:1"

    assert devices.as_text(Device()) == devices.as_text("cuda:1") == "cuda:1"
    assert devices.as_text("cpu:0") == devices.as_text("cpu") == "cpu"
    assert devices.as_text(None) is None
    with pytest.raises(ConfigError, match="device must be 'cpu', 'cuda' or 'cuda:N', found '0'"):
        devices.choose("auto", devices.as_text(0), 0)


@pytest.mark.parametrize(
    ("engine", "device", "message"),
    [
        ("fast", None, "engine must be 'auto', 'native', 'dali' or 'reference', found 'fast'"),
        ("auto", "gpu", "device must be 'cpu', 'cuda' or 'cuda:N', found 'gpu'"),
        ("auto", "cuda:x", "found 'cuda:x'"),
        ("auto", "cuda:2", "'cuda:2' was asked for and 2 GPUs are visible"),
    ],
)
def test_refusals(machine: object, engine: str, device: str | None, message: str) -> None:
    machine(2, True)
    with pytest.raises(ConfigError, match=message):
        devices.choose(engine, device, 0)


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise OSError

    monkeypatch.setattr(devices.ctypes, "CDLL", missing)
    assert devices.gpu_count.__wrapped__() == 0
