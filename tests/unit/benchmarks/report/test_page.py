"""The page of the comparison: its figures are those of the results."""

from pathlib import Path

from stoker.benchmarks.comparison.page import RESULTS, make_page, make_table, read_results
from stoker.benchmarks.peers import TITLES

ROOT = Path(__file__).parents[4]
MAKE = "python -m stoker.benchmarks.comparison.page"


def test_every_figure_of_a_result_is_on_the_page_and_in_a_picture() -> None:
    results = read_results(RESULTS)
    made = make_page(results)
    for peer in results["imagenet"][0]["peers"]:
        rate = f"{peer['median_images_per_second']:,.0f}"
        assert f" {rate} |" in made["comparison.md"]
        assert f">{rate}</text>" in made["images/comparison/imagenet-dark.svg"]
    for epochs in (one["images_per_second"] for one in results["remote"]["loaders"] if not one["missing"]):
        assert f" {epochs[0]:,.0f} | {epochs[1]:,.0f} |" in made["comparison.md"]


def test_the_page_and_its_pictures_are_those_of_the_results() -> None:
    results = read_results(RESULTS)
    assert "imagenet" in results
    for name, text in make_page(results).items():
        found = (ROOT / "docs" / name).read_text()
        assert found == text, f"docs/{name} is old: {MAKE}"


def test_loaders_that_are_better_than_stoker_are_named_by_column() -> None:
    figures = {"stoker": (100, 5), "stoker-blocks": (90, 9), "ffcv": (120, 7), "dali": (95, 3), "spdl": None}
    loaders = [
        {"name": name, "missing": "" if pair else "not installed", "pair": pair}
        for name, pair in figures.items()
    ]
    columns = (
        ("images/s", "most", ",.0f", lambda one: one["pair"][0]),
        ("seconds", "least", ".1f", lambda one: one["pair"][1]),
    )
    table = make_table("Speed", columns, loaders)
    assert [row.title for row in table.rows] == [
        TITLES[one] for one in ("ffcv", "stoker", "dali", "stoker-blocks")
    ]
    assert table.better() == {"images/s": ["FFCV (120)"], "seconds": ["DALI pipeline written by hand (3.0)"]}
    assert table.notes == ("SPDL: not measured, not installed.",)
