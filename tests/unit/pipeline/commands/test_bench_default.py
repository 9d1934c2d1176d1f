"""The loaders that ``stoker bench`` compares with, where none are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoker.benchmarks.comparison import bench
from stoker.pipeline.commands.app import app


@pytest.mark.parametrize(
    ("options", "against"),
    [
        ([], ["torch", "tfdata", "dali"]),
        (["--device", "cuda"], ["all"]),
        (["--device", "cuda:1"], ["all"]),
        (["--device", "cuda", "--against", "torch"], ["torch"]),
    ],
)
def test_on_a_gpu_all_installed_loaders_are_compared(
    thumbnails: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], against: list[str]
) -> None:
    asked: list[list[str]] = []

    def run_bench(dataset: str, names: list[str], *_: Any, **__: Any) -> None:
        asked.append(names)
        raise SystemExit(0)

    monkeypatch.setattr(bench, "run_bench", run_bench)
    assert CliRunner().invoke(app, ["bench", str(thumbnails), *options]).exit_code == 0
    assert asked == [against]
