"""The choice between engines by their rates, which are measured once and cached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import run

from stoker.errors import EngineError
from stoker.pipeline.engines.selection.measured_choice import choose_by_rate
from stoker.pipeline.engines.selection.rate_cache import MeasuredRates, RateCache


class Rates:
    """Rates of engines, as a measurement finds them."""

    def __init__(self, **rates: float | Exception) -> None:
        self.rates = rates
        self.calls: list[tuple[str, float]] = []

    def __call__(self, name: str, seconds: float) -> float:
        self.calls.append((name, seconds))
        rate = self.rates[name]
        if isinstance(rate, Exception):
            raise rate
        return rate


def choose(rates: Rates, folder: Path, **conditions: Any) -> str:
    return choose_by_rate(
        ("dali", "native"),
        rates,
        conditions={"gpu": "NVIDIA H200", **conditions},
        dataset="/data/train",
        machine="NVIDIA H200, 16 threads",
        cache=RateCache("engine-rates", folder),
    )


@pytest.mark.parametrize(("dali", "native", "expected"), [(7000, 12000, "native"), (12000, 7000, "dali")])
def test_the_faster_engine_is_taken(tmp_path: Path, dali: float, native: float, expected: str) -> None:
    rates = Rates(dali=dali, native=native)
    assert choose(rates, tmp_path) == expected
    assert rates.calls == [("dali", 1.0), ("native", 1.0)]


def test_nothing_is_measured_twice(tmp_path: Path) -> None:
    assert choose(Rates(dali=1, native=2), tmp_path / "cache") == "native"
    again = Rates(dali=2, native=1)
    assert choose(again, tmp_path / "cache") == "native"
    assert again.calls == []


def test_another_dataset_or_machine_is_measured_anew(tmp_path: Path) -> None:
    choose(Rates(dali=1, native=2), tmp_path, dataset="a")
    assert choose(Rates(dali=2, native=1), tmp_path, dataset="b") == "dali"
    assert choose(Rates(dali=2, native=1), tmp_path, dataset="a", gpu="NVIDIA L4") == "dali"
    assert len(RateCache("engine-rates", tmp_path).all()) == 3


def test_an_engine_that_fails_is_not_taken(tmp_path: Path) -> None:
    assert choose(Rates(dali=EngineError("no memory"), native=5), tmp_path) == "native"
    with pytest.raises(EngineError, match="neither"):
        choose(Rates(dali=EngineError("no memory"), native=EngineError("neither")), tmp_path, gpu="")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 1, "measured": [{"key": 1}]}', '{"format": 2, "measured": []}']
)
def test_a_damaged_file_is_measured_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "engine-rates.json").write_text(content)
    assert choose(Rates(dali=1, native=2), tmp_path) == "native"
    assert json.loads((tmp_path / "engine-rates.json").read_text())["format"] == 1


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert choose(Rates(dali=1, native=2), tmp_path / "file" / "cache") == "native"


def test_the_oldest_measurements_are_dropped(tmp_path: Path) -> None:
    cache = RateCache("engine-rates", tmp_path)
    for number in range(102):
        cache.add(MeasuredRates(str(number), "d", "m", {"native": 1.0}))
    assert [rates.key for rates in cache.all()][::99] == ["2", "101"]


def test_the_doctor_shows_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "images/s" not in run("doctor")
    choose(Rates(dali=7000.4, native=12000), tmp_path / "stoker")
    found = "/data/train (NVIDIA H200, 16 threads): dali 7,000, native 12,000 images/s, takes native"
    assert found in run("doctor")
