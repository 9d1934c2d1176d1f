"""The conditions of a cached rate of an engine: a change of one of them leads to a new measurement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.augment import CenterCrop
from stoker.pipeline.engines.devices import Machine
from stoker.pipeline.engines.selection import rate_conditions
from stoker.pipeline.engines.selection.rate_conditions import machine_conditions
from stoker.pipeline.images import engine_setup as setup


class Measured(Exception):  # noqa: N818 - ends the making of a loader, no error
    """A measurement was asked for under these conditions."""


@pytest.fixture
def conditions_of(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``conditions_of(**options)``: conditions of a measurement for a loader, on a machine with two GPUs."""

    def choose(engines: Any, measure: Any, *, conditions: Mapping[str, Any], **_: Any) -> str:
        raise Measured(dict(conditions))

    # The machine of the test may have no GPU.
    monkeypatch.setattr(setup, "this_machine", lambda device: Machine(cores=4, gpus=2, has_dali=True))
    monkeypatch.setattr(setup, "choose_by_rate", choose)
    monkeypatch.setattr(rate_conditions, "gpu_model", lambda number: f"model of {number}")

    def conditions_of_loader(**options: Any) -> dict[str, Any]:
        arguments = {"batch_size": 4, "transforms": [CenterCrop(8)], "device": "cuda:0", **options}
        with pytest.raises(Measured) as measured:
            stoker.ImageLoader(thumbnails, **arguments)
        conditions: dict[str, Any] = measured.value.args[0]
        return conditions

    return conditions_of_loader


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"prefetch": 7}, "prefetch"),
        ({"device": "cuda:1"}, "gpu"),
        ({"num_threads": 2}, "threads"),
        ({"batch_size": 8}, "batch_size"),
        ({"dali": stoker.DaliOptions(hw_decoder_load=0.5)}, "dali"),
    ],
)
def test_a_loader_of_other_options_is_measured_anew(
    conditions_of: Any, options: dict[str, Any], name: str
) -> None:
    usual, changed = conditions_of(), conditions_of(**options)
    assert {key for key in usual if usual[key] != changed[key]} == {name}


def test_frameworks_are_measured_apart(conditions_of: Any) -> None:
    pytest.importorskip("torch")
    assert conditions_of()["framework"] == "numpy"
    assert conditions_of(output="torch")["framework"] == "torch"


def test_processor_gpu_and_version_of_dali_are_conditions(
    conditions_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(machine_conditions("cuda:1")) == {"cpu", "gpu", "dali_version"}
    # The machine of the test has one processor, and at most one version of DALI.
    monkeypatch.setattr(rate_conditions, "_cpu_model", lambda: "a processor")
    monkeypatch.setattr(rate_conditions, "_dali_version", lambda: "nvidia-dali-cuda130 2.4.0")
    conditions = conditions_of()
    assert conditions["cpu"] == "a processor"
    assert conditions["dali_version"] == "nvidia-dali-cuda130 2.4.0"
