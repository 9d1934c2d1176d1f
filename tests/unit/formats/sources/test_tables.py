"""Tests of tables in Parquet and Arrow files as sources, and of reading the images in their rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from helpers.datasets import converted, read_all
from helpers.options import convert_options

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.sources import tables
from stoker.formats.sources.listing import ListedBlocks
from stoker.formats.sources.source import Source
from stoker.formats.sources.tables import BlockImages, list_table, opened_table

Picture = Callable[..., bytes]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def hugging_face(pictures: list[bytes]) -> Any:
    """Return a dataset of Hugging Face; skips the test without its package."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "caption": datasets.Value("string"),
            "score": datasets.Value("float32"),
            "boxes": datasets.Sequence(datasets.Value("int64")),
        }
    )
    columns = {
        "image": [{"bytes": data, "path": f"{i}.jpg"} for i, data in enumerate(pictures)],
        "label": [i % 2 for i in range(7)],
        "caption": [f"picture {i}" for i in range(7)],
        "score": [i / 2 for i in range(7)],
        "boxes": [[i] for i in range(7)],
    }
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("form", ["to_parquet", "save_to_disk", "pattern"])
def test_files_that_hugging_face_datasets_writes_are_converted(
    pictures: list[bytes], tmp_path: Path, form: str
) -> None:
    made = hugging_face(pictures)
    if form == "save_to_disk":
        made.save_to_disk(tmp_path / "saved", num_shards=2)
        source = tmp_path / "saved"
    elif form == "to_parquet":
        made.to_parquet(tmp_path / "data.parquet", batch_size=3)
        source = tmp_path / "data.parquet"
    else:
        for number in range(2):
            made.shard(2, number, contiguous=True).to_parquet(tmp_path / f"train-{number}.parquet")
        source = tmp_path / "train-*.parquet"
    dataset = converted(source, tmp_path / "shards")
    assert read_all(dataset) == pictures
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert dataset.strings("caption", [6]) == ["picture 6"]
    assert dataset.types["score"] == "float"
    assert dataset.column("score").tolist() == [i / 2 for i in range(7)]


def test_a_folder_of_several_datasets_is_refused_with_their_names(
    pictures: list[bytes], tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    both = datasets.DatasetDict({"train": hugging_face(pictures), "test": hugging_face(pictures)})
    both.save_to_disk(tmp_path / "saved")
    with pytest.raises(SourceError, match=r"several datasets: train, test.*\n.*saved/train"):
        stoker.convert(tmp_path / "saved", tmp_path / "shards")


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def named(path: Path, pictures: list[bytes], feature: Any, labels: pa.Array | None = None) -> Path:
    """Write a table whose metadata states the feature of the column ``animal``."""
    info = {"info": {"features": {"image": {"_type": "Image"}, "animal": feature}}} if feature else {}
    table = pa.table({"image": pictures, "animal": labels or [i % 2 for i in range(7)]})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), path)
    return path


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("names", [["dog", "cat"], ["cat"], ["cat", "dog", "eel"], None])
def test_tables_whose_numbers_stand_for_other_classes_are_refused(
    pictures: list[bytes], tmp_path: Path, names: list[str] | None, label: bool
) -> None:
    features = [{"_type": "ClassLabel", "names": some} if some else None for some in (["cat", "dog"], names)]
    for both in (features, features[::-1]):
        for number, feature in enumerate(both):
            named(tmp_path / f"{number}.parquet", pictures, feature)
        fields = {"animal": "label" if label else "kind"}
        with pytest.raises(SourceError, match="classes of column 'animal' must be those of") as caught:
            converted(tmp_path / "*.parquet", tmp_path / "out", fields=fields)
        assert caught.value.path == str(tmp_path / "1.parquet")
        assert "cat, dog" in caught.value.message
    converted(tmp_path / "*.parquet", tmp_path / "out", fields={"animal": None})


@pytest.mark.parametrize("form", ["old", "new"])
def test_sequences_of_class_labels_keep_their_names(pictures: list[bytes], tmp_path: Path, form: str) -> None:
    inner = {"_type": "ClassLabel", "names": ["cat", "dog"]}
    feature = [inner] if form == "old" else {"_type": "List", "feature": inner}
    file = named(tmp_path / "a.parquet", pictures, feature, pa.array([[1], [0], [0, 1], [], [1], [1], [0]]))
    assert converted(file, tmp_path / "out", fields={"animal": "label"}).classes == ("cat", "dog")


