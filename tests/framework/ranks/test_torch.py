"""Ranks of PyTorch: two train to the losses of one, and one goes on from their checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.ranks import GLOBAL_BATCH, TORCH_PROGRAM, check
from helpers.warm_python import Run, WarmPython

pytest.importorskip("torch")

MESH = """
import json
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from stoker.pipeline.execution.ranks import check_ranks, find_process
from stoker.pipeline.options import Ranks

found = []
for rank in range(8):
    dist.init_process_group("fake", rank=rank, world_size=8, store=FakeStore())
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("replicas", "shards", "tensor"))
    options = [{"mesh": mesh["replicas", "shards"]}, {"mesh": mesh["shards"]}, {"replicate": 2}]
    of_options = [find_process(Ranks(**each)) for each in options]
    for ranks in of_options:
        check_ranks(ranks)
    found.append([[ranks.rank, ranks.world_size] for ranks in of_options])
    dist.destroy_process_group()
print(json.dumps(found))
"""


class Training:
    """Ranks that connect through a file and need no port; in tests/stress ``torchrun`` starts them."""

    def __init__(
        self, python: WarmPython, shards: Path, ranks: int, folder: Path, *checkpoint: object
    ) -> None:
        self._result = folder / "result"
        folder.mkdir()
        self._ranks: list[Run] = []
        for rank in range(ranks):
            address = f"file://{folder}/store?rank={rank}&world_size={ranks}"
            variables = {"INIT_METHOD": address, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
            arguments = shards, GLOBAL_BATCH, self._result, *checkpoint
            self._ranks.append(python.start(TORCH_PROGRAM, *arguments, environment=variables))

    def result(self) -> Any:
        for rank in self._ranks:
            rank.output()
        return json.loads(self._result.read_text())


def test_two_ranks_train_to_the_losses_of_one_and_one_goes_on(
    thumbnails: Path, tmp_path: Path, warm_torch: WarmPython
) -> None:
    checkpoint = tmp_path / "checkpoint"
    training = Training(warm_torch, thumbnails, 1, tmp_path / "alone")
    of_two = Training(warm_torch, thumbnails, 2, tmp_path / "two", "save", checkpoint).result()
    alone = training.result()
    check(of_two, alone, 2)
    check(
        Training(warm_torch, thumbnails, 1, tmp_path / "rest", "load", checkpoint).result(), alone, 1, begin=3
    )
    assert alone["losses"][-1] < alone["losses"][0]


def test_processes_that_share_a_model_have_one_rank(warm_torch: WarmPython) -> None:
    found = json.loads(warm_torch.output(MESH))
    assert found == [[[i // 2, 4], [i // 2 % 2, 2], [i // 2, 4]] for i in range(8)]
