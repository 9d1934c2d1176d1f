"""Ways to decode: what later steps may use is what the smoke test has seen to work."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.benchmarks.gpu.context import best_decoding, exact_loads, has_passed
from stoker.benchmarks.gpu.programs.tests import deselected

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
