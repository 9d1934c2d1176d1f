"""Tests of lists of path and label in CSV, JSON, JSON Lines and text."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def listed(folder: Path, text: str, suffix: str = ".csv", **options: Any) -> Listing:
    file = folder / f"list{suffix}"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    return list_named_images(Source(file, **options))


def test_names_in_a_csv_are_classes_in_sorted_order(folder: Path) -> None:
    listing = listed(folder, "path,label\nimages/1.jpg,dog\nimages/0.jpg,cat\nimages/2.jpg,dog\n")
    assert listing.classes == ("cat", "dog")
    assert listing.keys.to_pylist() == ["images/0.jpg", "images/1.jpg", "images/2.jpg"]
    assert listing.labels.to_pylist() == [0, 1, 1]
    assert listing.sizes.tolist() == [(folder / key).stat().st_size for key in listing.keys.to_pylist()]


def test_labels_of_a_csv_are_names_or_numbers(folder: Path) -> None:
    for text, labels, classes in (
        ("label,path\n7,images/1.jpg\n-3,images/0.jpg\n", [-3, 7], ()),
        ("path,label\nimages/0.jpg,10.0\nimages/1.jpg,9.0\nimages/2.jpg,-3\n", [10, 9, -3], ()),
        (
            "path,label\nimages/0.jpg,10.0\nimages/1.jpg,9.0\nimages/2.jpg,x\n",
            [0, 1, 2],
            ("10.0", "9.0", "x"),
        ),
        ("path,labels\nimages/0.jpg,10.0|9.\nimages/1.jpg,2\n", [[10, 9], [2]], ()),
        ("path,label\nimages/0.jpg, 7\nimages/1.jpg,-3\n", [7, -3], ()),
        (f"path,label\nimages/0.jpg,{'9' * 30}\nimages/1.jpg,8\n", [1, 0], ("8", "9" * 30)),
        ("path,label,iso\nimages/0.jpg,007,100\nimages/1.jpg,7,200\n", [0, 1], ("007", "7")),
        ('\ufeffpath,label\r\n"images/1.jpg","a, ""b"""\r\n\r\n', [0], ('a, "b"',)),
        ("path,label,note\nimages/1.jpg,a\u2028b,x\x0cy\n", [0], ("a\u2028b",)),
    ):
        listing = listed(folder, text)
        assert listing.labels is not None
        assert (listing.labels.to_pylist(), listing.classes) == (labels, classes)
    lines = json.dumps({"path": "images/1.jpg", "label": "a\u2028b"}, ensure_ascii=False)
    assert listed(folder, f"{lines}\r\n\r\n", ".jsonl").classes == ("a\u2028b",)


EXACT = 1 << 53  # a float has all integers up to here


@pytest.mark.parametrize(
    ("suffix", "values", "kind", "expected"),
    [
        (".csv", ["1", " -2", "3 "], "int64", [1, -2, 3]),
        (".csv", ["00042", "0042", "42"], "large_string", ["00042", "0042", "42"]),
        (".csv", ["0.50", "007.5", "1"], "large_string", ["0.50", "007.5", "1"]),
        (".csv", ["+49", "49", "-0.5"], "large_string", ["+49", "49", "-0.5"]),
        (".csv", ["0", "-0.50", "+1.5"], "double", [0.0, -0.5, 1.5]),
        (".csv", ["1", "2.5", "1e3"], "double", [1.0, 2.5, 1000.0]),
        (".csv", ["1", "9" * 20, "3"], "large_string", ["1", "9" * 20, "3"]),
        (".csv", ["0.5", str(EXACT + 1), "3"], "large_string", ["0.5", str(EXACT + 1), "3"]),
        (".csv", ["0.5", str(EXACT), "3"], "double", [0.5, float(EXACT), 3.0]),
        (".csv", ["0.5", "9" * 5000, "3"], "large_string", ["0.5", "9" * 5000, "3"]),
        (".csv", ["1", "1_0", "2"], "large_string", ["1", "1_0", "2"]),
        (".csv", ["1", "", "2"], "large_string", ["1", "", "2"]),
        (".csv", ["Leica", "", "1"], "large_string", ["Leica", "", "1"]),
        (".json", [1, -2, 1 << 62], "int64", [1, -2, 1 << 62]),
        (".json", [1, 1 << 63, 2], "large_string", ["1", str(1 << 63), "2"]),
        (".json", [None, -EXACT, 1 << 60], "double", [math.nan, -float(EXACT), 2.0**60]),
        (".json", [1, 0.1, math.inf], "double", [1.0, 0.1, math.inf]),
        (".json", [None, 5, ...], "double", [math.nan, 5.0, math.nan]),
        (".json", ["1", "2", "3"], "large_string", ["1", "2", "3"]),
        (".json", [1, "2", 3.0], "large_string", ["1", "2", "3.0"]),
        (".json", [None, True, {"b": [1], "a": "é"}], "large_string", ["", "true", '{"a": "é", "b": [1]}']),
        (".json", [..., None, "z"], "large_string", ["", "", "z"]),
        (".json", ["\ud800", "a", ""], "large_string", ["\\ud800", "a", ""]),
    ],
    ids=str,
)
def test_the_values_decide_the_type_of_a_column(
    folder: Path, suffix: str, values: list[Any], kind: str, expected: list[Any]
) -> None:
    entries = [{"path": f"images/{i}.jpg", "label": "a", "x": value} for i, value in enumerate(values)]
    text = json.dumps([{name: one for name, one in entry.items() if one is not ...} for entry in entries])
    if suffix == ".csv":
        text = "\n".join(["path,label,x", *(",".join(entry.values()) for entry in entries)])
    column = listed(folder, text, suffix).columns["x"]
    assert str(column.type) == kind
    assert str(column.to_pylist()) == str(expected), "NaN differs from itself"


