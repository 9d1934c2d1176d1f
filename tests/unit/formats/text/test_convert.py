"""Converting text: the contents of the dataset, and equal bytes for equal commands."""

import csv
import dataclasses
import gzip
import hashlib
import io
import json
import os
import resource
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from helpers.datasets import WORDS, count_words, read_files
from helpers.options import convert_text

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.containers.container import find_container
from stoker.formats.containers.protobuf import parse_example

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven"]
LINES = [" ".join(NUMBERS[: 1 + i % 7]) for i in range(50)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    return path


def ids_of(folder: Path) -> dict[str, list[int]]:
    """Token ids by key, from the payloads."""
    dataset = stoker.open(folder)
    dtype = str(dataset.manifest.options["dtype"])
    keys = dataset.keys(np.arange(len(dataset)))
    return {key: np.frombuffer(dataset.read(row), dtype).tolist() for row, key in enumerate(keys)}


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_records_are_examples_whose_payload_repeats_the_ids(tmp_path: Path, container: Any) -> None:
    source = tmp_path / "qa.jsonl"
    rows = [{"q": line, "a": line[::-1]} for line in LINES]
    source.write_text("\n".join(map(json.dumps, rows)))
    summary = convert_text(
        source, tmp_path / "d", tokenizer="bytes", fields=("q", "a"), container=container, shards=3
    )
    assert (summary.written, summary.shards, summary.skipped) == (50, 3, {})
    dataset = stoker.open(tmp_path / "d")
    assert dataset.manifest.sample_type == "text"
    assert dataset.column("q_length").tolist() == [len(line) for line in LINES]
    row = 0
    for file in dataset.data_files:
        for record in find_container(container).scan(file):
            example = parse_example(record.view)
            texts = rows[row]["q"], rows[row]["a"]
            assert (example["q"], example["a"]) == tuple(list(text.encode()) for text in texts)
            (span,) = example["stoker/ids"]
            payload = bytes(record.view[span.offset : span.offset + span.length])
            assert np.frombuffer(payload, "<u2").tolist() == list("".join(texts).encode())
            assert record.offset + span.offset == dataset.column("offset")[row]
            row += 1
    assert stoker.verify(tmp_path / "d", decode=True).ok


def test_any_number_of_threads_gives_the_same_bytes(tmp_path: Path, source: Path) -> None:
    for threads in (1, 4):
        convert_text(source, tmp_path / str(threads), seed=3, val="20%", num_threads=threads, shard_records=7)
    assert read_files(tmp_path / "1") == read_files(tmp_path / "4")


def test_files_that_lack_one_of_their_count_are_refused(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"c4.{number:05}-of-00003.txt.gz" for number in (0, 2)]
    for name in names:
        Path(name).write_bytes(source.read_bytes())
    for files in ("c4.*", names):
        with pytest.raises(SourceError, match=r"missing: c4\.00001-of-00003\.txt\.gz"):
            convert_text(files, tmp_path / "d")


def test_splits_share_one_vocabulary_and_no_samples(tmp_path: Path, source: Path) -> None:
    tokenizer = count_words(tmp_path / "words.json", LINES)
    convert_text(source, tmp_path / "d", val="20%", test="10%", tokenizer=tokenizer)
    train, val, test = (ids_of(tmp_path / "d" / split) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (35, 10, 5)
    samples = {**train, **val, **test}
    assert len(samples) == len(LINES)
    vocabulary = json.loads((tmp_path / "d" / "val" / "tokenizer.json").read_text())["model"]["vocab"]
    words = {number: word for word, number in vocabulary.items()}
    for key, ids in samples.items():
        assert " ".join(words[number] for number in ids) == LINES[int(key.split(":")[1]) - 1]


def test_a_seed_changes_the_order_of_samples_and_nothing_else(tmp_path: Path, source: Path) -> None:
    convert_text(source, tmp_path / "a")
    convert_text(source, tmp_path / "b", seed=1)
    plain, shuffled = ids_of(tmp_path / "a"), ids_of(tmp_path / "b")
    assert plain == shuffled
    assert list(plain) != list(shuffled)


def test_ids_of_more_than_65536_words_are_int32(tmp_path: Path) -> None:
    source = tmp_path / "many.txt"
    source.write_text("\n".join(" ".join(f"w{i}_{j}" for j in range(100)) for i in range(700)))
    tokenizer = count_words(tmp_path / "words.json", [source.read_text()])
    convert_text(source, tmp_path / "d", tokenizer=tokenizer)
    assert stoker.open(tmp_path / "d").manifest.options["dtype"] == "int32"
    assert max(max(ids) for ids in ids_of(tmp_path / "d").values()) == 70_003


def test_the_dataset_holds_the_tokenizers_file(tmp_path: Path, source: Path) -> None:
    convert_text(source, tmp_path / "words")
    (tmp_path / "my.json").write_bytes((tmp_path / "words" / "tokenizer.json").read_bytes())
    convert_text(source, tmp_path / "d", tokenizer=tmp_path / "my.json")
    assert ids_of(tmp_path / "d") == ids_of(tmp_path / "words")
    assert (tmp_path / "d" / "tokenizer.json").read_bytes() == (tmp_path / "my.json").read_bytes()
    options = stoker.open(tmp_path / "d").manifest.options
    assert options["tokenizer"] == "my.json"
    assert options["tokenizer_digest"] == hashlib.sha256((tmp_path / "my.json").read_bytes()).hexdigest()


def test_parts_of_a_corpus_become_one_dataset(tmp_path: Path) -> None:
    parts = [tmp_path / f"part_{number}.txt" for number in range(3)]
    for number, part in enumerate(parts):
        part.write_text("\n".join(LINES[16 * number : 16 * number + 16]))
    whole = tmp_path / "whole.txt"
    whole.write_text("\n".join(LINES[:48]))
    convert_text(whole, tmp_path / "a", tokenizer="bytes", shards=2)
    assert convert_text(parts, tmp_path / "b", tokenizer="bytes", shards=2).written == 48
    assert list(ids_of(tmp_path / "b").values()) == list(ids_of(tmp_path / "a").values())


def test_lines_without_tokens_are_skipped_counted_and_named(tmp_path: Path) -> None:
    good, source = tmp_path / "good.txt", tmp_path / "a.txt"
    good.write_text("one")
    source.write_bytes(b"one\n\n  \nb\xff\ntwo")
    summary = convert_text(source, tmp_path / "d")
    assert summary.skipped == {"no tokens": 2, "not UTF-8": 1}
    skipped = [json.loads(line) for line in (tmp_path / "d" / "skipped.jsonl").read_text().splitlines()]
    assert [line["key"] for line in skipped] == ["a.txt:2", "a.txt:3", "a.txt:4"]
    with pytest.raises(SourceError, match=r"no tokens[\s\S]*a\.txt:2") as caught:
        convert_text([good, source], tmp_path / "strict", strict=True)
    assert caught.value.path == str(source)


def test_progress_ends_with_all_samples(tmp_path: Path, source: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    convert_text(
        source, tmp_path / "d", progress=lambda done, total, _, stage: seen.append((done, total, stage))
    )
    assert seen[0] == (0, 0, "listing")
    assert seen[-1] == (50, 50, "publishing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "wordpiece"}, "bytes or the path of a tokenizers JSON"),
        ({"container": "zip"}, "container"),
        ({"num_threads": 0}, "num_threads"),
        ({"fields": "answer"}, "fields must be a list of names, found 'answer'"),
        ({"progress": True}, "progress must be a function, found True"),
        ({"val": 2}, "val"),
        ({"fields": ("stoker/ids",)}, "cannot have the name"),
        ({"shards": 2, "shard_records": 5}, "one of shard_size"),
    ],
)
def test_invalid_options_are_refused(
    tmp_path: Path, source: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        convert_text(source, tmp_path / "d", **options)
    assert not (tmp_path / "d" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"text":\n"one"}\n', "json file must hold an object in each line"),
        ("a.jsonl", '{"text": null}\n' * 3, r"no text could be converted; left out: 3 x no text.*a\.jsonl'"),
        ("a.txt", "\n \n", "no text could be converted"),
        ("nothing-*.txt", None, "no file matches"),
    ],
)
def test_a_source_without_texts_is_refused(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=message):
        convert_text(tmp_path / name, tmp_path / "d")


@pytest.mark.parametrize("tokenizer", [WORDS, "bytes"])
def test_the_same_command_on_a_finished_target_says_so(tmp_path: Path, source: Path, tokenizer: str) -> None:
    options: dict[str, Any] = {"tokenizer": tokenizer, "shards": 3, "seed": 2, "val": "20%"}
    with gzip.open(source, "at") as file:
        file.write("\n \nlast\n")  # a line without words is skipped
    first = convert_text(source, tmp_path / "d", **options)
    files = read_files(tmp_path / "d")
    again = convert_text(source, tmp_path / "d", **options)
    assert again == dataclasses.replace(first, already=True, seconds=0, images_per_second=0)
    assert read_files(tmp_path / "d") == files


@pytest.mark.parametrize("keeps_time", [False, True])
def test_a_changed_text_is_not_already_converted_even_if_its_time_is_the_same(
    tmp_path: Path, keeps_time: bool
) -> None:
    source = tmp_path / "a.txt"
    source.write_text("one\ntwo\n")
    convert_text(source, tmp_path / "d", tokenizer="bytes")
    times = source.stat()
    source.write_text("one\nTWO\n")
    if keeps_time:
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(DatasetError, match="already"):
        convert_text(source, tmp_path / "d", tokenizer="bytes")


def test_a_dataset_is_replaced_only_with_overwrite(tmp_path: Path, source: Path) -> None:
    convert_text(source, tmp_path / "d", shards=4)
    with pytest.raises(DatasetError, match="already"):
        convert_text(source, tmp_path / "d", tokenizer="bytes")
    convert_text(source, tmp_path / "d", tokenizer="bytes", overwrite=True)
    names = sorted(path.name for path in (tmp_path / "d").iterdir())
    assert names[:3] == ["dataset.json", "index.arrow", "sha256.json"]
    shard = "shard-00000-of-00001"
    assert names[3:] == [f"{shard}.idx", f"{shard}.tfrecord", "skipped.jsonl"]


def write_corpus(form: str, folder: Path) -> Path:
    lines = [f'one {NUMBERS[i]}, "two"' for i in range(5)]
    file = folder / form.replace(" ", ".")
    encode = ENCODED.get(form.partition(".")[0], pa.array)
    table = pa.table({"text": encode(lines), "n": list(range(5))})
    data = "".join(json.dumps({"text": line, "n": n}) + "\n" for n, line in enumerate(lines)).encode()
    if "parquet" in form:
        pq.write_table(table, file, row_group_size=2)
    elif "arrow" in form:
        make = pa.ipc.new_stream if "stream" in form else pa.ipc.new_file
        with pa.OSFile(str(file), "wb") as out, make(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    elif "array" in form:
        data = json.dumps(table.to_pylist(), indent=1).encode()
    elif "sv" in form:
        with io.StringIO(newline="") as text:
            cells = csv.writer(
                text, delimiter="\t" if "tab" in form else ";" if "semicolons" in form else ","
            )
            cells.writerows([table.column_names, *(row.values() for row in table.to_pylist())])
            data = text.getvalue().encode("utf-8-sig")
    if "skippable" in form:
        data = b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + pa.compress(data, "zstd", asbytes=True)
    elif form.endswith("zst"):
        data = pa.compress(data, "zstd", asbytes=True)
    elif form.endswith("gz"):
        data = gzip.compress(data)
    if not file.exists():
        file.write_bytes(data)
    return file


ENCODED: dict[str, Any] = {
    "dictionary": lambda lines: pa.array(lines).dictionary_encode(),
    "runs": lambda lines: pc.run_end_encode(pa.array(lines)),
    "views": lambda lines: pa.array(lines, pa.string_view()),
    "categories": lambda lines: pa.DictionaryArray.from_arrays(
        pa.array(range(5), pa.uint32()), pa.array(lines, pa.string_view())
    ),
}


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    "form",
    [
        *("a.parquet", "PARQUET", "dictionary.parquet", "views.arrow", "runs.arrow", "categories.arrow"),
        *(
            "a.arrow",
            "stream.arrow",
            "a.csv",
            "tabs.tsv.gz",
            "a.json.gz",
            "a.JSON",
            "array.json",
            "a.jsonl.zst",
        ),
        *(
            "skippable.jsonl.zst",
            "part-0.zst",
            "array.json.zst",
            "array.json.gz",
            "semicolons.csv",
            "tabs.csv",
        ),
    ],
)
def test_all_forms_of_a_corpus_give_the_samples_of_json_lines(
    tmp_path: Path, form: str, seed: int | None
) -> None:
    for name in (form, "jsonl"):
        source = write_corpus(name.replace("PARQUET", "parquet"), tmp_path)
        convert_text(source, tmp_path / "shards" / name, fields=["text"], columns=["n"], seed=seed)
    converted, expected = (stoker.open(tmp_path / "shards" / name) for name in (form, "jsonl"))
    assert [converted.read(i) for i in range(5)] == [expected.read(i) for i in range(5)]
    assert converted.column("n").tolist() == expected.column("n").tolist()


@pytest.mark.parametrize("form", ["a.jsonl", "a.csv", "rows"])
def test_labels_below_zero_are_refused_and_names_that_look_alike_are_logged(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    for labels in ([None, 0, -1], ["\xe9", "b", "e\u0301"]):
        rows = [{"text": "a", "c": label} for label in labels]
        lines = ["text,c", *(f"a,{'' if label is None else label}" for label in labels)]
        (tmp_path / "a.csv").write_text("\n".join(lines))
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        source: Any = rows if form == "rows" else tmp_path / form
        options: dict[str, Any] = {"tokenizer": "bytes", "label": "c"}
        if -1 in labels:
            with pytest.raises(SourceError, match="must be 0 or more, found -1") as caught:
                convert_text(source, tmp_path / "d", **options)
            assert caught.value.key == {"a.jsonl": "a.jsonl:3", "a.csv": "a.csv:3", "rows": "00000002"}[form]
            assert "columns='c'" in str(caught.value.hint)
        else:
            convert_text(source, tmp_path / "d", **options)
            assert "look alike, 'e\\u0301' and '\\xe9'; write one of them" in caplog.text


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
def test_text_in_latin_1_is_refused_as_such(tmp_path: Path, name: str) -> None:
    lines = ["text", "n\xf6"] if name != "a.jsonl" else ['{"text": "n\xf6"}']
    (tmp_path / name).write_bytes("\n".join(lines[name == "a.txt" :]).encode("latin-1"))
    with pytest.raises(SourceError, match=r"1 x not UTF-8.*iconv -f LATIN1 -t UTF-8 FILE converts Latin-1"):
        convert_text(tmp_path / name, tmp_path / "d", tokenizer="bytes")


def test_values_in_objects_are_fields_labels_and_columns(tmp_path: Path) -> None:
    pairs = {"translation": {"en": "one two", "de": "three"}, "meta": {"kind": "a"}, "score": 0.5}
    rows = [pairs, {**pairs, "translation": {"en": "one"}}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist([pairs, rows[1]]), tmp_path / "a.parquet")
    options: dict[str, Any] = {"label": "meta.kind", "columns": ["score"], "tokenizer": "bytes"}
    for number, source in enumerate([tmp_path / "a.jsonl", tmp_path / "a.parquet", rows]):
        folder = tmp_path / str(number)
        summary = convert_text(source, folder, fields=["translation.en", "translation.de"], **options)
        assert summary.skipped == {"no text in field 'translation.de'": 1}
        dataset = stoker.open(folder)
        assert (dataset.classes, dataset.column("score").tolist()) == (("a",), [0.5])
        batch = next(iter(stoker.TextLoader(folder, batch_size=1, fields=["translation.de"], buckets=None)))
        assert bytes(batch.input_ids[0].tolist()) == b"three"
    for field in ("en", "translation"):
        with pytest.raises(SourceError, match=r"from: translation\.en, translation\.de"):
            convert_text(tmp_path / "a.jsonl", tmp_path / "d", fields=[field])


def test_a_folder_of_save_to_disk_is_read_and_other_folders_are_refused(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    write_corpus("stream.arrow", saved)
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": "stream.arrow"}]}))
    convert_text(saved, tmp_path / "d")
    assert stoker.open(tmp_path / "d").keys([4]) == ["stream.arrow:5"]
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(SourceError, match=r"stoker convert-text .*/train TARGET/train; stoker"):
        convert_text(f"{tmp_path}/", tmp_path / "e")
    (saved / "state.json").rename(saved / "part-0.json.gz")
    (saved / "stream.arrow").rename(saved / "part-1.json.gz")
    with pytest.raises(SourceError, match=r"this is a folder[\s\S]*saved/\*\.json\.gz'"):
        convert_text(saved, tmp_path / "e")


@pytest.mark.parametrize("seed", [None, 1])
def test_more_files_than_descriptors_are_one_corpus_that_is_unpacked_as_it_is_read(
    tmp_path: Path, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"text": f"one two {i}"} for i in range(60)]
    for i, line in enumerate(lines):
        (tmp_path / f"gz-{i:02d}.jsonl.gz").write_bytes(gzip.compress(json.dumps(line).encode()))
        (tmp_path / f"plain-{i:02d}.jsonl").write_text(json.dumps(line))
    copies: list[int] = []
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **given: copies.append(0) or make(**given))
    used = len(list(Path("/proc/self/fd").iterdir()))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, limits[1]))
    try:
        for form in ("gz", "plain"):
            copies.clear()
            listed: list[int] = []
            see = partial(lambda seen, *_: seen.append(len(copies)), listed)
            convert_text(
                str(tmp_path / f"{form}-*"),
                tmp_path / form,
                tokenizer="bytes",
                seed=seed,
                progress=see,
            )
            assert stoker.open(tmp_path / form).manifest.index.rows == 60
            assert listed[0] == 0
            assert len(copies) == (0 if form == "plain" else 1 if seed else 60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_more_lost_samples_than_allowed_are_an_error(tmp_path: Path) -> None:
    rows = [{"text": "one"}] * 30 + [{"text": None}] * 10
    blank = "\n\n" * 40 + '{"text": ""}\n'  # nothing is lost
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + blank)
    assert convert_text(source, tmp_path / "few").skipped["no text in field 'text'"] == 10
    rows.append({"text": ["one"]})
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + blank)
    message = "11 of 122 samples would be left out, more than 1%: 11 x no text"
    with pytest.raises(SourceError, match=message) as caught:
        convert_text(source, tmp_path / "d")
    assert "allow_loss=0.1" in str(caught.value)
    with pytest.raises(SourceError, match=r"more than 8%"):
        convert_text(source, tmp_path / "d", allow_loss="8%")
    assert convert_text(source, tmp_path / "d", allow_loss=0.1).written == 30
    with pytest.raises(SourceError, match="no text in field") as caught:
        convert_text(source, tmp_path / "e", strict=True)
    assert caught.value.key == "a.jsonl:31"


