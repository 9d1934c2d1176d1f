"""The example of Ray Train runs on two workers of a cluster on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stoker

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_ray_train_fits_with_two_workers(tmp_path: Path) -> None:
    pytest.importorskip("ray.train", reason="needs Ray Train: pip install 'ray[train]'")
    stoker.convert(EXAMPLES / "photos" / "val", tmp_path / "shards")
    options = ["--data", tmp_path / "shards", "--checkpoint", tmp_path / "c.pt", "--epochs", 1, "--size", 16]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "clusters" / "ray_train.py"), *map(str, options)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "world_rank=1" in done.stdout + done.stderr
    assert (tmp_path / "c.pt").exists()