@pytest.mark.parametrize("other", [None, ..., 0.5])
@pytest.mark.parametrize("number", [EXACT + 1, -EXACT - 1, (1 << 63) + 1])
def test_a_column_of_floats_would_change_its_integers(folder: Path, number: int, other: Any) -> None:
    entries = [{"path": f"images/{i}.jpg", "label": "a", "x": x} for i, x in enumerate((number, other))]
    text = json.dumps([{name: one for name, one in entry.items() if one is not ...} for entry in entries])
    with pytest.raises(SourceError, match=rf"(?s)column 'x' must keep its integers, found {number},.*\.json"):
        listed(folder, text, ".json")


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
    for one, label in zip(entries, (1.0, 0), strict=True):
        one.pop("labels", None)
        one["label"] = label
    assert listed(folder, json.dumps(entries), ".json").labels.to_pylist() == [1, 0]
    entries[0]["labels"] = entries[0].pop("label") and "sea|boat"
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


@pytest.mark.parametrize(
    ("header", "first", "second", "found"),
    [
        ("path,label", "cat", "outdoor", "their label: images/0.jpg has cat and outdoor (images: 1)"),
        ("path,label", "0", "1", "has 0 and 1"),
        ("path,labels", "cat|dog", "dog", "has cat|dog and dog"),
        ("path,labels", "", "dog", "has  and dog"),
        ("path,label,text", "1,a dog", "1,a cat", "their text: images/0.jpg has a dog and a cat"),
    ],
)
def test_rows_of_one_image_with_other_labels_are_refused(
    folder: Path, header: str, first: str, second: str, found: str
) -> None:
    lines = [header, f"images/0.jpg,{first}", f"./images/0.jpg,{second}", f"images/1.jpg,{second}"]
    with pytest.raises(SourceError, match=re.escape(found)) as caught:
        listed(folder, "\n".join(lines), caption_column="text" if "text" in header else None)
    assert "in one row" in str(caught.value.hint)


def test_rows_of_one_image_may_have_labels_in_another_order_and_other_columns(folder: Path) -> None:
    rows = [
        "path,labels,camera",
        "images/0.jpg,cat|dog,1",
        "images/0.jpg,dog|cat,2",
        *["images/1.jpg,,1"] * 2,
    ]
    skipped = listed(folder, "\n".join(rows)).skipped
    assert skipped == (
        ("images/0.jpg", "listed twice with different values", "camera"),
        ("images/1.jpg", "listed twice", ""),
    )


def test_paths_that_lead_to_no_file_of_the_source_are_left_out(folder: Path) -> None:
    inner = folder / "images"
    (folder / "beside.jpg").write_bytes((inner / "0.jpg").read_bytes())
    os.mkfifo(inner / "fifo.jpg")
    (inner / "folder").mkdir()
    others = {
        "../beside.jpg": "path that leaves the source",
        "..": "path that leaves the source",
        "gone.jpg": "unreadable",
        "folder": "not a regular file",
        "fifo.jpg": "not a regular file",
    }
    paths = {**dict.fromkeys(["0.jpg", "./1.jpg", f"{folder}/images/2.jpg", ".//0.jpg"], "a"), "folder": "c"}
    lines = [f"{path},{paths.get(path, 'b')}" for path in [*paths, *others, "x/../../beside.jpg"]]
    listing = listed(inner, "\n".join(["path,label", *dict.fromkeys(lines)]))
    assert list(listing.names()) == [f"{folder}/images/2.jpg", "0.jpg", "1.jpg"]
    reasons = {(skip.key, skip.reason) for skip in listing.skipped}
    assert reasons == {*others.items(), ("0.jpg", "listed twice")}
    assert [skip.key for skip in listing.missing_classes] == ["b", "c"]
    numbers = listed(folder, "path,label\nimages/0.jpg,1\nimages/gone.jpg,0\n")
    assert numbers.missing_classes == ()


