"""Batches of text, compared with the collators of Hugging Face by the losses of small models."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.loaders import text_arguments

import stoker
from stoker.bucketing import MaskTokens

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

PAD, EOS, WORDS = 0, 1, 60
SMALL: dict[str, Any] = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16}
SMALL |= {"num_hidden_layers": 1, "num_attention_heads": 2}
"""Sizes of a model."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer of transformers that ends each sequence with an end of text."""
    vocab = {"[PAD]": PAD, "[EOS]": EOS, **{f"w{i}": 2 + i for i in range(WORDS)}}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="[PAD]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [EOS]", special_tokens=[("[EOS]", EOS)]
    )
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    backend.save(str(path))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(path), pad_token="[PAD]", eos_token="[EOS]"
    )


@pytest.fixture(scope="module")
def sentences() -> dict[str, list[str]]:
    """Pairs of sentences of different lengths."""
    return {
        side: [" ".join(f"w{(i * j + start) % WORDS}" for j in range(1 + i % period)) for i in range(24)]
        for side, period, start in (("source", 9, 1), ("target", 7, 5))
    }


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any, sentences: dict[str, list[str]]) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for side, lines in sentences.items():
        (folder / f"t.{side}").write_text("\n".join(lines))
    tokenizer.save_pretrained(folder)
    files = [folder / f"t.{side}" for side in sentences]
    stoker.convert_text(files, folder / "d", parallel=True, tokenizer=folder / "tokenizer.json")
    return folder / "d"


def loss_of(model: Any, inputs: Any) -> float:
    with torch.no_grad():
        return float(model(**inputs).loss)


def check_losses(model: Any, loader: stoker.TextLoader, collate: Any, features: Callable[[int], Any]) -> None:
    """Compares the loss of each batch with that of the collator's batch of the same rows."""
    for input_ids, attention_mask, labels, rows in loader:
        ours = {"input_ids": input_ids, "attention_mask": attention_mask.long(), "labels": labels}
        theirs = collate([features(row) for row in rows.tolist()])
        assert loss_of(model, ours) == pytest.approx(loss_of(model, theirs), rel=1e-5)


def test_labels_of_an_encoder_decoder_have_the_loss_of_its_collator(
    shards: Path, tokenizer: Any, sentences: dict[str, list[str]]
) -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=PAD
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    collate = transformers.DataCollatorForSeq2Seq(tokenizer, model)
    encoded = tokenizer(sentences["source"], text_target=sentences["target"])
    columns = ("source_input_ids", "source_attention_mask", "target_labels", "row")
    loader = stoker.TextLoader(
        shards, batch_size=6, shuffle=True, output="torch", columns=columns, labels="seq2seq"
    )
    names = ("input_ids", "attention_mask", "labels")
    check_losses(model, loader, collate, lambda row: {name: encoded[name][row] for name in names})


def test_labels_of_a_causal_model_have_the_loss_of_its_collator(
    shards: Path, tokenizer: Any, sentences: dict[str, list[str]]
) -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    model = transformers.GPT2LMHeadModel(config).eval()
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    encoded = tokenizer(sentences["source"], return_token_type_ids=False)
    columns = ("input_ids", "attention_mask", "labels", "row")
    loader = stoker.TextLoader(
        shards, batch_size=6, shuffle=True, output="torch", columns=columns, fields=["source"]
    )
    check_losses(model, loader, collate, lambda row: {"input_ids": encoded["input_ids"][row]})