def test_texts_of_several_dictionaries_are_numbered_by_name(pictures: list[bytes], tmp_path: Path) -> None:
    for number, texts in enumerate(["cdcdcdc", "dadadad"]):
        labels = pa.array(list(texts)).dictionary_encode()
        write(tmp_path / f"{number}.parquet", {"image": pictures, "label": labels})
    dataset = converted(tmp_path / "*.parquet", tmp_path / "out")
    assert "".join(dataset.classes[label] for label in dataset.labels.tolist()) == "cdcdcdcdadadad"


def test_missing_values_are_nan_or_empty_and_empty_columns_are_left_out(
    pictures: list[bytes], tmp_path: Path
) -> None:
    file = write(
        tmp_path / "data.parquet",
        {
            "photo": pictures,
            "label": ["b", "a", "b", "a", "b", "a", "b"],
            "nothing": pa.nulls(7),
            "no_text": pa.nulls(7, pa.string()),
            "age": [1, None, 3, 4, 5, 6, 7],
            "text": ["x", None, "z", "", "", "", ""],
            "flag": [True, False] * 3 + [True],
            "day": pa.array([0] * 7, pa.date32()),
        },
        row_group_size=3,
    )
    dataset = converted(file, tmp_path / "shards")
    assert dataset.classes == ("a", "b")
    assert {"nothing", "no_text", "day", "photo"}.isdisjoint(dataset.columns)
    np.testing.assert_array_equal(dataset.column("age"), [1, np.nan, 3, 4, 5, 6, 7])
    assert dataset.strings("text", [0, 1, 2]) == ["x", "", "z"]
    assert dataset.column("flag").tolist() == [1, 0] * 3 + [1]
    assert dataset.keys([0, 6]) == ["data/00000000", "data/00000006"]
    labels = [["b"], ["a", "b"], [], ["c"], ["a"], ["b"], ["c", "a"]]
    dataset = converted(write(file, {"image": pictures, "label": labels}), tmp_path / "several")
    assert dataset.classes == ("a", "b", "c")
    assert [sample.label for sample in dataset] == [[1], [0, 1], [], [2], [0], [1], [2, 0]]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_a_missing_value_does_not_change_large_integers(
    pictures: list[bytes], tmp_path: Path, kind: pa.DataType
) -> None:
    large = [(1 << 53) + number for number in range(7)]
    table = {"image": pictures, "id": pa.array(large, kind)}
    dataset = converted(write(tmp_path / "whole.parquet", table), tmp_path / "whole")
    assert dataset.column("id").tolist() == large
    table["id"] = pa.array([*large[:6], None], kind)
    with pytest.raises(
        SourceError, match=rf"(?s)column 'id' must keep its integers, found {large[5]}.*some\.parquet"
    ):
        converted(write(tmp_path / "some.parquet", table), tmp_path / "some")


