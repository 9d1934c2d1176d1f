"""Ranks of PyTorch: two train to the losses of one, and one goes on from their checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from helpers.processes.torch_ranks import check, train

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

MESH = """
import json
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from stoker.pipeline.execution.ranks.ranks import check_ranks, find_ranks

found = []
for rank in range(8):
    dist.init_process_group("fake", rank=rank, world_size=8, store=FakeStore())
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("replicas", "shards", "tensor"))
    ways = [{"mesh": mesh["replicas", "shards"]}, {"mesh": mesh["shards"]}, {"replicate": 2}]
    ranks = [find_ranks(**way) for way in ways]
    for one in ranks:
        check_ranks(one)
    found.append([[one.rank, one.world_size] for one in ranks])
    dist.destroy_process_group()
print(json.dumps(found))
"""


def test_two_ranks_train_to_the_losses_of_one_and_one_goes_on(thumbnails: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with ThreadPoolExecutor(1) as pool:
        of_one = pool.submit(train, thumbnails, 1, tmp_path)
        of_two = train(thumbnails, 2, tmp_path, "save", checkpoint)
    alone = of_one.result()
    check(of_two, alone, 2)
    check(train(thumbnails, 1, tmp_path, "load", checkpoint), alone, 1, begin=3)
    assert alone["losses"][-1] < alone["losses"][0]


def test_processes_that_share_a_model_have_one_rank() -> None:
    done = subprocess.run([sys.executable, "-c", MESH], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[[i // 2, 4], [i // 2 % 2, 2], [i // 2, 4]] for i in range(8)]