def test_one_error_names_all_files_that_cannot_be_read_and_they_can_be_left_out(tmp_path: Path) -> None:
    good = b'{"text": "one"}\n'
    contents = [good, gzip.compress(good)[:-4], b"PK\x03\x04", good, b"\x28\xb5\x2f\xfd" + good]
    for number, content in enumerate(contents):
        (tmp_path / f"part-{number}.json").write_bytes(content)
    source = str(tmp_path / "part-*")
    for share in (None, 0.5):
        with pytest.raises(SourceError, match=r"(?s)part-1.*Also: .*part-2.*Also: .*part-4.*allow_loss=0\.6"):
            convert_text(source, tmp_path / "d", allow_loss=share)
    summary = convert_text(source, tmp_path / "d", allow_loss=0.6)
    assert (summary.written, summary.skipped) == (2, {"record or file that cannot be used": 3})
    (tmp_path / "blank.jsonl").write_text('{"text": "one"}\n\n')
    convert_text(tmp_path / "blank.jsonl", tmp_path / "strict", strict=True)


def test_a_missing_text_of_an_iterable_is_skipped_and_its_errors_are_its_own(tmp_path: Path) -> None:
    for number, items in enumerate(([None, "one", None, "two"], [{"text": "one"}, {"text": None}, {}])):
        summary = convert_text(iter(items), tmp_path / str(number), allow_loss=0.7)
        assert summary.written == len(items) - sum(summary.skipped.values()) == 2 - number

    def broken() -> Iterator[dict[str, str]]:
        yield {"text": "one"}
        raise ConnectionResetError("network down")

    with pytest.raises(ConnectionResetError, match="network down"):
        convert_text(broken(), tmp_path / "d")
    for items in ([{"body": "one"}], [5], ["one", 5]):
        with pytest.raises(ConfigError, match=r"no text in the field 'text'|a text or a dict, found int"):
            convert_text(iter(items), tmp_path / "d")