def test_a_message_names_columns_of_other_types_that_are_left_out(
    pictures: list[bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    details = [{"source": [[1.0, 2.0, 9.0, 9.0]], "lens": [0]}] * 7
    file = write(tmp_path / "boxes.parquet", {"image": pictures, "details": details, "score": [0.5] * 7})
    assert "score" in converted(file, tmp_path / "shards").columns
    message, unlabelled = caplog.messages
    assert message.startswith(f"columns of {file} are left out: details (struct<source: list<")
    assert "have no labels; label_column names" in unlabelled


def test_rows_without_an_image_or_a_label_are_counted(pictures: list[bytes], tmp_path: Path) -> None:
    images = [{"bytes": data, "path": None} for data in pictures]
    images[1], images[2] = None, {"bytes": None, "path": "/etc/passwd"}
    images[3] = {"bytes": b"no image", "path": None}
    file = write(tmp_path / "a.parquet", {"image": images, "label": [0, 1, 2, 0, None, 1, 2]})
    dataset = converted(file, tmp_path / "shards")
    assert dataset.labels.tolist() == [0, 1, 2]
    assert dict(dataset.manifest.skipped) == {
        "row without the bytes of an image": 2,
        "not an image": 1,
        "row without a label": 1,
    }


def test_columns_are_chosen_by_name(pictures: list[bytes], tmp_path: Path) -> None:
    columns = {"left": pictures, "right": pictures[::-1], "kind": list("aabbaab"), "id": list(range(7))}
    file = write(tmp_path / "a.parquet", columns)
    with pytest.raises(ConfigError, match=r"several columns may be the image: left, right.*\n.*image_column"):
        stoker.convert(file, tmp_path / "shards")
    fields = {"right": "image", "kind": "label", "id": "key", "left": None}
    dataset = converted(file, tmp_path / "shards", fields=fields)
    assert read_all(dataset) == pictures[::-1]
    assert dataset.keys([0, 6]) == ["0", "6"]
    with pytest.raises(ConfigError, match="no column 'middle'"):
        converted(file, tmp_path / "other", fields={"middle": "image"})


def test_tables_at_a_url_are_converted(pictures: list[bytes], tmp_path: Path, memory: Any) -> None:
    for number in range(2):
        file = write(tmp_path / "a.parquet", {"image": pictures}, row_group_size=2)
        memory.pipe(f"/bucket/data/train-{number}.parquet", file.read_bytes())
    for source in ("memory://bucket/data/train-*.parquet", "memory://bucket/data"):
        assert read_all(converted(source, tmp_path / f"{len(source)}")) == pictures * 2
    with pytest.raises(SourceError, match=r"no such file|does not exist|no files"):
        stoker.convert("memory://bucket/data/gone.parquet", tmp_path / "gone")


def test_a_conversion_goes_on_after_it_was_stopped(pictures: list[bytes], tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {"image": pictures}, row_group_size=2)

    def stop(done: int, total: int, size: int, stage: str) -> None:
        if stage == "publishing":
            raise KeyboardInterrupt

    for seed in (None, 0):
        options: dict[str, Any] = {"seed": seed, "shards": 3}
        with pytest.raises(KeyboardInterrupt):
            stoker.convert(file, tmp_path / f"{seed}", progress=stop, **convert_options(options))
        summary = stoker.convert(file, tmp_path / f"{seed}", **convert_options(options))
        assert summary.images_per_second == 0  # all shards were there
        stoker.convert(file, tmp_path / f"whole{seed}", **convert_options(options))
        assert read_all(stoker.open(tmp_path / f"{seed}")) == read_all(stoker.open(tmp_path / f"whole{seed}"))
        assert stoker.convert(file, tmp_path / f"{seed}", **convert_options(options)).already


def test_an_arrow_file_whose_offsets_lead_out_of_it_is_an_error(
    pictures: list[bytes], tmp_path: Path
) -> None:
    offsets = np.cumsum([0, *map(len, pictures)]).astype("<i4")
    table = pa.table({"image": pictures, "label": [0] * 7})
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
    file = tmp_path / "saved" / "a.arrow"
    with pa.ipc.new_stream(str(file), table.schema) as writer:
        writer.write_table(table)
    wrong = offsets.copy()
    wrong[3] = 1 << 30
    file.write_bytes(file.read_bytes().replace(offsets.tobytes(), wrong.tobytes()))
    with pytest.raises(SourceError, match=r"a\.arrow"):
        stoker.convert(tmp_path / "saved", tmp_path / "out")


def test_a_table_with_fewer_rows_than_it_states_is_damaged(pictures: list[bytes], tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": pictures, "label": list(range(len(pictures)))}), tmp_path / "a.parquet")
    table = tables.TableFile.read(str(tmp_path / "a.parquet"))
    more = replace(table, rows=(len(pictures) + 1,))
    assert len(table.read_columns(["label"])) == len(pictures)
    with pytest.raises(SourceError, match=rf"have {len(pictures)} rows, and it states {len(pictures) + 1}"):
        more.read_columns(["label"])


def test_rows_with_the_label_minus_1_have_no_label(pictures: list[bytes], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    feature = datasets.Features({"image": datasets.Image(), "kind": datasets.ClassLabel(names=["a", "b"])})
    for name, kinds in {"some": [0, -1, 1, -1, 0, 0, 1], "none": [-1] * 7}.items():
        images = [{"bytes": data, "path": None} for data in pictures]
        made = datasets.Dataset.from_dict({"image": images, "kind": kinds}, features=feature)
        made.to_parquet(tmp_path / f"{name}.parquet")
    some = converted(tmp_path / "some.parquet", tmp_path / "a")
    assert some.labels.tolist() == [0, 1, 0, 0, 1]
    assert dict(some.manifest.skipped) == {"row without a label": 2}
    assert "label" not in converted(tmp_path / "none.parquet", tmp_path / "b").columns


@pytest.mark.parametrize("name", ["hub/data", "hub/data/train-*.parquet", "file://{}/hub/data"])
def test_tables_that_lack_a_file_of_their_count_are_refused(
    pictures: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "hub/data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for number in (0, 2):
        write(Path(f"hub/data/train-{number:05}-of-00003.parquet"), {"image": pictures})
    with pytest.raises(SourceError, match=r"missing: train-00001-of-00003\.parquet"):
        stoker.convert(name.format(tmp_path), tmp_path / "shards")
    assert stoker.convert("hub/data/train-{00000,00002}-of-00003.parquet", tmp_path / "shards").written == 14


@pytest.mark.parametrize("form", ["dictionary", "views", "runs", "categories"])
def test_encoded_columns_are_read_as_plain_ones(pictures: list[bytes], tmp_path: Path, form: str) -> None:
    texts = pa.array(["b", "a", "b"])
    encoded = {
        "dictionary": texts.dictionary_encode(),
        "views": texts.cast(pa.string_view()),
        "runs": pc.run_end_encode(texts),
        "categories": pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["b", "a"], pa.string_view())),
    }[form]
    images = pa.array(pictures[:3], pa.binary_view() if form == "views" else pa.binary())
    table = pa.table({"image": images, "label": encoded, "name": encoded})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as out, pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
    dataset = converted(tmp_path, tmp_path.with_name(f"{tmp_path.name}-out"))
    assert (dataset.classes, dataset.labels.tolist()) == (("a", "b"), [1, 0, 1])
    assert [dataset[i].columns["name"] for i in range(3)] == ["b", "a", "b"]
    assert [dataset.read(i) for i in range(3)] == pictures[:3]


def test_one_error_names_all_damaged_tables_and_they_can_be_left_out(
    pictures: list[bytes], tmp_path: Path
) -> None:
    (source := tmp_path / "source").mkdir()
    for i in range(4):
        write(source / f"part-{i}.parquet", {"image": pictures[:2], "label": [0, 1]})
    for i in (0, 2):
        file = source / f"part-{i}.parquet"
        file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(SourceError, match=r"(?s)part-0.*Also: .*part-2.*allow_loss=0\.34"):
        converted(source, tmp_path / "out")
    dataset = converted(source, tmp_path / "out", allow_loss=0.5)
    assert (len(dataset), dict(dataset.manifest.skipped)) == (4, {"record or file that cannot be used": 2})


@pytest.mark.parametrize("source", ["photos.parquet", "*.parquet"])
def test_a_folder_that_is_named_as_a_file_holds_the_tables(
    pictures: list[bytes], tmp_path: Path, source: str
) -> None:
    (tmp_path / "photos.parquet").mkdir()
    for i in range(2):
        rows = {"image": pictures[i : i + 1], "label": [i]}
        write(tmp_path / "photos.parquet" / f"part-{i}.snappy.parquet", rows)
    (tmp_path / "photos.parquet" / "_SUCCESS").touch()
    assert len(converted(tmp_path / source, tmp_path / "out")) == 2
    pq.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "photos.parquet" / "texts.parquet")
    for name in ("part-0", "part-1"):
        (tmp_path / "photos.parquet" / f"{name}.snappy.parquet").unlink()
    summary = stoker.convert_text(tmp_path / "photos.parquet", tmp_path / "text", tokenizer="bytes")
    assert summary.written == 2
    with pytest.raises(SourceError, match="the source is a dataset"):
        stoker.convert_text(tmp_path / "text", tmp_path / "again", tokenizer="bytes")


def test_tables_that_cannot_be_used_are_refused(pictures: list[bytes], tmp_path: Path) -> None:
    for name, columns in {
        "a": {"image": pictures},
        "b": {"image": pictures, "more": list(range(7))},
        "float": {"image": pictures, "label": [0.5] * 7},
        "range": {"image": pictures, "label": [["a"]] * 6 + [[None]]},
        "empty": {"image": pa.array([], pa.binary())},
        "none": {"text": ["a"]},
    }.items():
        options = {"row_group_size": 2, "use_dictionary": False, "write_page_checksum": True}
        write(tmp_path / f"{name}.parquet", columns, **options)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "gone.arrow"}]}')
    whole = (tmp_path / "a.parquet").read_bytes()
    half = len(whole) // 2
    (tmp_path / "cut.parquet").write_bytes(whole[:-100])
    (tmp_path / "damaged.parquet").write_bytes(whole[:half] + bytes(400) + whole[half + 400 :])
    for name, message in {
        "[ab].parquet": "columns differ from the columns of",
        "float.parquet": r"holds no classes: the labels are double(.|\n)*label_column",
        "range.parquet": "a list of labels has a missing one",
        "empty.parquet": "the table has no rows",
        "none.parquet": "no column holds images; the table has text",
        "cut.parquet": r"table cannot be read(.|\n)*cut\.parquet",
        "damaged.parquet": "table cannot be read",
        "saved": "the table cannot be read: No such file",
    }.items():
        with pytest.raises((ConfigError, SourceError), match=message):
            stoker.convert(tmp_path / name, tmp_path / "shards")
        assert not (tmp_path / "shards" / "dataset.json").exists()
    dataset = converted(tmp_path / "float.parquet", tmp_path / "shards", fields={"": "label"})
    assert dataset.column("label_").tolist() == [0.5] * 7


