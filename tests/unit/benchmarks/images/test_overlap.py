"""The overlap of loading and stepping."""

import pytest

from stoker.benchmarks.comparison.images import Overlap


def test_overlap_is_measured_against_the_longer():
    assert Overlap(10, loading=2.0, stepping=1.0, both=2.2, waited_share=0.0).ratio == pytest.approx(1.1)
    assert Overlap(10, loading=1.0, stepping=2.0, both=2.2, waited_share=0.0).ratio == pytest.approx(1.1)
