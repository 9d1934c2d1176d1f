"""Tests of the model of a cluster, against values by hand."""

from __future__ import annotations

import pytest

from stoker.benchmarks.cluster.model import Machines, Parts, Rates, model

# A core makes 1,000 images a second here and 800 on a worker. Two processes receive, 0.05 s each for 1,000.
PARTS = Parts(size=125_000, here=0.001, sent=0.00125, received=0.00005, transfer=0.00005)


@pytest.mark.parametrize(
    ("nodes", "link", "expected"),
    [
        (1, 100, Rates(8_000, 7_200, "cores")),
        (2, 10, Rates(10_000, 7_000, "link")),
        (4, 100, Rates(20_000, 6_000, "trainer")),
    ],
)
def test_the_slowest_part_bounds_the_workers(nodes: int, link: float, expected: Rates) -> None:
    assert model(PARTS, Machines(10, 8, ranks=1), nodes, link) == expected


def test_a_trainer_without_cores_to_spare_only_receives() -> None:
    assert model(PARTS, Machines(10, 1, ranks=1), 64, 100) == Rates(10_000, 0, "trainer")


def test_ranks_receive_together() -> None:
    assert model(PARTS, Machines(10, 8, ranks=2), 4, 100) == Rates(32_000, 4_800, "cores")