@pytest.mark.parametrize(
    "options", [{"seed": 3}, {"val": "30%"}, {"val": "30%", "seed": 0, "num_threads": 3}]
)
def test_splits_and_shuffles_are_those_of_a_folder(
    encode_picture: Picture, tmp_path: Path, options: dict[str, Any]
) -> None:
    """The samples of a table have the order and the splits of files with the same names."""
    pictures = [encode_picture(i, "JPEG") for i in range(20)]
    (tmp_path / "photos" / "data").mkdir(parents=True)
    for i, data in enumerate(pictures):
        (tmp_path / "photos" / "data" / f"{i:08d}").write_bytes(data)
    table = write(tmp_path / "data.parquet", {"image": pictures}, row_group_size=3)
    options = convert_options({"shards": 2, **options})
    unlabelled = stoker.SourceOptions(unlabelled=True)
    stoker.convert(tmp_path / "photos", tmp_path / "a", source_options=unlabelled, **options)
    stoker.convert(table, tmp_path / "b", **options)
    for split in ("train", "val") if "val" in options else ("",):
        of_folder, of_table = stoker.open(tmp_path / "a" / split), stoker.open(tmp_path / "b" / split)
        assert of_table.keys(range(len(of_table))) == of_folder.keys(range(len(of_folder)))
        assert read_all(of_table) == read_all(of_folder)


