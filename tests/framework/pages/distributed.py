import os
from pathlib import Path

import torch
from torch import nn

command("convert examples/photos/val shards/train")
Path("README.md").write_text("some words\n" * 40)
model, path = nn.Linear(1, 1), "checkpoint.pt"
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
range = lambda first, epochs: [first]    # one epoch shows that the training goes on
# [the page]
assert sorted(labels.tolist()) == sorted(loader.dataset.targets)
assert epoch == 0
