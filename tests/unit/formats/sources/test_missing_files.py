"""Tests of the error about wrong paths in a list, which counts them and names the likely cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import stoker
from stoker.errors import SourceError
from stoker.formats.sources.file_list import list_named_images
from stoker.formats.sources.source import Source


@pytest.fixture
def folder(tree: Callable[..., Path]) -> Path:
    """A folder with data/images/0.jpg to data/images/4.jpg."""
    return tree(*(f"data/images/{i}.jpg" for i in range(5)))


def refusal(file: Path, form: str) -> SourceError:
    """The error for a list of five paths of this form."""
    file.parent.mkdir(exist_ok=True)
    lines = [f"{form.format(i)},a" for i in range(5)]
    file.write_text("\n".join(["path,label", *lines]))
    with pytest.raises(SourceError) as caught:
        list_named_images(Source(file))
    return caught.value


def test_the_error_names_count_reason_and_several_files(folder: Path) -> None:
    error = refusal(folder / "list.csv", "gone/{}.jpg")
    assert error.message == (
        "the list names no image that can be read; left out: 5 x unreadable: No such file or directory, "
        "such as gone/0.jpg, gone/1.jpg, gone/2.jpg"
    )


@pytest.mark.parametrize(
    ("name", "form", "hint"),
    [
        ("list.csv", "images/{}.jpg", "with the prefix 'data/'"),
        ("list.csv", "{}.jpg", "the first file would be {folder}/0.jpg"),
        ("data/images/list.csv", "images/{}.jpg", "are in {folder}/data: put the list there"),
        ("data/list.csv", "train/images/{}.jpg", "without the prefix 'train/'"),
        ("data/list.csv", "/mnt/set/images/{}.jpg", "without the prefix '/mnt/set/'"),
        ("data/list.csv", "images/{}", "with the suffix '.jpg'"),
    ],
)
def test_the_hint_says_what_the_paths_lack(folder: Path, name: str, form: str, hint: str) -> None:
    assert hint.format(folder=folder) in str(refusal(folder / name, form).hint)


def test_the_hint_for_paths_that_start_at_the_current_folder_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "data")
    error = refusal(folder / "lists/list.csv", "images/{}.jpg")
    assert f"these files are in {folder}/data: put the list there" in str(error.hint)


def test_a_strict_conversion_counts_all_that_would_be_lost(folder: Path, tmp_path: Path) -> None:
    file = folder / "data/list.csv"
    file.write_text("path,label\nimages/0.jpg,a\n" + "".join(f"images/{i}.jpg,a\n" for i in range(5, 9)))
    with pytest.raises(SourceError) as caught:
        stoker.convert(file, tmp_path / "out", strict=True)
    assert caught.value.message == (
        "4 x unreadable: No such file or directory, such as images/5.jpg, images/6.jpg, images/7.jpg"
    )