def written(images: list[bytes | None], file: Path, rows_of_block: int) -> ListedBlocks:
    """Write a table of images, and return the blocks and rows of its images."""
    write(file, {"image": images}, row_group_size=rows_of_block)
    blocks = list_table(Source(file)).blocks
    assert blocks is not None
    return blocks


@pytest.mark.parametrize("folder", [None, "missing"], ids=["from the file", "from a temporary file"])
def test_images_are_read_in_any_order(pictures: list[bytes], tmp_path: Path, folder: str | None) -> None:
    blocks = written([*pictures[:4], None, *pictures[4:]], tmp_path / "a.parquet", 4)
    images = BlockImages(blocks, folder and str(tmp_path / folder), num_threads=1)
    rows = [7, 0, 4, 6, 3, 3]
    found = [images.read(0, int(blocks.block[row]), int(blocks.row[row])) for row in rows]
    assert found == [pictures[6], pictures[0], None, pictures[5], pictures[3], pictures[3]]


def test_blocks_that_threads_read_in_turn_are_opened_once(pictures: list[bytes], tmp_path: Path) -> None:
    images = BlockImages(written(pictures[:2] * 16, tmp_path / "a.parquet", 2), None, num_threads=8)
    assert [images.read(0, block, 0) for block in range(16)] == [pictures[0]] * 16
    (tmp_path / "a.parquet").unlink()
    assert [images.read(0, block, 1) for block in range(16)] == [pictures[1]] * 16


