"""Batches of preference pairs: arrays of trl's collator, and the losses of DPO padded and packed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.loaders import text_arguments

import stoker
from stoker.bucketing import PreferencePairs
from stoker.errors import CheckpointError, ConfigError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

N, BETA, PAD, END = 23, 0.1, 256, 258
SAMPLES = [
    {"prompt": "ask" * (1 + i % 4), "chosen": "yes " * (1 + i % 3), "rejected": "no" * (1 + i * 7 % 8)}
    for i in range(N)
]
COLUMNS = ("input_ids", "attention_mask", "completion_mask", "row")


class Collated(NamedTuple):
    """A batch of a collator, with the numbers of its samples."""

    input_ids: Any
    attention_mask: Any
    completion_mask: Any
    row: Any


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 pairs of bytes."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, SAMPLES)))
    stoker.convert_text(
        folder / "pairs.jsonl", folder / "d", fields=("chosen", "prompt", "rejected"), tokenizer="bytes"
    )
    return folder / "d"


def make(shards: Path, **options: Any) -> stoker.TextLoader:
    arguments = {"batch_size": 4, "shuffle": True, "output": "torch", "batchify": PreferencePairs(end_id=END)}
    return stoker.TextLoader(shards, **text_arguments(**{**arguments, **options}))


def log_probabilities(batches: Sequence[Any], seed: int) -> dict[int, tuple[float, float]]:
    """Log-probabilities of the chosen and the rejected answer of each sample, by a small model."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=260, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config).eval()
    found = {}
    for batch in batches:
        inputs = {"input_ids": batch.input_ids.long(), "use_cache": False}
        if "position_ids" in batch._fields:
            inputs["position_ids"] = batch.position_ids.long()
        else:
            inputs["attention_mask"] = batch.attention_mask.long()
        with torch.no_grad():
            logs = model(**inputs).logits[:, :-1].log_softmax(-1)
        of_tokens = logs.gather(-1, inputs["input_ids"][:, 1:, None])[..., 0] * batch.completion_mask[:, 1:]
        rows = batch.row.reshape(len(batch.row), -1)
        segments = batch.segment_ids[:, 1:] if rows.shape[1] > 1 else torch.ones_like(of_tokens).int()
        for line, slot in torch.nonzero(rows >= 0).tolist():
            chosen, rejected = (
                float(of_tokens[i][segments[i] == slot + 1].sum()) for i in (line, line + len(rows))
            )
            found[int(rows[line, slot])] = (chosen, rejected)
    return found


def dpo_loss(batches: Sequence[Any]) -> float:
    """The loss of Rafailov et al., 2023, equation 7, of a model against a frozen reference."""
    policy, reference = (log_probabilities(batches, seed) for seed in (0, 1))
    ratios = [[policy[row][i] - reference[row][i] for row in policy] for i in range(2)]
    chosen, rejected = torch.tensor(ratios, dtype=torch.float64)
    return float(-torch.nn.functional.logsigmoid(BETA * (chosen - rejected)).mean())


def collate(features: list[dict[str, list[int]]]) -> dict[str, Any]:
    """The arrays that trl documents of ``DataCollatorForPreference``, made here without trl."""
    lines = [(pair["prompt_ids"], pair[name]) for name in ("chosen_ids", "rejected_ids") for pair in features]
    width = max(len(prompt) + len(answer) for prompt, answer in lines)

    def table(fill: int, rows: list[list[int]]) -> Any:
        return torch.tensor([row + [fill] * (width - len(row)) for row in rows])

    return {
        "input_ids": table(PAD, [prompt + answer for prompt, answer in lines]),
        "attention_mask": table(0, [[1] * len(prompt + answer) for prompt, answer in lines]),
        "completion_mask": table(0, [[0] * len(prompt) + [1] * len(answer) for prompt, answer in lines]),
    }


def test_packed_pairs_have_the_loss_of_padded_ones(shards: Path) -> None:
    padded = list(make(shards, columns=COLUMNS))
    columns = ("input_ids", "segment_ids", "position_ids", "completion_mask", "row")
    packed = list(make(shards, pack=72, batch_size=2, columns=columns))
    assert log_probabilities(packed, 0).keys() == log_probabilities(padded, 0).keys() == set(range(N))
    assert dpo_loss(packed) == pytest.approx(dpo_loss(padded), rel=1e-5)
    assert log_probabilities(packed, 0)[3] == pytest.approx(log_probabilities(padded, 0)[3], rel=1e-4)


@pytest.mark.parametrize("source", ["the arrays that trl documents", "trl"])
def test_batches_and_losses_are_those_of_the_collator_of_trl(shards: Path, source: str) -> None:
    collator: Any = collate
    if source == "trl":
        trainer = pytest.importorskip("trl.trainer.dpo_trainer", reason="needs pip install trl")
        collator = trainer.DataCollatorForPreference(pad_token_id=PAD)
    ours, theirs = list(make(shards, buckets=None, columns=COLUMNS)), []
    for batch in ours:
        samples = [{name: list(text.encode()) for name, text in SAMPLES[row].items()} for row in batch.row]
        arrays = collator(
            [
                {
                    "prompt_ids": sample["prompt"],
                    "chosen_ids": [*sample["chosen"], END],
                    "rejected_ids": [*sample["rejected"], END],
                }
                for sample in samples
            ]
        )
        theirs.append(Collated(*(arrays[name] for name in COLUMNS[:3]), batch.row))
        assert all(torch.equal(x.long(), y.long()) for x, y in zip(batch, theirs[-1], strict=True))
    assert dpo_loss(ours) == pytest.approx(dpo_loss(theirs), rel=1e-6)


def test_batches_are_planned_by_the_longer_of_both_answers(shards: Path) -> None:
    loader = make(shards, buckets=None, columns=("attention_mask",))
    assert all(mask.any(dim=0).all() for (mask,) in loader)
    bucketed = make(shards, buckets=3)
    assert {batch.input_ids.shape[1] for batch in bucketed} == {shape[1] for shape in bucketed.shapes()}


def test_pairs_resume_on_another_number_of_ranks(shards: Path) -> None:
    first = make(shards, columns=("input_ids", "row"))
    rows = [row for batch in itertools.islice(first, 2) for row in batch.row.tolist()]
    resumed = [
        make(shards, columns=("input_ids", "row", "mask"), rank=rank, world_size=2) for rank in range(2)
    ]
    for loader in resumed:
        loader.load_state_dict(first.state_dict())
        rows += [row for batch in loader for row in batch.row[batch.mask].tolist()]
    assert sorted(rows) == list(range(N))
    with pytest.raises(CheckpointError, match="pairs was"):
        make(shards, batchify=PreferencePairs(max_length=9)).load_state_dict(first.state_dict())


def test_other_fields_are_refused(shards: Path) -> None:
    with pytest.raises(ConfigError, match="takes the fields prompt, chosen, rejected, found chosen"):
        make(shards, fields=("chosen",))
