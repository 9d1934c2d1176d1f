"""Results of a comparison, and their JSON."""

from stoker.benchmarks.comparison.results import Comparison, PeerResult, Spread, to_json

MACHINE = {"cpu": "a processor", "cores": 2, "kernel": "Linux 6"}
SETTINGS = {"batch_size": 64, "size": 224, "num_threads": 2, "seed": 0}


def peer(name, *rates, **facts):
    return PeerResult(name, tuple(rates), tuple(1000 / rate for rate in rates), peak_rss=2**20, **facts)


def comparison(*peers):
    return Comparison("photographs", MACHINE, SETTINGS, records=640, rounds=3, peers=peers)


def test_a_spread_is_the_median_and_the_extremes():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(median=2.0, low=1.0, high=3.0)
    assert Spread.of([4.0, 1.0]).median == 2.5


def test_a_missing_loader_has_no_rate():
    found = comparison(peer("stoker", 300), PeerResult("dali", missing="not installed"))
    assert [each.name for each in found.measured()] == ["stoker"]
    assert found.rate_of("dali") is None


def test_json_holds_medians_and_reasons():
    document = to_json(comparison(peer("stoker", 1, 3, 2), PeerResult("dali", missing="gone")))
    assert document["format"] == 1
    assert document["peers"][0]["median_images_per_second"] == 2
    assert document["peers"][1]["missing"] == "gone"
    assert "median_images_per_second" not in document["peers"][1]
