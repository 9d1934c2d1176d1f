"""An exception in any stage of a loader, on every engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.loaders import load_rows
from helpers.processes import wait_until

from stoker.augment import ImagePlan
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.adapters.numpy import Adapter
from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.engines.native import NativeEngine

pytestmark = pytest.mark.filterwarnings("ignore:a bad sample was")


STAGES = ["draw", "submit", "collect", "images", "column", "samples"]
PLANNING_CALL = {0: 0, 6: 2, 12: 3}
"""The call that plans a batch: the calls plan 1, 2, 4 and 6 batches."""


@pytest.mark.parametrize("at", [0, 6, 12])
@pytest.mark.parametrize("stage", STAGES)
def test_an_exception_in_any_stage_reaches_the_consumer(
    thumbnails: Path,
    engine: str,
    stage: str,
    at: int,
    monkeypatch: pytest.MonkeyPatch,
    new_threads: Callable[[str], list[threading.Thread]],
) -> None:
    loader = load_rows(thumbnails, engine)
    executor = NativeEngine if engine == "native" else DaliEngine
    owners = {"draw": ImagePlan, "images": Adapter, "column": Adapter, "samples": Dataset}
    owner: Any = owners.get(stage, executor)
    original, calls = getattr(owner, stage), iter(range(1000))
    per_batch = 3 if stage == "column" else 1
    call = PLANNING_CALL[at] if stage in {"draw", "samples"} else at

    def fail(*arguments: Any, **options: Any) -> Any:
        if next(calls) // per_batch == call:
            raise ZeroDivisionError(stage)
        return original(*arguments, **options)

    # No input of a user makes every stage fail.
    monkeypatch.setattr(owner, stage, fail)
    received = []
    with pytest.raises(ZeroDivisionError, match=stage):
        received.extend(loader)
    assert len(received) <= at
    assert [int(row) for batch in received for row in batch.row] == list(range(5 * len(received)))
    monkeypatch.undo()
    loader.set_epoch(0)
    if stage != "collect":  # there the loader has lost a batch that the engine still holds
        assert sum(len(batch.row) for batch in loader) == 61, "the next pass is whole"
    loader.close()
    wait_until(lambda: not new_threads("stoker-prefetch"))
