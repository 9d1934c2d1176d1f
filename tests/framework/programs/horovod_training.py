"""Trains an epoch as the guide's recipe for Horovod does; tests/stress/cluster/test_horovod.py runs it.

python horovod_training.py SHARDS GLOBAL_BATCH
"""

from __future__ import annotations

import json
import sys

import horovod.torch as hvd
import torch
from torch import nn

import stoker
from stoker.augment import Normalize, RandomResizedCrop
from stoker.pipeline.execution.ranks import find_process

shards, batch_size = sys.argv[1:]
torch.set_num_threads(1)
hvd.init()
torch.manual_seed(hvd.rank())  # the weights of rank 0 count
loader = stoker.ImageLoader(
    shards,
    batch_size=int(batch_size) // hvd.size(),
    shuffle=True,
    last_batch="drop",
    output="torch",
    columns=("image", "label", "row"),
    num_threads=1,
    transforms=[RandomResizedCrop(16), Normalize()],
)
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 61))
optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
rows = []
for images, labels, row in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    rows.append(row.tolist())
weights = model.state_dict()["1.weight"].flatten()[::97].tolist()
found = {"rank": hvd.rank(), "source": find_process().source, "rows": rows, "weights": weights}
# One write, so that the lines of several ranks do not mix.
sys.stdout.write(json.dumps(found) + "\n")
