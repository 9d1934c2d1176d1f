"""Goals of figures."""

from stoker.benchmarks.measuring import Goal


def test_a_goal_is_met_from_its_bound_on_its_side():
    assert Goal("speed", 1.8, 1.8).met
    assert not Goal("speed", 1.8, 1.79).met
    assert Goal("time", 0.05, 0.05, at_most=True).met
    assert not Goal("time", 0.05, 0.051, at_most=True).met
