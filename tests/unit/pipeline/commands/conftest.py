"""Fixtures of tests of the command line."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.pipeline.commands.app import main
from stoker.pipeline.commands.shared import progress

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return ``run(*arguments, status=0)``, which calls the command line and returns its output."""
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", float("inf"))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["stoker", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        assert (ended.value.code or 0) == status, said
        return said.err if status else said.out

    return call


@pytest.fixture
def photos(tmp_path: Path, make_jpeg: Callable[..., bytes], without_waiting_for_the_disk: None) -> Path:
    for number in range(6):
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_jpeg(number))
    (tmp_path / "photos" / "a" / "notes.txt").write_text("no image")
    return tmp_path / "photos"
