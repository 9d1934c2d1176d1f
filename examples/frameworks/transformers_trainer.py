"""Text with Hugging Face's Trainer: python examples/frameworks/transformers_trainer.py [SHARDS] [EPOCHS]."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import stoker
from stoker.pipeline.adapters.torch import check_resume, iterable_dataset

TEXT = Path(__file__).parents[1] / "text" / "gsm8k-1000.jsonl.gz"


class StokerTrainer(Trainer):
    loader: stoker.TextLoader

    def get_train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(iterable_dataset(self.loader), batch_size=None, collate_fn=lambda b: b._asdict())


class SaveLoaderState(TrainerCallback):
    def __init__(self, loader: stoker.TextLoader) -> None:
        self.loader = loader

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        check_resume(self.loader, state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        file = Path(args.output_dir, f"checkpoint-{state.global_step}", "loader.json")
        file.write_text(json.dumps(self.loader.state_dict()))


def main(shards: str = "shards/text", epochs: str = "2") -> None:
    if not Path(shards, "dataset.json").exists():
        stoker.convert_text(TEXT, shards, tokenizer="bytes", fields=("answer",), seed=0)
    dataset = stoker.open(shards).select("answer_length < 120")  # so that the example takes seconds
    columns = ("input_ids", "attention_mask", "labels")
    options = {"shuffle": True, "output": "torch", "batch_size": stoker.MaxTokens(2048)}
    loader = stoker.TextLoader(dataset, columns=columns, **options)
    words = int(dataset.manifest.options["vocab_size"])
    config = GPT2Config(vocab_size=words, n_embd=32, n_layer=1, n_head=2)
    model, out = GPT2LMHeadModel(config), f"{shards}-trainer"  # the loader's state has its position:
    arguments = TrainingArguments(out, num_train_epochs=float(epochs), save_steps=10, ignore_data_skip=True)
    trainer = StokerTrainer(model, arguments, callbacks=[SaveLoaderState(loader)])
    trainer.loader = loader
    last = get_last_checkpoint(out) if Path(out).exists() else None
    if last:
        loader.load_state_dict(json.loads(Path(last, "loader.json").read_text()))
    trainer.train(resume_from_checkpoint=last)
    print(loader.stats().verdict)


if __name__ == "__main__":
    main(*sys.argv[1:])
