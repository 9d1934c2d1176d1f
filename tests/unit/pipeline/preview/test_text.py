"""The preview of text: decoded samples with trained tokens marked, and a packed row."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.command_line import run
from helpers.options import text_options

import stoker
from stoker.errors import ConfigError
from stoker.pipeline.preview.text import preview_text

PAIRS = [
    {"q": f"<{n}> plus one? ", "a": f"{n + 1} & ☀", "kind": "odd" if n % 2 else "even"} for n in range(8)
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("texts")
    (root / "t.jsonl").write_text("\n".join(map(json.dumps, PAIRS)))
    options = {"fields": ["q", "a"], "tokenizer": "bytes", "eos": True, "label": "kind"}
    stoker.convert_text(root / "t.jsonl", root / "sft", **text_options({"train_on": "a", **options}))
    stoker.convert_text(root / "t.jsonl", root / "words", fields=["q"], tokenizer="bytes")
    return root


def test_trained_tokens_are_marked_and_a_packed_row_has_its_segments(texts: Path, tmp_path: Path) -> None:
    sheet = preview_text(texts / "sft", tmp_path / "a.html", positions=[3], pack_length=64)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert '<p class="text">&lt;3&gt; plus one? <mark>4 &amp; ☀[EOS]</mark></p>' in page
    assert "t.jsonl:4" in page
    assert "text, odd, 22 tokens" in page
    row = sheet.row
    assert row is not None
    assert [segment.tokens for segment in row.segments] == [22, 22]
    assert "2 segments, 68.8% filled" in page
    assert len(re.findall(r'<i style="width:34.38%', page)) == 2


def test_the_command_prints_texts_and_marks_trained_ones(texts: Path) -> None:
    packed = run("preview", texts / "sft", "--rows", 2, "--pack", 64)
    assert "<2> plus one? ⟦3 & ☀[EOS]⟧" in packed
    assert "a packed row of 64 tokens" in packed
    words = run("preview", texts / "words", "--samples", 8)
    assert "<7> plus one?" in words
    assert "⟦" not in words


def test_a_preview_of_text_refuses_a_png_and_unknown_samples(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must end in"):
        preview_text(texts / "sft", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="no sample 8"):
        preview_text(texts / "sft", positions=[8])
