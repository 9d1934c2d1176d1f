"""Text with Hugging Face's Trainer: python examples/frameworks/transformers_trainer.py [SHARDS] [EPOCHS]."""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import stoker
from stoker.integrations import with_loaders

TEXT = Path(__file__).parents[1] / "text" / "gsm8k-1000.jsonl.gz"


def main(shards: str = "shards/text", epochs: str = "2") -> None:
    if not Path(shards, "dataset.json").exists():
        stoker.convert_text(TEXT, shards, tokenizer="bytes", fields=("answer",), seed=0)
    dataset = stoker.open(shards).select("answer_length < 120")  # so that the example takes seconds
    columns = ("input_ids", "attention_mask", "labels")
    options = {"shuffle": True, "output": "torch", "batch_size": stoker.MaxTokens(2048)}
    loader = stoker.TextLoader(dataset, columns=columns, **options)
    words = int(dataset.manifest.options["vocab_size"])
    config = GPT2Config(vocab_size=words, n_embd=32, n_layer=1, n_head=2)
    model, out = GPT2LMHeadModel(config), f"{shards}-trainer"
    arguments = TrainingArguments(out, num_train_epochs=float(epochs), save_steps=10)
    trainer = with_loaders(Trainer)(model, arguments, train_dataset=loader)
    # Checkpoints hold the loader's state, too.
    trainer.train(resume_from_checkpoint=get_last_checkpoint(out) if Path(out).exists() else None)
    print(loader.stats().verdict)


if __name__ == "__main__":
    main(*sys.argv[1:])
