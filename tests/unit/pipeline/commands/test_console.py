"""Tests of progress, interrupts and errors on the console."""

import pytest

from stoker.errors import DatasetError
from stoker.pipeline.commands import console
from stoker.pipeline.commands import console as progress_module
from stoker.pipeline.commands.console import print_error, progress


@pytest.fixture(autouse=True)
def no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as the only number of a list; the patch stands for seconds that pass."""
    now = [100.0]
    monkeypatch.setattr(progress_module, "monotonic", lambda: now[0])
    return now


def test_the_rate_leaves_out_what_an_earlier_run_did(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("converting", "images") as show:
        show(0, 0)  # the source is being listed
        clock[0] += 60
        show(9000, 10_000)  # an earlier, stopped run did 9,000
        clock[0] += 10
        show(9100, 10_000)
        clock[0] += 5
        show(9200, 10_000)
    assert capsys.readouterr().err.splitlines() == [
        "converting: 9,000 of 10,000 (90%)",
        "converting: 9,100 of 10,000 (91%), 10 images/s, 90 s left",
    ]


def test_a_stream_that_is_closed_is_no_terminal() -> None:
    assert not console.is_terminal(None)


@pytest.mark.parametrize(
    ("resumes", "line"), [(True, "stopped; the same command continues from here\n"), (False, "stopped\n")]
)
def test_an_interrupt_prints_how_to_continue(
    resumes: bool, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), progress("converting", "images", resumes=resumes):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file or directory", "x"), "No such file or directory (path 'x')"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("no number"), "no number"),
        (DatasetError("not a dataset", path="x", hint="make one"), "not a dataset (path 'x')\nmake one"),
    ],
)
def test_errors_are_printed_with_their_hints(
    error: Exception, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_error(error)
    assert capsys.readouterr().err == f"error: {text}\n"
