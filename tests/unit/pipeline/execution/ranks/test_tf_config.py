"""Ranks from TF_CONFIG, the variable of TensorFlow's workers."""

from __future__ import annotations

import pytest
from helpers.cluster import SLURM, TORCHRUN, set_all, tf_config

from stoker.errors import ConfigError
from stoker.pipeline.execution.ranks import Process, find_process


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (tf_config("worker", 1, worker=3), (1, 3)),
        (tf_config("worker", "2", worker=3), (2, 3)),
        (tf_config("chief", worker=2, chief=1), (0, 3)),
        (tf_config("worker", 1, worker=2, chief=1), (2, 3)),
        (tf_config("worker", 0, worker=2, evaluator=1), (0, 2)),
        (tf_config("evaluator", worker=2, chief=1), (0, 1)),
        (tf_config("worker", worker=1), (0, 1)),
        (tf_config(None, worker=1), (0, 1)),
    ],
)
def test_tf_config_gives_rank_and_world_size(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int]
) -> None:
    set_all(monkeypatch, variables)
    assert find_process() == Process(*expected, 0, 1, "TF_CONFIG")


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": {}}', '{"environment": "cloud"}'])
def test_a_tf_config_without_a_cluster_is_one_process(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    assert find_process() == Process()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TF_CONFIG": "{"}, "TF_CONFIG cannot be read"),
        ({"TF_CONFIG": "[1]"}, "TF_CONFIG cannot be read"),
        ({"TF_CONFIG": '{"cluster": {"worker": 2}}'}, "TF_CONFIG cannot be read"),
        (tf_config(None, worker=2), "names 2 workers and no task"),
        (tf_config("worker", "two", worker=2), "TF_CONFIG cannot be read"),
        (tf_config("worker", 2, worker=2), "rank 2 of 2"),
        (tf_config("worker", -1, worker=2), "rank -1 of 2"),
        (tf_config("worker", 0, worker=2, ps=1), "parameter servers"),
        (tf_config("ps", 0, worker=1, ps=1), "parameter servers"),
    ],
)
def test_a_tf_config_that_names_no_rank_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    set_all(monkeypatch, variables)
    with pytest.raises(ConfigError, match=message):
        find_process()


def test_torchrun_takes_precedence_over_tf_config_and_tf_config_over_slurm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, tf_config("worker", 1, worker=3), SLURM)
    assert find_process() == Process(1, 3, 2, 4, "TF_CONFIG")
    set_all(monkeypatch, TORCHRUN)
    assert find_process().source == "torchrun"
