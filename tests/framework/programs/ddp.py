"""Trains two epochs with DistributedDataParallel; torchrun or a fork of a test of ranks runs it.

INIT_METHOD, if it is set, is the address at which the ranks connect. With "save" the program writes a
checkpoint of its third step; with "load" it begins from such a checkpoint.

torchrun --nproc-per-node N ddp.py SHARDS GLOBAL_BATCH RESULT [save|load CHECKPOINT]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.distributed import all_gather_object, all_reduce, destroy_process_group, get_rank, get_world_size
from torch.distributed import init_process_group as init
from torch.nn.parallel import DistributedDataParallel

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

shards, batch_size, result, *checkpoint = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(0)
init("gloo", init_method=os.environ.get("INIT_METHOD"))
loader = stoker.ImageLoader(
    shards,
    batch_size=int(batch_size) // get_world_size(),
    shuffle=True,
    last_batch="drop",
    output="torch",
    columns=("image", "label", "row"),
    num_threads=1,
    transforms=[RandomResizedCrop(16), RandomHorizontalFlip(), Normalize()],
)
network = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.Flatten(), nn.Linear(144, 61)
)
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
losses, steps = [], []


def at_checkpoint(verb: str, folder: str) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    weights, moments = get_state_dict(model, optimizer)
    getattr(checkpoint, verb)(
        {"model": weights, "optimizer": moments, "loader": loader}, checkpoint_id=folder
    )
    if verb == "load":
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)


if "load" in checkpoint:
    at_checkpoint(*checkpoint)
while loader.state_dict()["epoch"] < 2:
    for images, labels, rows in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / get_world_size()
        all_reduce(mean)
        of_all: list[list[int]] = [[]] * get_world_size()
        all_gather_object(of_all, rows.tolist())
        losses.append(mean.item())
        steps.append(of_all)
        if "save" in checkpoint and len(steps) == 3:
            at_checkpoint(*checkpoint)
if get_rank() == 0:
    Path(result).write_text(json.dumps({"losses": losses, "steps": steps}))
loader.close()
destroy_process_group()
# The process ends here: a thread of gloo may still hold a tensor of the last collective. PyTorch 2.13 aborts
# when the thread releases it at the interpreter's end ("terminate called without an active exception",
# pytorch/pytorch#190489).
sys.stdout.flush()
os._exit(0)
