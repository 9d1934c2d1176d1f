"""The table of a comparison, and its JSON."""

import re
from dataclasses import replace

import pytest
from rich.console import Console

from stoker.benchmarks.comparison.results import (
    Comparison,
    PeerResult,
    Spread,
    engine_to_name,
    machine_line,
    render,
    to_json,
)
from stoker.benchmarks.peers import TITLES

COMPARISON = Comparison(
    workload="Photographs",
    machine={"cpu": "a processor", "cores": 2, "kernel": "Linux 6"},
    settings={"batch_size": 64, "size": 224, "num_threads": 1, "seed": 0},
    records=2048,
    rounds=5,
    peers=(
        PeerResult("stoker", (3000.0, 2990.0, 3020.0), (0.6, 0.6, 0.6), 300 << 20, 0.1, 0.021),
        PeerResult(
            "dali",
            (1500.0,),
            (1.5,),
            400 << 20,
            1,
            0.2,
            write_seconds=7.5,
            written_bytes=1,
            versions={"nvidia-dali": "2"},
            notes=("a shuffle buffer",),
        ),
        PeerResult("torch", (2000.0,), (1.0,), 900 << 20, 5, 0.3),
        PeerResult("ffcv", missing="No module named 'ffcv'"),
    ),
)


def text(comparison, width=160):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(render(comparison, width))
    return capture.get()


def test_rows_are_the_fastest_first_with_ratios_to_the_first_loader():
    names = [TITLES[name] for name in ("stoker", "torch", "dali")]
    lines = map(str.strip, text(COMPARISON).splitlines())
    rows = [line for line in lines if line.startswith(tuple(names))][:3]
    cells = [re.split(r"\s{2,}", row) for row in rows]
    assert [row[0] for row in cells] == names
    assert [row[2] for row in cells] == ["1.00", "1.50", "2.00"]
    assert "3,000" in cells[0]
    assert "2,990 to 3,020" in cells[0]
    assert "21 ms" in cells[0]
    assert "7.5 s" in cells[2]


def test_a_narrow_terminal_gets_fewer_columns_and_all_rows():
    printed = text(COMPARISON, width=80)
    assert "peak MiB" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert all(
        title in printed for title in ("images/s", "times", "CPU s", "first batch", "PyTorch DataLoader")
    )


def test_notes_versions_and_reasons_are_below():
    printed = text(COMPARISON)
    assert "nvidia-dali 2: a shuffle buffer" in printed
    assert "times: rate of Stoker, C++ engine over that of the loader" in printed
    assert "FFCV: not measured, No module named 'ffcv'" in printed


def test_the_machine_is_named_with_its_settings():
    line = machine_line(COMPARISON)
    assert line == ("a processor, 2 cores, 1 thread, batch 64, 224x224, 2,048 images, 5 rounds, Linux 6")


@pytest.mark.parametrize(
    ("native", "dali", "words"),
    [
        (3000.0, 4500.0, "engine='dali': here it is 1.50 times as fast as 'native'"),
        (3000.0, 1500.0, "engine='native': here it is 2.00 times as fast as 'dali'"),
    ],
)
def test_where_both_engines_ran_the_faster_one_is_named(native: float, dali: float, words: str) -> None:
    peers = (PeerResult("stoker", (native,), (1.0,)), PeerResult("stoker-dali", (dali,), (1.0,)))
    assert words in text(replace(COMPARISON, peers=peers))
    assert not engine_to_name(COMPARISON)


def test_json_holds_medians_and_reasons() -> None:
    document = to_json(COMPARISON)
    assert document["format"] == 1
    assert [one.get("median_images_per_second") for one in document["peers"]] == [3000, 1500, 2000, None]
    assert document["peers"][3]["missing"] == "No module named 'ffcv'"
    assert [one.name for one in COMPARISON.measured()] == ["stoker", "dali", "torch"]
    assert (COMPARISON.rate_of("dali"), COMPARISON.rate_of("ffcv")) == (1500, None)
    assert Spread.of([4.0, 1.0]) == Spread(median=2.5, low=1.0, high=4.0)