def test_links_are_followed_unless_the_caller_refuses_them(folder: Path, tmp_path: Path) -> None:
    (folder / "images" / "0.jpg").rename(tmp_path / "elsewhere.jpg")
    (folder / "images" / "0.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    (folder / "linked").symlink_to("images")
    paths = ["images/0.jpg", "linked/1.jpg", f"{folder}/images/0.jpg", "images/1.jpg"]
    assert len(listed(folder, "path,label\n" + "".join(f"{path},a\n" for path in paths))) == 4
    listing = list_named_images(Source(folder / "list.csv", SourceOptions(follow_links=False)))
    assert list(listing.names()) == ["images/1.jpg"]
    assert [skip.reason for skip in listing.skipped] == ["link"] * 3


@pytest.mark.parametrize(
    ("suffix", "text", "says"),
    [
        (".dat", "path,label\n", "neither a folder nor"),
        (".txt", "images/0.jpg dog\n", "line 1 is not a path and a number: images/0.jpg dog"),
        (".txt", "images/0.jpg 0 1 0\n", "line 1 has several numbers"),
        (".csv", "", "has no entries"),
        (".csv", "path,label\n", "has no entries"),
        (".csv", "path,label\n\udcff\udcfe,a\n", "cannot be parsed"),
        (".json.gz", "", "is packed"),
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
        (".csv", "path,label\nimages/0.jpg,a\nimages/1.jpg,\n", "entry 2 has no label: ''"),
        (".csv", "path,label\nimages/0.jpg,NaN\nimages/1.jpg,1", "entry 1 has no label: 'NaN'"),
        (".csv", "path,labels\nimages/0.jpg,a|<NA>\n", "entry 1 has no label: '<NA>'"),
        (".csv", "path,label\nimages/0.jpg,['a' 'b']\n", "a list of names or numbers, as it is in brackets"),
        (".csv", "path,labels\nimages/0.jpg,[null]\n", "a list of names or numbers, as it is in brackets"),
        (".csv", "path,label\nimages/0.jpg,[0 1 0]\n", "a list of names or numbers, as it is in brackets"),
        (
            ".csv",
            "path,label\nimages/0.jpg,0 1 0\nimages/1.jpg,1 0 0\n",
            "'0 1 0' is several labels in one text",
        ),
        (".json", '[{"path": "images/0.jpg", "label": null}]', "entry 1 has no label: None"),
        (".csv", "path,label\nimages/0.jpg,0.5\n", "the labels are numbers, but no integers"),
        (".csv", "path,labels\nimages/0.jpg,0.5|1\n", "the labels are numbers, but no integers"),
        (".csv", "path,label,labels\nimages/0.jpg,a,b\n", "label and labels exclude each other"),
        (".json", "{}", "not a JSON array"),
        (".json", "[" * 100_000, "not a JSON array"),
        (".json", '[{"path": "images/0.jpg", "label": 1.5}]', "a label that is no class: 1.5"),
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
    assert caught.value.hint
    assert len(caught.value.hint) < 300 or suffix == ".dat"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("id,breed\nimages/0.jpg,pug\n", "path_column='id' and label_column='breed'"),
        ("path,age\nimages/0.jpg,3.5\n", "unlabelled=True"),
        ("path|label\nimages/0.jpg|a\n", "a comma, a semicolon or a tab"),
        ("path,cat,dog\nimages/0.jpg,1,0\n", "Columns of 0 and 1 are named together, such as 'cat,dog'"),
        ("images/0.jpg,a\nimages/1.jpg,b\n", "names of the columns in the first line"),
        ("path,label\nimages/0.jpg,0.5\n", "unlabelled=True"),
        ("path,label\nimages/0.jpg,cat|dog\n", "label_separator='|'"),
        ("path,label\nimages/0.jpg,cat;dog\nimages/1.jpg,cat\nimages/2.jpg,dog\n", "label_separator=';'"),
        ("path,labels\nimages/0.jpg,cat dog\n", "label_separator"),
        ('path,label\n"images/0.jpg,a\n', "written twice"),
        ("path,labels\nimages/0.jpg,1|0|0\nimages/1.jpg,0|1|0\n", "label_type='multi-hot'"),
        ('path,labels\nimages/0.jpg,"[1,0,0]"\nimages/1.jpg,"[0,1,1]"\n', "label_type='multi-hot'"),
    ],
)
def test_the_hint_names_the_option_that_reads_the_labels(folder: Path, text: str, hint: str) -> None:
    with pytest.raises(SourceError) as caught:
        listed(folder, text)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "options", "labels", "classes"),
    [
        ("path;label\nimages/0.jpg;cat\nimages/1.jpg;dog", {}, [0, 1], ("cat", "dog")),
        ("path\tlabel\nimages/0.jpg\tcat\nimages/1.jpg\tdog", {}, [0, 1], ("cat", "dog")),
        ("path, label\nimages/0.jpg, cat\nimages/1.jpg, dog", {}, [0, 1], ("cat", "dog")),
        (",path,label\n0,images/0.jpg,cat\n1,images/1.jpg,dog", {}, [0, 1], ("cat", "dog")),
        (
            "path,tags,label\nimages/0.jpg,cat sea,x\nimages/1.jpg,sea,y",
            {"label_column": "tags", "label_separator": " "},
            [[0, 1], [1]],
            ("cat", "sea"),
        ),
        ("path,label\nimages/0.jpg,a|b\nimages/1.jpg,c", {"label_separator": ""}, [0, 1], ("a|b", "c")),
        ('path,labels\nimages/0.jpg,"[""b"", ""a""]"\nimages/1.jpg,[]', {}, [[1, 0], []], ("a", "b")),
        ("path,labels\nimages/0.jpg,\"['b', 'a']\"\nimages/1.jpg,[]", {}, [[1, 0], []], ("a", "b")),
        (
            "path,sea,cat,dog\nimages/0.jpg,1,0,1\nimages/1.jpg,0,0,0",
            {"label_column": "sea,cat,dog"},
            [[0, 2], []],
            ("sea", "cat", "dog"),
        ),
        (
            "path,sea,cat,dog\nimages/0.jpg,0.0,0,1\nimages/1.jpg,1,0,0",
            {"label_column": "sea,cat,dog", "label_type": "one-hot"},
            [2, 0],
            ("sea", "cat", "dog"),
        ),
        (
            "path,labels\nimages/0.jpg,0|0|1\nimages/1.jpg,1|0|1",
            {"label_type": "multi-hot"},
            [[2], [0, 2]],
            (),
        ),
        ("path,labels\nimages/0.jpg,3|1\nimages/1.jpg,2", {"label_type": "first"}, [3, 2], ()),
        ("path,labels\nimages/0.jpg,b|a\nimages/1.jpg,a", {"label_type": "first"}, [1, 0], ("a", "b")),
        ("path,label\nimages/0.jpg,a\nimages/1.jpg,b\n,\n", {}, [0, 1], ("a", "b")),
        ("path,label\nimages/0.jpg,[a]\nimages/1.jpg,b", {"label_separator": ""}, [0, 1], ("[a]", "b")),
        ("path,label,age\nimages/0.jpg,1.5,3\nimages/1.jpg,0.25,4", {"unlabelled": True}, None, ()),
    ],
)
def test_labels_are_read_in_the_forms_that_tables_have(
    folder: Path, text: str, options: dict[str, Any], labels: Any, classes: tuple[str, ...]
) -> None:
    listing = listed(folder, text, options=SourceOptions(**options))
    assert (listing.labels and listing.labels.to_pylist(), listing.classes) == (labels, classes)
    if labels is None:
        assert listing.columns["label_"].to_pylist() == [1.5, 0.25]


