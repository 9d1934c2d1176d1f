import json

import pytest

from stoker.benchmarks.results import Comparison, PeerResult, Summary, read_json, write_json

MACHINE = {"cpu": "a processor", "cores": 2, "kernel": "Linux 6"}
SETTINGS = {"batch_size": 64, "size": 224, "num_threads": 2, "seed": 0}


def peer(name, *rates, **facts):
    return PeerResult(name, tuple(rates), tuple(1000 / rate for rate in rates), peak_rss=2**20, **facts)


def comparison(*peers):
    return Comparison("photographs", MACHINE, SETTINGS, records=640, rounds=3, peers=peers)


def test_summary_is_median_and_extremes():
    assert Summary.of([3.0, 1.0, 2.0]) == Summary(median=2.0, low=1.0, high=3.0)
    assert Summary.of([4.0, 1.0]).median == 2.5


def test_spread_is_half_the_range_over_the_median():
    assert Summary.of([90.0, 100.0, 120.0]).spread == pytest.approx(0.15)
    assert Summary.of([0.0]).spread == 0.0


def test_ratio_is_to_the_best_loader_that_is_not_ours():
    found = comparison(peer("stoker", 300), peer("stoker-dali", 400), peer("dali", 150), peer("torch", 100))
    assert found.ratio_to_best("stoker") == 2.0
    assert found.ratio_to_best("ffcv") is None


def test_ratio_needs_another_loader():
    gone = PeerResult("dali", missing="not installed")
    assert comparison(peer("stoker", 300), gone).ratio_to_best("stoker") is None


def test_a_missing_loader_has_no_rate():
    found = comparison(peer("stoker", 300), PeerResult("dali", missing="not installed"))
    assert [each.name for each in found.measured()] == ["stoker"]
    assert found.rate_of("dali") is None


def test_json_gives_back_what_was_written(tmp_path):
    found = comparison(
        peer("stoker", 300, 310, 290, versions={"stoker": "1"}, notes=("a", "b"), first_batch_seconds=0.02),
        PeerResult("dali", missing="No module named 'nvidia'"),
    )
    write_json([found], tmp_path / "out.json")
    assert read_json(tmp_path / "out.json") == (found,)


def test_json_holds_medians_and_reasons(tmp_path):
    write_json(
        [comparison(peer("stoker", 1, 3, 2), PeerResult("dali", missing="gone"))], tmp_path / "out.json"
    )
    (document,) = json.loads((tmp_path / "out.json").read_text())
    assert document["format"] == 1
    assert document["peers"][0]["median_images_per_second"] == 2
    assert document["peers"][1]["missing"] == "gone"
    assert "median_images_per_second" not in document["peers"][1]
