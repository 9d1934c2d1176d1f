"""Chats, pairs of prompt and completion, a small tokenizer, and the labels that trl makes of them.

``PYTHONPATH=tests python -m helpers.chats`` writes ``tests/data/chats`` anew; it needs trl and datasets.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "chats"
_WORDS = "how many apples are left after lunch ? three of seven, I think: naïve 数 and more".split()  # noqa: SIM905
_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\n' }}"
    "{%- if message['role'] == 'assistant' %}"
    "{% generation %}{{- message['content'] | trim + '<|im_end|>' }}{% endgeneration %}"
    "{%- else %}{{- message['content'] + '<|im_end|>' }}{%- endif %}"
    "{{- '\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def _text(number: int) -> str:
    return " ".join(_WORDS[(number * 7 + i * (1 + number % 3)) % len(_WORDS)] for i in range(1 + number % 9))


def make_chats() -> list[dict[str, Any]]:
    """Chats of one to three turns, some with the instructions of a system."""
    chats = []
    for number in range(12):
        turns = [{"role": "system", "content": _text(number + 3)}] if number % 3 == 0 else []
        for turn in range(1 + number % 3):
            turns.append({"role": "user", "content": _text(number + turn)})
            turns.append({"role": "assistant", "content": _text(2 * number + turn + 1)})
        chats.append({"messages": turns})
    return chats


def make_pairs() -> list[dict[str, str]]:
    """Pairs of a prompt and its completion."""
    return [{"prompt": _text(i) + "\n", "completion": _text(2 * i + 1) + "<|im_end|>"} for i in range(12)]


def _write_tokenizer(folder: Path) -> Any:
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<pad>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_text(i) for i in range(40)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"chat_template": _TEMPLATE, "eos_token": "<|im_end|>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<pad>", chat_template=_TEMPLATE
    )


def _labels_of_trl(tokenizer: Any, samples: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """Token ids and labels of each sample, as trl's trainer of supervised fine-tuning prepares them."""
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel
    from trl import SFTConfig, SFTTrainer

    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=1))
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(output_dir=folder, use_cpu=True, bf16=False, report_to=[], **options)
        trainer = SFTTrainer(
            model, config, train_dataset=Dataset.from_list(samples), processing_class=tokenizer
        )
        prepared = trainer.train_dataset
        batches = trainer.data_collator([prepared[i] for i in range(len(prepared))])
    kept = batches["attention_mask"].bool()
    return [
        {"input_ids": ids[mask].tolist(), "labels": labels[mask].tolist()}
        for ids, labels, mask in zip(batches["input_ids"], batches["labels"], kept, strict=True)
    ]


def main() -> None:
    """Write the folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    tokenizer = _write_tokenizer(FOLDER)
    labels = {
        "chats": _labels_of_trl(tokenizer, make_chats(), assistant_only_loss=True),
        "pairs": _labels_of_trl(tokenizer, make_pairs(), completion_only_loss=True),
    }
    (FOLDER / "trl.json").write_text(json.dumps(labels))


if __name__ == "__main__":
    main()
