"""Resumes with Lightning on two processes: every sample of the epoch is trained, or the resume is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")

PROGRAM = Path(__file__).parents[1] / "framework" / "programs" / "lightning_resume.py"
SAMPLES = 60  # in four steps of 16, the last one padded


def run(shards: Path, folder: Path, devices: int, *jobs: tuple[str, int, Path | None]) -> dict[str, Any]:
    """Return the rows of each epoch on all processes, or the error, by the name of the fit."""
    fits = [
        {"name": name, "batch_size": size, "resume": resume and str(resume)} for name, size, resume in jobs
    ]
    command = [sys.executable, PROGRAM, shards, folder, str(devices), json.dumps(fits)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, Any] = {}
    for name, _, _ in jobs:
        parts = [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(devices)]
        if "error" in parts[0]:
            outcomes[name] = parts[0]["error"]
        else:
            outcomes[name] = [
                sorted(row for part in parts for row in part["rows"][str(epoch)]) for epoch in (0, 1)
            ]
    return outcomes


def test_a_resume_on_other_devices_trains_every_sample_or_is_refused(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    shards = pack_images([make_jpeg(i) for i in range(SAMPLES)])
    refused = "samples would be left out"
    one = run(shards, tmp_path, 1, ("one", 16, None))["one"]
    step = tmp_path / "one" / "step=2.ckpt"
    on_two = run(shards, tmp_path, 2, ("other", 16, step), ("same", 8, step), ("two", 8, None))
    assert refused in on_two["other"]
    step = tmp_path / "two" / "step=2.ckpt"
    on_one = run(shards, tmp_path, 1, ("smaller", 8, step), ("larger", 32, step), ("back", 16, step))
    assert refused in on_one["smaller"]
    assert refused in on_one["larger"]
    assert on_two["two"] == one
    for rest, second in (on_two["same"], on_one["back"]):
        assert len(rest) == 32
        assert second == one[1]
        seen = json.loads((tmp_path / "one-0.json").read_text())["rows"]["0"][:32]
        assert set(rest) | set(seen) == set(range(SAMPLES))
