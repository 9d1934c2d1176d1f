"""Devices: their names, their numbers, and where batches are handed out."""

from __future__ import annotations

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.engines.selection.devices import (
    BatchPlacement,
    Machine,
    choose_placement,
    device_name,
    numbered_device,
)

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
def test_batches_are_handed_out_on_the_named_device_or_where_they_are_made(
    device: str | None, made_on: str, pin_memory: bool, copies_from_pinned: bool, expected: BatchPlacement
) -> None:
    placement = choose_placement(
        device, made_on=made_on, pin_memory=pin_memory, copies_from_pinned=copies_from_pinned
    )
    assert placement == expected
