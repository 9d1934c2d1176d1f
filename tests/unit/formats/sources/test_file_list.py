"""Tests of lists of path and label in CSV, JSON, JSON Lines and text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.datasets import converted
from helpers.options import convert_options

import stoker
from stoker.errors import SourceError
from stoker.formats.sources.classes import parse_class_names
from stoker.formats.sources.file_list import list_named_images
from stoker.formats.sources.listing import Listing
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source


@pytest.fixture
def folder(tree: Callable[..., Path]) -> Path:
    """A folder with images/0.jpg to images/4.jpg."""
    return tree(*(f"images/{i}.jpg" for i in range(5)))


def listed(folder: Path, text: str, suffix: str = ".csv") -> Listing:
    file = folder / f"list{suffix}"
    file.write_text(text, encoding="utf-8")
    return list_named_images(Source(file))


def test_names_in_a_csv_are_classes_in_sorted_order(folder: Path) -> None:
    listing = listed(folder, "path,label\nimages/1.jpg,dog\nimages/0.jpg,cat\nimages/2.jpg,dog\n")
    assert listing.classes == ("cat", "dog")
    assert listing.keys.to_pylist() == ["images/0.jpg", "images/1.jpg", "images/2.jpg"]
    assert listing.labels.to_pylist() == [0, 1, 1]
    assert listing.sizes.tolist() == [(folder / key).stat().st_size for key in listing.keys.to_pylist()]


def test_numbers_in_a_csv_are_labels(folder: Path) -> None:
    listing = listed(folder, "label,path\n7,images/1.jpg\n-3,images/0.jpg\n")
    assert listing.classes == ()
    assert listing.labels.to_pylist() == [-3, 7]


def test_a_csv_of_a_spreadsheet_is_read(folder: Path) -> None:
    listing = listed(folder, '\ufeffpath,label\r\n"images/1.jpg","a, ""b"""\r\n\r\n')
    assert listing.classes == ('a, "b"',)


def test_only_a_line_feed_ends_a_line(folder: Path) -> None:
    text = "path,label,note\nimages/1.jpg,a\u2028b,x\x0cy\n"
    assert listed(folder, text).classes == ("a\u2028b",)
    lines = json.dumps({"path": "images/1.jpg", "label": "a\u2028b"}, ensure_ascii=False)
    assert listed(folder, f"{lines}\r\n\r\n", ".jsonl").classes == ("a\u2028b",)


def test_json_and_json_lines_give_the_same_listing(folder: Path) -> None:
    entries = [{"path": f"images/{i}.jpg", "label": "ab"[i % 2], "score": i / 2} for i in range(3)]
    as_json = listed(folder, json.dumps(entries), ".json")
    as_lines = listed(folder, "".join(json.dumps(entry) + "\n" for entry in entries), ".jsonl")
    assert as_json.labels.to_pylist() == as_lines.labels.to_pylist() == [0, 1, 0]
    assert as_json.columns["score"].to_pylist() == [0.0, 0.5, 1.0]
    assert as_json.fingerprint() == as_lines.fingerprint()


def test_an_entry_of_json_may_have_several_labels(folder: Path) -> None:
    entries = [{"path": "images/0.jpg", "label": ["sea", "boat"]}, {"path": "images/1.jpg", "label": "sea"}]
    listing = listed(folder, json.dumps(entries), ".json")
    assert listing.multi_label
    assert listing.classes == ("boat", "sea")
    assert listing.labels.to_pylist() == [[1, 0], [1]]
    entries[0]["labels"] = entries[0].pop("label")
    assert listed(folder, json.dumps(entries), ".json").fingerprint() == listing.fingerprint()
    entries[0]["labels"] = "sea|boat"
    with pytest.raises(SourceError, match="entry 1 has labels that are not a list"):
        listed(folder, json.dumps(entries), ".json")


def test_an_entry_of_csv_may_have_several_labels(folder: Path) -> None:
    text = "path,labels,camera\nimages/0.jpg,sea | boat|sea,a\nimages/1.jpg,,b\nimages/2.jpg,sea,a\n"
    listing = listed(folder, text)
    assert listing.classes == ("boat", "sea")
    assert listing.labels is not None
    assert listing.labels.to_pylist() == [[1, 0], [], [1]]
    assert sorted(listing.columns) == ["camera"]
    numbers = listed(folder, "path,labels\nimages/0.jpg,3|-1\nimages/1.jpg,7\n")
    assert numbers.labels is not None
    assert (numbers.labels.to_pylist(), numbers.classes) == ([[3, -1], [7]], ())


def test_a_path_that_leaves_the_folder_is_left_out(folder: Path) -> None:
    inner = folder / "images"
    (folder / "beside.jpg").write_bytes((inner / "0.jpg").read_bytes())
    paths = ["../beside.jpg", "x/../../beside.jpg", "..", "0.jpg", "./1.jpg"]
    listing = listed(inner, "path,label\n" + "".join(f"{path},a\n" for path in paths))
    assert listing.keys.to_pylist() == ["0.jpg", "1.jpg"]
    assert {skip.reason for skip in listing.skipped} == {"path that leaves the source"}
    assert len(listing.skipped) == 3