def test_columns_with_names_of_the_index_get_an_underscore(folder: Path) -> None:
    text = "path,label,width,height_,height,breed\nimages/0.jpg,a,3,4,5,pug\n"
    columns = listed(folder, text).columns
    assert {name: columns[name].to_pylist()[0] for name in ("width_", "height_", "height__")} == {
        "width_": 3,
        "height_": 4,
        "height__": 5,
    }
    listing = listed(folder, text, options=SourceOptions(label_column="breed"))
    assert (listing.classes, listing.columns["label_"].to_pylist()) == (("pug",), ["a"])


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ("1,0.5", "must hold 0 or 1"),
        ("0,-1", "0 and -1"),
        ("1,1", "one 1 in the columns of classes, found 2"),
    ],
)
def test_columns_of_classes_that_hold_other_numbers_are_refused(folder: Path, cells: str, says: str) -> None:
    options = SourceOptions(label_column="sea,cat", label_type="one-hot" if says.startswith("one") else None)
    with pytest.raises(SourceError, match=says):
        listed(folder, f"path,sea,cat\nimages/0.jpg,{cells}\n", options=options)


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
    with pytest.raises(SourceError, match="has no path: it has id, breed, age"):
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


@pytest.mark.parametrize(
    ("name", "form", "hint"),
    [
        ("list.csv", "images/{}.jpg", "are in {folder}/data: give images='{folder}/data'"),
        ("data/list.csv", "{}", "with the suffix .jpg: give suffix='.jpg' and images='{folder}/data/images'"),
        ("list.csv", "{}.jpg", "the first file would be {folder}/0.jpg"),
        ("data/images/list.csv", "images/{}.jpg", "are in {folder}/data: put the list there"),
        ("data/list.csv", "train/images/{}.jpg", "without the prefix 'train/'"),
        ("data/list.csv", "/mnt/set/images/{}.jpg", "without the prefix '/mnt/set/'"),
        ("data/list.csv", "images/{}", "with the suffix .jpg: give suffix='.jpg'."),
        ("lists/list.csv", "images/{}.jpg", "these files are in {folder}/data: put the list there"),
        ("lists/list.csv", "../data/images/{}.jpg", "write absolute ones"),
    ],
)
def test_the_hint_says_what_the_paths_lack(
    data: Path, name: str, form: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data / "data" if name.startswith("lists") else data)
    error = refusal(data / name, form)
    assert hint.format(folder=data) in str(error.hint)
    first = os.path.normpath(form.format(0))
    assert error.message.startswith("the list names no image that can be read; left out: 5 x ")
    assert f", such as {first}, " in error.message


