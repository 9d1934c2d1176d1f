"""Training and evaluation with transformers' Trainer on one and on two ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

PROGRAM = Path(__file__).parents[1] / "programs" / "trainer_evaluation.py"


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_sample_counts_once(thumbnails: Path, tmp_path: Path, ranks: int) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*launcher, PROGRAM, thumbnails, tmp_path],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(ranks)]
    trained = [row for one in results for row in one["trained"]]
    assert len(trained) == len(set(trained)) == 61 // (8 * ranks) * 8 * ranks
    for one in results:
        assert one["found"]["eval_rows"] == list(range(61))
        assert one["found"]["eval_loss"] == pytest.approx(one["loss"], rel=1e-5)
        assert ("last_batch='partial'" in one["refused"]) == (ranks > 1)
