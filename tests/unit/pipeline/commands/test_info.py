"""Tests of ``stoker info``, of its JSON and of the card of a dataset."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import run
from helpers.datasets import WORDS
from PIL import Image

import stoker
from stoker.errors import ConfigError
from stoker.pipeline.commands.card import histogram, write_card

Picture = Callable[..., bytes]
RunMain = Callable[..., str]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def test_info_measures_pixels_and_writes_a_mean_image(
    run_main: RunMain, shards: Path, tmp_path: Path
) -> None:
    assert "Normalize" not in run_main("info", shards)
    assert "Normalize(mean=(" in run_main("info", shards, "--pixels")
    for name in ("mean.NPY", "mean.png"):
        assert "mean image, 12x16" in run_main("info", shards, "--mean-image", tmp_path / name)
    assert np.load(tmp_path / "mean.NPY").shape == (12, 16, 3)
    with Image.open(tmp_path / "mean.png") as image:
        assert image.size == (16, 12)
    for name in ("mean.jpg", "nowhere/mean.png"):
        assert "mean image" in run_main("info", shards, "--mean-image", tmp_path / name, status=1)


def test_info_prints_json(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards", "--shards", 2)
    facts = json.loads(run_main("info", tmp_path / "shards", "--json", "--pixels"))
    dataset = stoker.open(tmp_path / "shards")
    assert (facts["samples"], facts["shards"], facts["bytes"]) == (6, 2, sum(dataset.data_sizes))
    assert facts["classes"] == [{"name": "a", "samples": 3}, {"name": "b", "samples": 3}]
    assert facts["encodings"] == {"JPEG": 6}
    assert facts["skipped"] == {"not an image": 1}
    assert facts["height"]["min"] == dataset.column("height").min()
    assert len(facts["mean"]) == len(facts["std"]) == 3


def test_info_has_the_tokens_of_each_field(tmp_path: Path) -> None:
    rows = [{"q": "w " * (i + 1), "a": "one two"} for i in range(100)]
    stoker.convert_text(rows, tmp_path / "d", fields=["q", "a"], tokenizer=WORDS)
    tokens = json.loads(run("info", tmp_path / "d", "--json"))["tokens"]
    assert tokens["q"] == {
        "tokens": 5050,
        "percentiles": {"50": 50, "90": 90, "99": 99},
        "longest": 100,
        "longest_key": "00000099",
        "trained": None,
    }
    assert tokens["a"]["percentiles"] == {"50": 2, "90": 2, "99": 2}
    output = " ".join(run("info", tmp_path / "d").split())
    assert "tokens, q 5,050: 50 % up to 50, 90 % up to 90, 99 % up to 99, longest 100 (00000099)" in output
    assert "trained" not in output
    rows = [{"q": "one two three ", "a": "four"}] * 3
    training = stoker.Training(train_on="a")
    stoker.convert_text(rows, tmp_path / "t", fields=["q", "a"], tokenizer=WORDS, training=training)
    output = " ".join(run("info", tmp_path / "t").split())
    assert "trained, text 3, 25.0% of the tokens" in output


@pytest.fixture
def dataset(encode_picture: Picture, tmp_path: Path) -> Path:
    for i in range(5):
        file = tmp_path / "photos" / ("a <cat>" if i < 3 else "dog") / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode_picture(i, "JPEG"))
    (tmp_path / "photos" / "dog" / "broken.jpg").write_bytes(encode_picture(9, "JPEG")[:-90])
    stoker.convert(tmp_path / "photos", tmp_path / "shards")
    return tmp_path / "shards"


def test_a_card_is_a_page_that_needs_no_other_file(
    dataset: Path, encode_picture: Picture, tmp_path: Path
) -> None:
    card = tmp_path / "card.html"
    run("info", dataset, "--card", card)
    page = card.read_text()
    assert re.findall(r'<tr><th>([^<]*)</th><td><i style="width:([\d.]+)%"></i></td><td>(\d)</td>', page) == [
        ("a &lt;cat&gt;", "100.00", "3"),
        ("dog", "66.67", "2"),
    ]
    assert page.count("data:image/jpeg;base64,") == 5
    assert page.count("<svg") == 4
    assert not re.search(r"(src|href)=\"(?!data:)|url\(|@import", page)
    assert "<th>broken image</th><td>1</td><td>dog/broken.jpg" in page
    assert "Versions" not in page
    with stoker.Writer(dataset, append=True) as writer:
        writer.write(encode_picture(7, "JPEG"), label="dog")
    write_card(stoker.open(dataset), card)
    assert "<h2>Versions</h2>" in card.read_text()


def test_the_card_of_many_classes_shows_the_largest(make_jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "shards") as writer:
        for i in range(70):
            writer.write(make_jpeg(i), label=f"class {min(i, 65):02}", key=str(i))
    write_card(stoker.open(tmp_path / "shards"), tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text()
    assert "<tr><th>class 65</th>" in page
    assert "<p>The 60 largest; 6 more have 6 samples.</p>" in page


@pytest.mark.parametrize(
    "values", [np.array([7]), np.array([3, 3, 4]), np.array([1, 2, 90_000]), np.array([0.5, 0.5, 40.0])]
)
def test_a_histogram_counts_every_value(values: np.ndarray) -> None:
    chart = histogram(values, "Width")
    assert sum(map(int, re.findall(r": (\d+)</title>", chart))) == len(values)


def test_a_card_that_is_no_page_or_shows_no_images_is_refused(dataset: Path, tmp_path: Path) -> None:
    for name, message in {"card.png": "a card is a .html file", "no/card.html": "folder of the card"}.items():
        with pytest.raises(ConfigError, match=message):
            write_card(stoker.open(dataset), tmp_path / name)
    stoker.convert_text(iter(["a", "b"]), tmp_path / "texts", tokenizer="bytes")
    with pytest.raises(ConfigError, match="shows images"):
        write_card(stoker.open(tmp_path / "texts"), tmp_path / "card.html")
