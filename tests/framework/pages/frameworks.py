import os
import sys
import warnings

import helpers

sys.path.append(f"{next(iter(helpers.__path__))}/../framework/standins")    # of Horovod

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import lightning
import torch
import transformers
from torch import nn

warnings.resetwarnings()
warnings.simplefilter("ignore")    # those of the frameworks

command("convert examples/photos/val shards/train")
command("convert examples/photos/val shards/val")
command("convert-text examples/text/gsm8k-1000.jsonl.gz shards/text --tokenizer bytes --fields answer")
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 12))
optimizer = torch.optim.SGD(model.parameters())
network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(12)])
network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
params, step = {"weight": torch.zeros(3).numpy()}, 1


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 12))

    def training_step(self, batch):
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters())


module = Module()
held_out = checkpoint = None
options = {"save_strategy": "no", "disable_tqdm": True, "report_to": "none", "dataloader_pin_memory": False}
arguments = transformers.TrainingArguments("out", max_steps=1, use_cpu=True, **options)
tiny = transformers.GPT2Config(vocab_size=259, n_embd=8, n_layer=1, n_head=1, n_positions=2048)
language_model = transformers.GPT2LMHeadModel(tiny)
# [the page]
assert batch.image.shape == images.shape == (48, 3, 64, 64)