def test_a_pattern_stands_for_its_files(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"part-{name}.txt").write_text(f"one {name}\n")
    convert_text(tmp_path / "part-*.txt", tmp_path / "shards")
    assert stoker.open(tmp_path / "shards").keys([0, 1]) == ["part-a.txt:1", "part-b.txt:1"]


def test_a_pattern_does_not_make_one_corpus_of_several_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train-0", "train-1", "dev-0"):
        Path(f"{name}.txt").write_text(f"one {name}\n")
    with pytest.raises(SourceError, match="of the splits train and val, which would become one") as caught:
        convert_text("*.txt", "shards")
    assert (
        "stoker convert-text 'train-*.txt' TARGET/train; stoker convert-text dev-0.txt TARGET/val; "
        in str(caught.value)
    )
    convert_text(["train-*.txt", "dev-0.txt"], "shards")
    assert len(stoker.open("shards")) == 3


@pytest.mark.parametrize("form", ["a.parquet", "a.arrow", "stream.arrow", "a.jsonl.zst", "a.csv.gz"])
def test_a_compressed_file_cut_short_is_refused(tmp_path: Path, form: str) -> None:
    file = write_corpus(form, tmp_path)
    file.write_bytes(file.read_bytes()[:-80])
    with pytest.raises(SourceError, match=r"cannot be (unpacked|read)"):
        convert_text(file, tmp_path / "shards")


