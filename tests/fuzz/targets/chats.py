"""Chats of damaged JSON Lines, their templates, and the settings of their tokenizer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.datasets import write_words
from mutations import as_text, mutate_document, pick

import stoker

_ASKED = {"role": "user", "content": "a b"}
_ANSWER = {"role": "assistant", "content": "b", "reasoning_content": "a", "weight": 1}
_CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": {"b": None}}}]}
_SHAREGPT = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
_TOOLS = {"tools": [{"name": "a"}], "chat_template_kwargs": {"mode": "b"}}
# The values of a sample, by the option that names its messages
_FORMS: dict[str, dict[str, Any]] = {
    "m": {"m": [_ASKED, _CALL, _ASKED, _ANSWER], **_TOOLS},
    "s": {"s": _SHAREGPT},
    "prompt,completion": {"prompt": [_ASKED], "completion": _ANSWER},
    "chosen,rejected": {"chosen": [_ASKED, _ANSWER], "rejected": [_ASKED, {**_ANSWER, "content": "a"}]},
    "prompt,chosen,rejected": {"prompt": "a", "chosen": [_ASKED, _ANSWER], "rejected": [_ASKED, _CALL]},
}
_SAID = (
    "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c | tojson }}{% endfor %}{% if m.reasoning_content "
    "and loop.last %} {{ m.reasoning_content }}{% endif %} eos "
)
_LOOP = "{{ bos_token }}{{ tools or mode }}{% for m in messages %} SAID{% endfor %}"
_TEMPLATES = (
    _LOOP.replace("SAID", _SAID),
    _LOOP.replace("SAID", f"{{% generation %}}{_SAID}{{% endgeneration %}}"),
    "{{ strftime_now('%Y') }}" + _LOOP.replace("SAID", _SAID) + "{% if add_generation_prompt %} a{% endif %}",
)
_SETTINGS = {"bos_token": "[BOS]", "eos_token": {"content": "[EOS]"}, "chat_template": _TEMPLATES[0]}


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Return the attack."""
    tokenizer = write_words(scratch / "tokenizer.json", ("a", "b", "eos"))
    source, target, template = (scratch / name for name in ("chats.jsonl", "d", "t.jinja"))

    def attack(rng: np.random.Generator) -> bool:
        messages = pick(list(_FORMS), rng)
        rows = [mutate_document(_FORMS[messages], rng) for _ in range(2)] + [_FORMS[messages]]
        source.write_bytes(b"\n".join(as_text(row, rng).replace(b"\n", b" ") for row in rows))
        settings = mutate_document(_SETTINGS, rng) if rng.random() < 0.3 else _SETTINGS
        (scratch / "tokenizer_config.json").write_bytes(json.dumps(settings).encode())
        template.write_text(pick(_TEMPLATES, rng))
        training = stoker.Training(
            messages,
            pick([None, template], rng),
            pick([None, "last", "all"], rng) if "rejected" not in messages else None,
            date=pick([None, "2025-01-31"], rng),
        )
        shutil.rmtree(target, ignore_errors=True)
        stoker.convert_text(source, target, tokenizer=tokenizer, training=training, processes=0)
        if "rejected" in messages:
            pairs = stoker.bucketing.PreferencePairs(outputs=("input_ids", "labels"))
            loader = stoker.TextLoader(target, batch_size=2, batchify=pairs)
        else:
            loader = stoker.TextLoader(target, batch_size=2, columns=("input_ids", "labels"))
        for ids, labels in loader:
            trained = labels != -100
            assert (labels == np.where(trained, ids, -100)).all()
            assert training.train_on == "all" or trained.any()
        return True

    return attack