def test_a_block_may_be_closed_while_it_is_read(
    pictures: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = written(pictures[:2] * 4, tmp_path / "a.parquet", 1)
    reading, closing, go_on = threading.Event(), threading.Event(), threading.Event()

    @contextmanager
    def wait_and_open(*arguments: Any) -> Iterator[Any]:
        if not reading.is_set():
            reading.set()
            go_on.wait(60)
        with opened_table(*arguments) as file:
            yield file

    def note_and_close(block: Any) -> None:
        closing.set()
        close(block)

    # From outside, a test cannot see when a block is closed, and cannot make a read last until then.
    close = tables._OpenBlock.close
    monkeypatch.setattr(tables._OpenBlock, "close", note_and_close)
    monkeypatch.setattr(tables, "opened_table", wait_and_open)
    images = BlockImages(blocks, None, num_threads=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(images.read, 0, 0, 0)
        assert reading.wait(60)
        others = pool.submit(lambda: [images.read(0, block, 0) for block in range(1, 8)])
        assert closing.wait(60), "they close the block of the first"
        go_on.set()
        assert [first.result(60), *others.result(60)] == pictures[:2] * 4


@pytest.mark.parametrize(
    ("labels", "options", "expected"),
    [
        (["cat|sea", "sea", "dog"], {"label_separator": "|"}, [[0, 2], [2], [1]]),
        ([[0, 1, 1], [1, 0, 0], [0, 0, 0]], {"label_type": "multi-hot"}, [[1, 2], [0], []]),
        ([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], {"label_type": "one-hot"}, [1, 0, 1]),
        ([[2, 1], [1, 0], [0]], {"label_type": "first"}, [2, 1, 0]),
        (["0 0 1", "1 0 0", "0 1 0"], {"label_separator": " ", "label_type": "one-hot"}, [2, 0, 1]),
        (["10 2", "2", "10"], {"label_separator": " "}, [[10, 2], [2], [10]]),
        (['["cat", "sea"]', '["sea"]', "[]"], {}, [[0, 1], [1], []]),
        (pa.array([[0, 1], [1, 0], [0, 1]], pa.list_(pa.int8(), 2)), {"label_type": "one-hot"}, [1, 0, 1]),
        ([1.0, 0.0, 2.0], {}, [1, 0, 2]),
        ([0.5, 0.25, 1.0], {"unlabelled": True}, None),
        ([["a"], ["b"], ["a"]], {"label_type": "multi-hot"}, "Name another column"),
        ([0, 1, 0], {"label_type": "shard"}, "Name another column"),
        (["['a' 'b']", "['a']", "['b']"], {}, "Write lists as JSON"),
        (["nan", "a", "b"], {}, "null"),
        (["", "a", "b"], {}, "null"),
        (["0 1", "1 0", "0 1"], {}, "label_separator=' '"),
        (["cat|sea", "sea", "dog"], {}, "label_separator='|'"),
        ([[0, 1], [1, 0], [0, 1]], {}, "label_type='multi-hot'"),
        ([0.5, 0.25, 1.0], {}, "unlabelled=True"),
        ([0, -1, 1], {}, "without a class"),
    ],
)
def test_labels_of_tables_are_read_in_their_form_or_refused(
    pictures: list[bytes], tmp_path: Path, labels: list[Any], options: dict[str, Any], expected: Any
) -> None:
    file = write(tmp_path / "a.parquet", {"image": pictures[:3], "label": labels})
    if isinstance(expected, str):
        with pytest.raises(SourceError) as caught:
            converted(file, tmp_path / "out", **options)
        assert expected in str(caught.value.hint)
        return
    dataset = converted(file, tmp_path / "out", **options)
    assert [sample.label for sample in dataset] == (expected or [None] * 3)
    assert expected or dataset.column("label_").tolist() == labels


def test_an_image_column_of_lists_or_paths_is_refused(pictures: list[bytes], tmp_path: Path) -> None:
    columns = {"images": [pictures[:2], pictures[2:]], "file": ["a.jpg", "b.jpg"]}
    file = write(tmp_path / "a.parquet", columns)
    for name in columns:
        with pytest.raises(ConfigError, match=f"must hold bytes, or structs with bytes, found '{name}'"):
            converted(file, tmp_path / "out", image_column=name)