def test_a_table_without_texts_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"(?s)the table has no field 'text'.*none of its values is a text"):
        convert_text(tmp_path / "a.parquet", tmp_path / "shards")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"train": [{"text": "a"}]}, "a dict of 'train', no dataset"),
        (SimpleNamespace(columns=["text"]), "gives columns, not samples"),
        (pa.table({"text": ["a"]}), r"(?s)a Table, .*to_pylist\(\)"),
        ({"a", "b"}, "order differs"),
        (io.StringIO("a"), "(?s)an open file.*path"),
        (b"a", "neither a length"),
        (5, "neither a length"),
        (None, "neither a length"),
        (["a text", "another"], r"(?s)No such file.*iter\(texts\)"),
        (["a" * 300], r"No such file"),
        (["really?"], r"(?s)no file matches.*iter\(texts\)"),
    ],
)
def test_what_python_iterates_is_not_taken_for_samples(tmp_path: Path, source: Any, message: str) -> None:
    convert_text(iter(["one"]), tmp_path / "d", tokenizer="bytes")
    with pytest.raises((ConfigError, SourceError), match=message):
        stoker.convert_text(source, tmp_path / "other", tokenizer="bytes")
    with pytest.raises((ConfigError, SourceError), match=message):
        stoker.append(tmp_path / "d", source)
    assert len(stoker.open(tmp_path / "d")) == 1
