"""Ranks are found as in a process without a launcher, whatever runs the tests."""

from __future__ import annotations

import os
import sys

import pytest
from helpers.cluster import OTHERS, TORCHRUN


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("HOROVOD_", "MPI_", "OMPI_", "PMI", "SLURM_")) or name in {*TORCHRUN, *OTHERS}:
            monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.delitem(sys.modules, "torch.cuda", raising=False)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