def llama(attention: str = "sdpa") -> Any:
    """A small causal model."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**(SMALL | {"num_hidden_layers": 2}), attn_implementation=attention)
    return transformers.LlamaForCausalLM(config).eval()


def attend_by_lengths(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """Attention within the sequences that ``cu_seq_lens_q`` bounds, as flash attention finds it."""
    assert mask is None
    bounds = options["cu_seq_lens_q"].tolist()
    assert bounds == options["cu_seq_lens_k"].tolist()
    assert options["max_length_q"] == options["max_length_k"]
    assert max(b - a for a, b in itertools.pairwise(bounds)) <= options["max_length_q"]
    flat = [tensor.transpose(0, 1).flatten(1, 2) for tensor in (query, key, value)]
    attended = [
        torch.nn.functional.scaled_dot_product_attention(
            *(tensor[:, a:b] for tensor in flat), is_causal=True, scale=options["scaling"]
        )
        for a, b in itertools.pairwise(bounds)
        if b > a
    ]
    joined = torch.cat(attended, 1).unflatten(1, (query.shape[0], query.shape[2]))
    return joined.permute(1, 2, 0, 3), None


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("lengths", [False, True], ids=["by position ids", "by lengths"])
def test_packed_rows_have_the_loss_of_the_collator_that_flattens(
    shards: Path, tokenizer: Any, sentences: dict[str, list[str]], lengths: bool, rows: int
) -> None:
    """Models pass the lengths on to flash attention alone, which needs a GPU; a function replaces it."""
    transformers.AttentionInterface.register("by_lengths", attend_by_lengths)
    model = llama("by_lengths" if lengths else "sdpa")
    collate = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=lengths)
    encoded = tokenizer(sentences["source"])["input_ids"]
    columns = ["input_ids", "position_ids", "labels"]
    if lengths:
        columns += ["cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"]
    loader = stoker.TextLoader(
        shards,
        batch_size=rows,
        pack=24,
        shuffle=True,
        output="torch",
        fields=["source"],
        columns=[*columns, "row"],
    )
    for batch in loader:
        features = [{"input_ids": encoded[i]} for i in batch.row.reshape(-1).tolist() if i >= 0]
        ours = {name: getattr(batch, name) for name in columns}
        ours["position_ids"] = batch.position_ids.long()
        theirs = collate(features)
        assert loss_of(model, {**ours, "use_cache": False}) == pytest.approx(
            loss_of(model, {**theirs, "use_cache": False}), rel=1e-5
        )


@pytest.mark.parametrize("rows", [1, 3])
def test_packed_rows_have_the_loss_of_single_sequences(shards: Path, rows: int) -> None:
    """With position ids that begin again, and ``use_cache=False``, a model keeps packed sequences apart."""
    model = llama()

    def total(loader: stoker.TextLoader) -> tuple[float, int]:
        losses, count = 0.0, 0
        for input_ids, other, labels in loader:
            packed = {"position_ids": other.long(), "use_cache": False}
            inputs = packed if loader.columns[1] == "position_ids" else {"attention_mask": other.long()}
            number = int((labels[:, 1:] != -100).sum())
            losses += loss_of(model, {"input_ids": input_ids, "labels": labels, **inputs}) * number
            count += number
        return losses, count

    options: dict[str, Any] = {"fields": ["source"], "output": "torch"}
    single = stoker.TextLoader(
        shards, **text_arguments(batch_size=6, columns=("input_ids", "attention_mask", "labels"), **options)
    )
    packed = stoker.TextLoader(
        shards,
        **text_arguments(
            batch_size=rows, pack=24, columns=("input_ids", "position_ids", "labels"), **options
        ),
    )
    assert total(packed) == pytest.approx(total(single), rel=1e-5)


def test_masked_tokens_have_the_loss_of_the_collator_that_draws_the_same(
    shards: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collator draws three masks and random words with PyTorch, which returns those of the loader."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, attn_implementation="eager")
    model = transformers.BertForMaskedLM(config).eval()
    tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    mask_id = tokenizer.mask_token_id
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.5)
    loader = stoker.TextLoader(
        shards,
        batch_size=6,
        shuffle=True,
        output="torch",
        fields=["source"],
        labels=MaskTokens(0.5, mask_id=mask_id, vocabulary=len(tokenizer), special_ids=(PAD, EOS)),
    )
    for input_ids, attention_mask, labels in loader:
        chosen = labels != -100
        original = torch.where(chosen, labels, input_ids)
        hidden = chosen & (input_ids == mask_id)
        drawn = iter([chosen, hidden, chosen & (input_ids != original) & ~hidden])
        with monkeypatch.context() as patch:
            patch.setattr(torch, "bernoulli", lambda chances, generator, drawn=drawn: next(drawn).float())
            patch.setattr(torch, "randint", lambda *shape, words=input_ids, **options: words.clone())
            theirs = collate(
                [
                    {"input_ids": ids[present], "attention_mask": present[present].long()}
                    for ids, present in zip(original, attention_mask, strict=True)
                ]
            )
        assert (theirs["input_ids"] == input_ids).all()
        ours = {"input_ids": input_ids, "attention_mask": attention_mask.long(), "labels": labels}
        assert loss_of(model, ours) == pytest.approx(loss_of(model, theirs), rel=1e-6)


def test_classes_of_texts_have_the_loss_of_the_collator(
    tokenizer: Any, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, num_labels=3)
    model = transformers.BertForSequenceClassification(config).eval()
    lines = [json.dumps({"text": text, "stars": i % 3}) for i, text in enumerate(sentences["source"])]
    (tmp_path / "reviews.jsonl").write_text("\n".join(lines))
    tokenizer.save_pretrained(tmp_path)
    stoker.convert_text(
        tmp_path / "reviews.jsonl", tmp_path / "d", label="stars", tokenizer=tmp_path / "tokenizer.json"
    )
    collate = transformers.DataCollatorWithPadding(tokenizer)
    encoded = tokenizer(sentences["source"], return_token_type_ids=False)
    columns = ("input_ids", "attention_mask", "label", "row")
    loader = stoker.TextLoader(tmp_path / "d", batch_size=6, shuffle=True, output="torch", columns=columns)
    check_losses(
        model, loader, collate, lambda row: {"input_ids": encoded["input_ids"][row], "label": row % 3}
    )