def test_links_are_followed_unless_the_caller_refuses_them(folder: Path, tmp_path: Path) -> None:
    (folder / "images" / "0.jpg").rename(tmp_path / "elsewhere.jpg")
    (folder / "images" / "0.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    (folder / "linked").symlink_to("images")
    paths = ["images/0.jpg", "linked/1.jpg", f"{folder}/images/0.jpg", "images/1.jpg"]
    text = "path,label\n" + "".join(f"{path},a\n" for path in paths)
    assert len(listed(folder, text)) == 4
    listing = list_named_images(Source(folder / "list.csv", SourceOptions(follow_links=False)))
    assert list(listing.names()) == ["images/1.jpg"]
    assert [skip.reason for skip in listing.skipped] == ["link"] * 3


def test_a_class_without_a_readable_image_is_missing(folder: Path) -> None:
    text = "path,label\nimages/0.jpg,dog\nimages/gone.jpg,cat\nimages/1.jpg,eel\nimages/2.jpg,dog\n"
    assert [skip.key for skip in listed(folder, text).missing_classes] == ["cat"]
    numbers = listed(folder, "path,label\nimages/0.jpg,1\nimages/gone.jpg,0\n")
    assert numbers.missing_classes == ()


def test_an_absolute_path_is_taken_as_it_is(folder: Path) -> None:
    other = folder / "lists"
    other.mkdir()
    listing = listed(other, f"path,label\n{folder}/images/0.jpg,a\n")
    assert listing.keys.to_pylist() == [f"{folder}/images/0.jpg"]


def test_files_that_cannot_be_read_are_left_out_with_a_reason(folder: Path) -> None:
    os.mkfifo(folder / "images/fifo.jpg")
    text = "path,label\nimages/0.jpg,a\nimages/gone.jpg,a\nimages,a\nimages/fifo.jpg,a\nimages//0.jpg,b\n"
    listing = listed(folder, text)
    assert listing.keys.to_pylist() == ["images/0.jpg"]
    assert [(skip.key, skip.reason) for skip in listing.skipped] == [
        ("images", "not a regular file"),
        ("images/0.jpg", "listed twice"),
        ("images/fifo.jpg", "not a regular file"),
        ("images/gone.jpg", "unreadable"),
    ]


@pytest.mark.parametrize(
    ("suffix", "text", "says"),
    [
        (".dat", "path,label\n", "neither a folder nor"),
        (".txt", "images/0.jpg dog\n", "line 1 is not a path and a number: images/0.jpg dog"),
        (".csv", "", "has no entries"),
        (".csv", "path,label\n", "has no entries"),
        (".json", "[]", "has no entries"),
        (".jsonl", "", "has no entries"),
        (".csv", "path,class\nimages/0.jpg,a\n", "the header has no label: it has path, class"),
        (".csv", "images/0.jpg,a\nimages/1.jpg,b\n", "the header has no path: it has images/0.jpg, a"),
        (".json", '[{"file": "images/0.jpg", "label": 1}]', "entry 1 has no path: it has file, label"),
        (".json", "[{}]", "entry 1 has no path: it has nothing"),
        (".jsonl", '{"path": "images/0.jpg", "class": 1}', "entry 1 has no label: it has path, class"),
        (".csv", "path,label\nimages/0.jpg\n", "line 2 has 1 fields"),
        (".csv", "path,label,label\n", "same name"),
        (".csv", 'path,label\n"images/0.jpg,a\n', "cannot be parsed"),
        (".csv", "path,label\nimages/0.jpg,a\nimages/1.jpg,\n", "entry 2 has an empty label"),
        (".csv", "path,label,crc\nimages/0.jpg,a,1\n", "crc"),
        (".csv", "path,label,object_boxes\nimages/0.jpg,a,1\n", "object_boxes"),
        (".csv", "path,label,labels\nimages/0.jpg,a,b\n", "label and labels exclude each other"),
        (".json", "{}", "not a JSON array"),
        (".json", "[" * 100_000, "not a JSON array"),
        (".json", '[{"path": "images/0.jpg", "label": 1.5}]', "neither number nor name"),
        (".json", '[{"path": "images/0.jpg", "label": true}]', "neither number nor name"),
        (".json", '[{"path": "images/0.jpg", "label": 9223372036854775808}]', "neither number nor name"),
        (".json", '[{"path": "", "label": 1}]', "not a file name"),
        (".json", '[{"path": "a\\u0000b", "label": 1}]', "not a file name"),
        (".json", '[{"path": 3, "label": 1}]', "not a file name"),
        (".json", "[3]", "entry 1 is not an object"),
        (".json", '[{"path":"images/0.jpg","label":1},{"path":"images/1.jpg","label":"a"}]', "some labels"),
        (".json", '[{"path":"images/0.jpg","label":1,"\\ud800":3}]', "a column whose name is not Unicode"),
        (".json", '[{"path":"images/0.jpg","labels":"a"}]', "labels that are not a list: 'a'"),
        (".jsonl", '{"path":"images/0.jpg","label":1}\nnonsense\n', "line 2 is not JSON"),
    ],
)
def test_a_bad_list_is_refused_with_the_reason(folder: Path, suffix: str, text: str, says: str) -> None:
    with pytest.raises(SourceError, match=says) as caught:
        listed(folder, text, suffix)
    assert str(caught.value).count("Give CSV with a header") == 1


def test_two_spellings_of_a_number_are_two_names(folder: Path) -> None:
    listing = listed(folder, "path,label,iso\nimages/0.jpg,007,100\nimages/1.jpg,7,200\n")
    assert listing.columns["iso"].to_pylist() == [100, 200]
    assert (listing.labels.to_pylist(), listing.classes) == ([0, 1], ("007", "7"))
    listing = listed(folder, "path,label\nimages/0.jpg, 7\nimages/1.jpg,-3\n")
    assert (listing.labels.to_pylist(), listing.classes) == ([7, -3], ())


def test_a_list_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "list.csv").write_bytes(b"path,label\n\xff\xfe,a\n")
    with pytest.raises(SourceError, match="cannot be parsed"):
        list_named_images(Source(folder / "list.csv"))


