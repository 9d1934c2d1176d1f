"""Tests of the card of a dataset."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import run

import stoker
from stoker.errors import ConfigError
from stoker.pipeline.commands.card import histogram, write_card

Picture = Callable[..., bytes]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def dataset(encode_picture: Picture, tmp_path: Path) -> Path:
    for i in range(5):
        file = tmp_path / "photos" / ("a <cat>" if i < 3 else "dog") / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode_picture(i, "JPEG"))
    (tmp_path / "photos" / "dog" / "broken.jpg").write_bytes(encode_picture(9, "JPEG")[:-90])
    stoker.convert(tmp_path / "photos", tmp_path / "shards")
    return tmp_path / "shards"


def test_the_command_writes_a_page_that_needs_no_other_file(dataset: Path, tmp_path: Path) -> None:
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


def test_a_card_lists_the_versions_of_a_dataset(
    dataset: Path, encode_picture: Picture, tmp_path: Path
) -> None:
    with stoker.Writer(dataset, append=True) as writer:
        writer.write(encode_picture(7, "JPEG"), label="dog")
    write_card(stoker.open(dataset), tmp_path / "card.html")
    assert "<h2>Versions</h2>" in (tmp_path / "card.html").read_text()


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
