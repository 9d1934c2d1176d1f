"""A text conversion that is killed resumes and ends with the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.datasets import WORDS, read_files
from helpers.processes import full_disk

import stoker
from stoker.errors import DatasetError, SourceError, WriteError
from stoker.formats.conversion import shard

# The process kills itself when it writes the fifth file of the state; by then some shards are finished.
SCRIPT = """
import os, signal, sys, stoker
from stoker.formats.conversion import shard
real, begun = shard.write_durably, []
def write_durably(path, content):
    begun.append(path)
    if len(begun) > 4:
        os.kill(os.getpid(), signal.SIGKILL)
    real(path, content)
shard.write_durably = write_durably
stoker.convert_text(sys.argv[1], sys.argv[2], seed=5, storage=stoker.Storage(shards=6), num_threads=1,
                    tokenizer=sys.argv[3])
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(f"w{(i * j) % 97}" for j in range(1 + i % 30)) for i in range(3000)))
    return path


def test_a_killed_conversion_resumes_to_the_same_bytes(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "d"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, str(source), str(target), str(WORDS)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert 0 < len(list((target / ".stoker-convert").glob("[0-9]*.json"))) < 6
    assert not (target / "dataset.json").exists()
    stoker.convert_text(source, target, seed=5, tokenizer=WORDS, storage=stoker.Storage(shards=6))
    stoker.convert_text(source, tmp_path / "whole", seed=5, tokenizer=WORDS, storage=stoker.Storage(shards=6))
    assert read_files(target) == read_files(tmp_path / "whole")


def test_a_source_that_changed_is_not_mixed_with_finished_shards(tmp_path: Path, source: Path) -> None:
    with full_disk(), pytest.raises(WriteError, match="disk is full"):
        stoker.convert_text(source, tmp_path / "d", tokenizer=WORDS, storage=stoker.Storage(shards=3))
    source.write_text(source.read_text().replace("w1 ", "w2 "))
    with pytest.raises(DatasetError, match="unfinished conversion"):
        stoker.convert_text(source, tmp_path / "d", tokenizer=WORDS, storage=stoker.Storage(shards=3))


def test_a_full_disk_leaves_no_dataset_and_the_next_run_completes_it(tmp_path: Path, source: Path) -> None:
    with full_disk(1), pytest.raises(WriteError, match="disk is full") as error:
        stoker.convert_text(source, tmp_path / "d", tokenizer=WORDS, storage=stoker.Storage(shards=3))
    assert "resumes" in str(error.value)
    assert not (tmp_path / "d" / "dataset.json").exists()
    stoker.convert_text(source, tmp_path / "d", tokenizer=WORDS, storage=stoker.Storage(shards=3))
    assert stoker.verify(tmp_path / "d").ok


def test_a_source_that_changes_while_it_is_read_stops_the_conversion(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shard.write_shard

    def touched(*args: object, **options: object) -> object:
        os.utime(source, ns=(0, 0))
        return real(*args, **options)  # type: ignore[arg-type]

    # No code of the caller runs between the listing and the reading.
    monkeypatch.setattr("stoker.formats.conversion.unfinished.write_shard", touched)
    with pytest.raises(SourceError, match="changed while it was converted"):
        stoker.convert_text(source, tmp_path / "d", tokenizer=WORDS)
    assert not (tmp_path / "d" / "dataset.json").exists()
