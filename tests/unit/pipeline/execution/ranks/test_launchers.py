"""Ranks by the environment variables of every launcher."""

from __future__ import annotations

import re

import pytest
from helpers.cluster import HOROVOD, MPICH, OPEN_MPI, SLURM, TORCHRUN, set_all

from stoker.errors import ConfigError
from stoker.pipeline.execution.ranks import Process, find_process
from stoker.pipeline.options import Ranks


def test_without_a_launcher_there_is_one_process() -> None:
    assert find_process() == Process(0, 1, 0, 1, "one process")


@pytest.mark.parametrize(
    ("launchers", "expected"),
    [
        ([TORCHRUN], Process(5, 8, 1, 4, "torchrun")),
        ([HOROVOD], Process(2, 3, 0, 1, "Horovod")),
        ([OPEN_MPI], Process(3, 4, 1, 2, "Open MPI")),
        ([SLURM], Process(6, 8, 2, 4, "Slurm")),
        ([MPICH], Process(3, 4, 1, 2, "PMI")),
        ([{"PMI_RANK": "3", "PMI_SIZE": "4"}], Process(3, 4, 0, 1, "PMI")),
        ([{"PMI_RANK": "6", "PMI_SIZE": "8"}, SLURM], Process(6, 8, 2, 4, "PMI")),
        ([MPICH, SLURM], Process(3, 4, 1, 2, "PMI")),
        ([{"PMIX_RANK": "3"}, OPEN_MPI], Process(3, 4, 1, 2, "Open MPI")),
        ([{"PMIX_RANK": "6"}, SLURM], Process(6, 8, 2, 4, "Slurm")),
        ([{"PMIX_RANK": "0"}], Process(0, 1, 0, 1, "one process")),
        ([SLURM, OPEN_MPI], Process(3, 4, 1, 2, "Open MPI")),
        ([OPEN_MPI, HOROVOD], Process(2, 3, 0, 1, "Horovod")),
        ([HOROVOD, TORCHRUN, SLURM], Process(5, 8, 1, 4, "torchrun")),
    ],
)
def test_ranks_come_from_the_variables_of_the_launcher(
    monkeypatch: pytest.MonkeyPatch, launchers: list[dict[str, str]], expected: Process
) -> None:
    set_all(monkeypatch, *launchers)
    assert find_process() == expected


def test_a_batch_script_of_slurm_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"})
    assert find_process() == Process()


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({"RANK": "3"}, "WORLD_SIZE"),
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "RANK"),
        ({"GLOBAL_RANK": "1"}, "RANK"),
        ({"WORLD_SIZE": "2", "GLOBAL_RANK": "1"}, "RANK"),
        ({"LOCAL_RANK": "1"}, "RANK"),
        ({"HOROVOD_RANK": "0"}, "HOROVOD_SIZE"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK"),
        ({"PMI_RANK": "1"}, "PMI_SIZE"),
        ({"RANK": "1", **SLURM}, "WORLD_SIZE"),
    ],
)
def test_half_set_variables_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], missing: str
) -> None:
    """Otherwise every rank would be one process, and draw the same samples."""
    set_all(monkeypatch, variables)
    with pytest.raises(ConfigError, match=rf"sets {next(iter(variables))}.* but not {missing}\b"):
        find_process()
    assert find_process(Ranks(0, 2)).world_size == 2


@pytest.mark.parametrize(
    "variables", [{"WORLD_SIZE": "1"}, {"WORLD_SIZE": "1", "LOCAL_RANK": "0"}, {"LOCAL_RANK": "0"}]
)
def test_variables_of_one_process_need_no_others(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    set_all(monkeypatch, variables)
    assert find_process() == Process()


def test_half_set_variables_are_accepted_beside_a_launcher_with_the_same_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, SLURM, {"WORLD_SIZE": "8", "LOCAL_RANK": "2", "PMI_RANK": "6"})
    assert find_process() == Process(6, 8, 2, 4, "Slurm")
    set_all(monkeypatch, TORCHRUN, {"GLOBAL_RANK": "1"})
    assert find_process().source == "torchrun"


@pytest.mark.parametrize(
    ("tasks", "node", "expected"),
    [
        ("4(x2)", "1", 4),
        ("2(x3),1", "2", 2),
        ("2(x3),1", "3", 1),
        ("3,2", "0", 3),
        ("3,2", "1", 2),
        ("3,2", "7", 2),
        ("3,2", None, 3),
        ("5", "7", 5),
    ],
)
def test_slurms_tasks_per_node_give_the_local_world_size(
    monkeypatch: pytest.MonkeyPatch, tasks: str, node: str | None, expected: int
) -> None:
    set_all(monkeypatch, SLURM, {"SLURM_STEP_TASKS_PER_NODE": tasks})
    if node is not None:
        monkeypatch.setenv("SLURM_NODEID", node)
    assert find_process().local_world_size == expected


@pytest.mark.parametrize("text", ["first", "", "-1", "1.5", "2(x2)", "1,2", " 1", "٣"])
def test_refuses_values_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    set_all(monkeypatch, TORCHRUN, {"RANK": text})
    with pytest.raises(
        ConfigError, match=f"environment variable RANK must be a number, found '{re.escape(text)}'"
    ):
        find_process()


@pytest.mark.parametrize("text", ["many", "", "2(x)", "2,", "2(x0)", "0", "3,0"])
def test_refuses_local_world_sizes_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    set_all(monkeypatch, SLURM, {"SLURM_STEP_TASKS_PER_NODE": text})
    with pytest.raises(ConfigError, match="SLURM_STEP_TASKS_PER_NODE must be a number"):
        find_process()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({**TORCHRUN, "RANK": "5", "WORLD_SIZE": "2"}, "rank 5 of 2: RANK and WORLD_SIZE"),
        ({**TORCHRUN, "RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2: RANK and WORLD_SIZE"),
        ({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "0"}, "rank 0 of 0: RANK and WORLD_SIZE"),
        ({**MPICH, "PMI_SIZE": "2"}, "rank 3 of 2: PMI_RANK and PMI_SIZE"),
    ],
)
def test_a_rank_outside_the_world_size_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    set_all(monkeypatch, variables)
    with pytest.raises(ConfigError, match=message) as caught:
        find_process()
    assert "Unset" in str(caught.value)


def test_a_rank_of_pmix_without_a_world_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMIX_RANK", "3")
    with pytest.raises(ConfigError, match=r"rank 3 \(PMIX_RANK\), but no number of ranks"):
        find_process()
    assert find_process(Ranks(3, 4)).rank == 3
