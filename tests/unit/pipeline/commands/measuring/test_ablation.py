"""``stoker bench --ablate``: its verdict, and a run on a few images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.errors import ConfigError
from stoker.pipeline.commands.app import app
from stoker.pipeline.commands.measuring.ablation import Ablation, Turn, verdict


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (
            (1000, 1050, 3400, 1200),
            "decoding is the limit. Without it the loader would be 3.4 times as fast.",
        ),
        ((100, 900, 120, 110), "reading is the limit. Without it the loader would be 9.0 times as fast."),
        ((1000, 1010, 1300, 2500), "augmentation is the limit"),
        ((1000, 1010, 1050, 990), "no single stage is the limit"),
    ],
)
def test_the_verdict_names_what_helps_most(rates: tuple[int, ...], words: str) -> None:
    names = ("as it is", "reading", "decoding", "augmentation")
    turns = tuple(Turn(name, rate, rate / rates[0]) for name, rate in zip(names, rates, strict=True))
    said = verdict(Ablation(turns, "native", 2, "shards/train", 192))
    assert said.startswith("Engine 'native', shards in shards/train: ")
    assert words in said


def test_the_command_measures_all_stages(thumbnails: Path, tmp_path: Path) -> None:
    arguments = ["bench", str(thumbnails), "--ablate", "--size", "16", "--rounds", "1"]
    done = CliRunner().invoke(
        app, [*arguments, "--json", str(tmp_path / "found.json")], catch_exceptions=False
    )
    assert done.exit_code == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert [turn["free"] for turn in found["turns"]] == ["as it is", "reading", "decoding", "augmentation"]
    assert all(turn["images_per_second"] > 0 for turn in found["turns"])
    assert found["verdict"] in done.output.replace("\n", " ")
    assert found["engine"] == "native"


def test_options_of_the_comparison_are_refused(thumbnails: Path) -> None:
    given = ["--min-visible", "0.1", "--min-size", "2", "--batch-size", "8", "--against", "torch"]
    given += ["--device", "cuda", "--transforms", "coco-ssd", "--workers", "ray"]
    done = CliRunner().invoke(app, ["bench", str(thumbnails), "--ablate", *given])
    refused = "--against, --device, --batch-size, --transforms, --min-visible, --min-size, --workers"
    assert isinstance(done.exception, ConfigError)
    assert f"takes no {refused}" in str(done.exception)
