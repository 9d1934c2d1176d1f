"""The steps of a run: their order and time, what each may use of those before, and their refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks.gpu.context import (
    SCALES,
    Context,
    Refused,
    best_decoding,
    exact_loads,
    find_root,
    has_passed,
)
from stoker.benchmarks.gpu.programs.tests import deselected
from stoker.benchmarks.gpu.runner import Step, write_json
from stoker.benchmarks.gpu.steps import planned_steps
from stoker.benchmarks.gpu.summary import summary
from stoker.errors import SourceError


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


SMOKE = {"smoke full 0": True, "smoke full 0.65": True, "smoke full 1": False, "smoke region 1": True}


def smoked(**decoded: list[dict[str, Any]]) -> dict[str, Any]:
    steps: dict[str, Any] = {name: {"found": {"passed": passed}} for name, passed in SMOKE.items()}
    steps["smoke region 0"] = {"outcome": "crashed"}
    return steps | {name: {"found": {"decode": rows}} for name, rows in decoded.items()}


def row(region: bool, load: float, rate: float) -> dict[str, Any]:
    return {"region": region, "load": load, "threads": 8, "images_per_second": rate}


@pytest.mark.parametrize(
    ("region", "load", "passed"),
    [
        (False, 0.0, True),
        (False, 0.5, True),
        (False, 0.9, True),
        (False, 1.0, False),
        (True, 0.0, False),
        (True, 0.8, False),
        (True, 1.0, True),
    ],
)
def test_a_share_is_allowed_if_its_own_smoke_test_passed(region: bool, load: float, passed: bool) -> None:
    assert has_passed(smoked(), region, load) is passed


def test_later_steps_decode_as_the_smoke_test_allows() -> None:
    assert best_decoding({}) is None
    assert best_decoding({"smoke full 0": {"outcome": "crashed"}}) is None
    assert best_decoding(smoked()) == {"region": False, "load": 0.0}
    best = row(False, 0.8, 9000.0)
    # These are faster, and were wrong or crashed.
    wrong = [row(False, 1.0, 20000.0), row(True, 0.65, 12000.0), row(True, 0.0, 13000.0)]
    assert best_decoding(smoked(a=[row(False, 0.0, 7000.0), best], b=wrong)) == best
    allowed = row(True, 1.0, 11000.0)
    assert best_decoding(smoked(a=[best], b=[*wrong, allowed])) == allowed


def test_shares_that_round_alike_in_every_batch() -> None:
    assert exact_loads(smoked(), region=False) == (0.0,)
    assert exact_loads(smoked(), region=True) == (1.0,)
    assert exact_loads({}, region=True) == ()


def test_tests_of_ways_that_have_not_passed_are_left_out() -> None:
    names = [argument.rpartition("[")[2] for argument in deselected(smoked())]
    assert names == ["full-1]", "region-0]", "region-0.65]"]


def refused(context: Context, program: str, *step: str) -> str:
    """The reason of a step that is run after some lines of Python."""
    result = context.work / "found.json"
    lines = f"{program}\nfrom stoker.benchmarks.gpu.step import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", lines, context.to_json(), *step],
        env={**os.environ, "STEP_RESULT": str(result)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    reason: str = json.loads(result.read_text())["reason"]
    return reason


def test_a_step_without_its_package_or_its_datasets_is_refused(tmp_path: Path) -> None:
    context = Context("cpu", "tiny", tmp_path, tmp_path, tmp_path / "results.json")
    write_json(context.results_file, {"steps": {}})
    hidden = "import sys; sys.modules['torch'] = None"
    assert "torch" in refused(context, hidden, "loader", "imagenet", "stoker-native")
    assert refused(context, "", "smoke", "0", "1") == "the datasets were not made"
    assert refused(context, "", "decode", "0", "1") == "this way to decode has not passed the smoke test"


def test_a_folder_without_sources_is_refused(tmp_path: Path) -> None:
    sources = Path(__file__).parents[4]
    with pytest.raises(SourceError, match="Name the folder of Stoker's sources with --root"):
        find_root(tmp_path)
    assert find_root(sources) == sources.resolve()
