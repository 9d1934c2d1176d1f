"""The plan of a run: its order, its time, and the sizes of what it measures."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks.gpu.context import SCALES, Context, Refused
from stoker.benchmarks.gpu.runner import Step, write_json
from stoker.benchmarks.gpu.steps import planned_steps
from stoker.benchmarks.gpu.summary import summary


def context(scale: str = "full", folder: Path = Path("work")) -> Context:
    return Context("cuda:1", scale, folder, Path("sources"), folder / "results.json")


def until_the_tests(scale: str) -> list[Step]:
    steps = planned_steps(context(scale))
    return [*takewhile(lambda step: step.name != "tests", steps), next(s for s in steps if s.name == "tests")]


@pytest.mark.parametrize("scale", SCALES)
def test_the_most_telling_steps_come_first(scale: str) -> None:
    names = [step.name for step in planned_steps(context(scale))]
    assert names[:3] == ["machine", "data", "smoke full 0"]
    kinds = [" ".join(name.split()[: 2 if name.startswith("round") else 1]) for name in names]
    assert list(dict.fromkeys(kinds))[:9] == [
        "machine",
        "data",
        "smoke",
        "decode",
        "round 1",
        "tests",
        "overlap",
        "corrupt",
        "fork",
    ]
    assert len(set(names)) == len(names)
    if SCALES[scale].rounds > 1:
        assert names.index("round 1 imagenet torchvision") < names.index("round 2 imagenet stoker-dali")


def test_a_lease_is_enough_for_what_matters_most_even_if_every_step_hangs() -> None:
    assert sum(step.seconds for step in until_the_tests("short")) <= 540
    assert sum(step.expected for step in until_the_tests("short")) <= 300
    assert sum(step.expected for step in planned_steps(context("short"))) <= 720


@pytest.mark.parametrize("scale", SCALES)
def test_a_step_takes_less_than_its_deadline_by_estimate(scale: str) -> None:
    assert all(step.expected < step.seconds for step in planned_steps(context(scale)))


def test_a_context_crosses_the_command_line() -> None:
    assert Context.from_json(context().to_json()) == context()
    assert context().gpu_number == 1


def test_steps_need_what_earlier_ones_have_found(tmp_path: Path) -> None:
    own = context(folder=tmp_path)
    write_json(own.results_file, {"steps": {}})
    with pytest.raises(Refused, match="the datasets were not made"):
        own.made("imagenet")
    with pytest.raises(Refused, match="no way to decode has passed"):
        own.decoding()
    write_json(own.results_file, {"steps": {"data": {"found": {"imagenet": "data/imagenet"}}}})
    assert own.made("imagenet") == tmp_path / "data" / "imagenet"


def test_a_summary_has_medians_overlap_and_verdicts() -> None:
    def rate(number: int, loader: str, rate: float, **more: float) -> dict[str, Any]:
        found = {"dataset": "imagenet", "loader": loader, "images_per_second": rate, **more}
        return {f"round {number} imagenet {loader}": {"outcome": "done", "found": found}}

    steps: dict[str, Any] = {
        "smoke full 0": {"outcome": "done", "found": {"passed": True}},
        "smoke region 0": {"outcome": "crashed"},
        **rate(1, "dali", 7000, jpeg_percent=90),
        **rate(2, "dali", 9000, jpeg_percent=94),
        **rate(3, "dali", 8000, jpeg_percent=92),
        "round 1 imagenet torchvision": {"outcome": "timed out"},
        "overlap resnet50 dali": {
            "outcome": "done",
            "found": {"step": 2500, "loader_alone": 8000, "both": 2450, "share_of_the_smaller": 0.98},
        },
        "overlap resnet50 stoker": {"outcome": "timed out", "found": {"step": 2500}},
        "corrupt": {"outcome": "done", "found": {"verdict": "as expected"}},
        "fork": {"outcome": "crashed"},
    }
    assert summary(steps) == [
        "smoke: full 0 passed, region 0 crashed",
        "decodes: {'region': False, 'load': 0.0}",
        "imagenet dali                    8,000 images/s (7,000 to 9,000), JPEG % 92",
        "overlap resnet50 dali: step 2,500, loader 8,000, both 2,450 images/s, 0.980 of the smaller",
        "corrupt: done, as expected",
        "fork: crashed, no verdict",
    ]
