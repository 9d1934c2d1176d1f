"""Names of classes in a file, or with commas between."""

from pathlib import Path

import pytest

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.sources.class_names import parse_class_names


def test_names_with_commas_between() -> None:
    assert parse_class_names("cat, wild dog,crane,crane") == ("cat", "wild dog", "crane", "crane")


@pytest.mark.parametrize("text", ["cat\nwild dog, tame\n", "\ufeffcat\r\n  wild dog, tame"])
def test_a_name_a_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a,b"
    file.write_text(text, encoding="utf-8")
    assert parse_class_names(str(file)) == ("cat", "wild dog, tame")


@pytest.mark.parametrize(("text", "label"), [("", 0), ("cat\n\ndog\n", 1)])
def test_every_label_has_a_name(tmp_path: Path, text: str, label: int) -> None:
    (tmp_path / "names").write_text(text)
    with pytest.raises(ConfigError, match=f"no name for label {label}"):
        parse_class_names(str(tmp_path / "names"))


def test_what_is_neither(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        parse_class_names(str(tmp_path / "nowhere.txt"))
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(SourceError, match="cannot be read"):
        parse_class_names(str(tmp_path / "binary"))


def test_those_of_a_dataset(photos: Path, tmp_path: Path, without_waiting_for_the_disk: None) -> None:
    stoker.convert(photos, tmp_path / "shards")
    assert parse_class_names(str(tmp_path / "shards")) == ("cat", "dog", "eel")
    with pytest.raises(DatasetError, match="not a dataset"):
        parse_class_names(str(photos))
