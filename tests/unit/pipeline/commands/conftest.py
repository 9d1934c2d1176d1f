"""Fixtures of tests of the command line."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import stoker
from stoker.pipeline.commands import console
from stoker.pipeline.commands.app import main

RunMain = Callable[..., str]


@pytest.fixture
def run_main(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunMain:
    """``run_main(*arguments, status=0)``: what the program ``stoker`` prints, on standard error if it fails.

    Errors are printed as users see them; :func:`helpers.command_line.run` raises them.
    """
    # Otherwise a slow machine would print lines of progress.
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", float("inf"))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["stoker", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capfd.readouterr()
        assert (ended.value.code or 0) == status, printed
        return printed.err if status else printed.out

    return call


@pytest.fixture
def photos(tmp_path: Path, make_jpeg: Callable[..., bytes], without_waiting_for_the_disk: None) -> Path:
    """Six images in the folders a and b, and a file that is no image."""
    for number in range(6):
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_jpeg(number))
    (tmp_path / "photos" / "a" / "notes.txt").write_text("no image")
    return tmp_path / "photos"


@pytest.fixture
def shards(photos: Path, tmp_path: Path) -> Path:
    """The dataset of the photos."""
    stoker.convert(photos, tmp_path / "shards")
    return tmp_path / "shards"