def test_the_errors_about_urls_and_lost_files_count_them(data: Path, tmp_path: Path) -> None:
    file = data / "data/list.csv"
    file.write_text("path,label\nhttps://example.org/0.jpg,cat\n")
    with pytest.raises(SourceError, match=r"left out: 1 x URL in a list on a disk(?s:.)*put it there"):
        list_named_images(Source(file))
    file.write_text("path,label\nimages/0.jpg,a\n" + "".join(f"images/{i}.jpg,a\n" for i in range(5, 9)))
    with pytest.raises(SourceError) as caught:
        stoker.convert(file, tmp_path / "out", strict=True)
    assert caught.value.message == (
        "4 x unreadable: No such file or directory, such as images/5.jpg, images/6.jpg, images/7.jpg"
    )


@pytest.mark.parametrize("kind", ["csv", "coco", "yolo"])
def test_absolute_paths_stay_in_the_named_folder_unless_an_option_says_otherwise(
    tmp_path: Path, make_jpeg: Callable[..., bytes], kind: str
) -> None:
    folder, outside = tmp_path / "set", tmp_path / "private"
    folder.mkdir()
    for part in ("images", "labels"):
        (outside / part / "train").mkdir(parents=True)
    image = outside / "images" / "train" / "a.jpg"
    image.write_bytes(make_jpeg(0))
    (outside / "labels" / "train" / "a.txt").write_text("0 0.5 0.5 0.5 0.5")
    (folder / "b.jpg").write_bytes(make_jpeg(1))
    if kind == "csv":
        source = folder / "list.csv"
        source.write_text(f"path,label\n{image},cat\n{folder}/b.jpg,cat\n")
    elif kind == "coco":
        source = folder / "list.json"
        images = [{"id": i, "file_name": name} for i, name in enumerate((str(image), "b.jpg"))]
        source.write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    else:
        source = folder / "data.yaml"
        source.write_text(f"path: {outside}\ntrain: images/train\nnames: [cat]\n")
    target = tmp_path / "out"
    if kind == "yolo":
        with pytest.raises(SourceError, match="in its own folder"):
            stoker.convert(source, target)
    else:
        summary = stoker.convert(source, target, selection=stoker.Selection(allow_loss=1))
        assert (summary.written, summary.skipped) == (1, {"absolute path outside the source": 1})
        options = convert_options({"images": tmp_path, "allow_loss": 1})
        assert stoker.convert(source, tmp_path / "named", **options).written == {"csv": 2, "coco": 1}[kind]
    everywhere = stoker.SourceOptions(outside=True)
    assert (
        stoker.convert(source, tmp_path / "all", source_options=everywhere).written == (2, 1)[kind == "yolo"]
    )


def test_a_message_names_lists_that_become_texts(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = {"path": "images/0.jpg", "label": 1, "gaze": [0.5, 0.25]}
    assert listed(folder, json.dumps([entry]), ".json").columns["gaze"].to_pylist() == ["[0.5, 0.25]"]
    assert "the lists of gaze become texts in JSON" in caplog.text