def test_a_fifo_as_a_list_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "list.csv")
    with pytest.raises(SourceError, match="not a regular file"):
        list_named_images(Source(folder / "list.csv"))


def test_a_list_of_caffe_has_paths_and_numbers(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0.jpg 1\n\n1.jpg\t0\r\nno file.jpg 1\n")
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    classes = parse_class_names(str(tmp_path / "labels.txt"))
    dataset = converted(tmp_path / "train.txt", tmp_path / "out", classes=classes, images=folder / "images")
    assert dataset.keys([0, 1]) == ["0.jpg", "1.jpg"]
    assert (dataset.labels.tolist(), dataset.classes) == ([1, 0], ("cat", "dog"))
    assert dataset.manifest.skipped == {"unreadable": 1}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_options_name_the_columns_and_the_suffix_of_paths(folder: Path, suffix: str) -> None:
    rows = [{"id": "0", "breed": "pug", "age": 3}, {"id": "1", "breed": "cur", "age": 4}]
    lines = [json.dumps(row) for row in rows]
    if suffix == ".csv":
        lines = ["id,breed,age", *(",".join(map(str, row.values())) for row in rows)]
    file = folder / f"train{suffix}"
    file.write_text("\n".join(lines))
    columns = {"path_column": "id", "label_column": "breed", "suffix": ".jpg"}
    stoker.convert(file, folder / "target", **convert_options({"images": folder / "images", **columns}))
    dataset = stoker.open(folder / "target")
    assert dataset.keys([0, 1]) == ["0.jpg", "1.jpg"]
    assert [dataset.classes[label] for label in dataset.labels] == ["pug", "cur"]
    assert dataset.column("age").tolist() == [3, 4]
    with pytest.raises(SourceError, match="has no path: it has id, label"):
        converted(file, folder / "none", label_column="breed")


@pytest.fixture
def data(tree: Callable[..., Path]) -> Path:
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


def test_the_error_names_count_reason_and_several_files(data: Path) -> None:
    error = refusal(data / "list.csv", "gone/{}.jpg")
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
def test_the_hint_says_what_the_paths_lack(data: Path, name: str, form: str, hint: str) -> None:
    assert hint.format(folder=data) in str(refusal(data / name, form).hint)


def test_the_hint_for_paths_that_start_at_the_current_folder_names_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data / "data")
    error = refusal(data / "lists/list.csv", "images/{}.jpg")
    assert f"these files are in {data}/data: put the list there" in str(error.hint)


def test_a_strict_conversion_counts_all_that_would_be_lost(data: Path, tmp_path: Path) -> None:
    file = data / "data/list.csv"
    file.write_text("path,label\nimages/0.jpg,a\n" + "".join(f"images/{i}.jpg,a\n" for i in range(5, 9)))
    with pytest.raises(SourceError) as caught:
        stoker.convert(file, tmp_path / "out", strict=True)
    assert caught.value.message == (
        "4 x unreadable: No such file or directory, such as images/5.jpg, images/6.jpg, images/7.jpg"
    )


def test_the_hint_for_paths_that_leave_the_source_is_absolute_paths(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    file = tmp_path / "lists" / "list.csv"
    file.write_text("path,label\n../photos/cat/0.jpg,cat\n../photos/cat/1.jpg,cat\n")
    with pytest.raises(SourceError, match="left out: 2 x path that leaves the source") as caught:
        list_named_images(Source(file))
    assert "write absolute ones" in str(caught.value.hint)


def test_the_hint_for_urls_in_a_list_on_a_disk_is_a_list_at_a_url(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("path,label\nhttps://example.org/0.jpg,cat\n")
    with pytest.raises(SourceError, match="left out: 1 x URL in a list on a disk") as caught:
        list_named_images(Source(file))
    assert "put it there" in str(caught.value.hint)
