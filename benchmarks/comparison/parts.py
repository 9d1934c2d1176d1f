"""The parts of the comparison: what each of them measures of one loader.

A part writes its results as JSON: the machine, the conditions, and ``loaders`` with the results of each, or
the reason why there are none. :mod:`stoker.benchmarks.comparison.page` shows them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import stoker

from ..measuring import allowed_cores, describe, report, write_json
from ..peers import TEXT_PEERS, TITLES, installed_rivals
from ..peers.base import PeerSettings, PeerSource
from ..text.gsm8k import gsm8k_lengths
from .bench import run_bench
from .disk import evict, throttled_disk
from .object_store import object_store, upload
from .results import Comparison, show, to_json
from .runner import ComparisonPlan, PeerGone, PeerProcess, run_in_turns
from .sources import WORKLOADS, make_dataset, open_source, write_numbered_images
from .usage import process_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

Found = dict[str, Any]
Measure = Callable[[str], Found]

_FEW = 256  # images of a quick run, four batches
_BATCH = 64
_LATENCY_MS, _MEGABYTES, _REQUESTS = 20.0, 150, 120  # of the object store and of the disk, each second
_TURN_SECONDS = 2.0


@dataclass(frozen=True)
class Run:
    """The options of a run."""

    source: Path  # Photographs, with one directory for each class
    work: Path  # Folder for the datasets, which a later run uses again
    rounds: int  # Timed turns of each image loader; the other parts have their own numbers
    quick: bool  # Whether each part runs on so little data that it only shows that it works

    def dataset(self, name: str, copies: int | None = None) -> Path:
        """Make the dataset of a workload, if it is missing, and return its folder."""
        workload = WORKLOADS[WORKLOADS[name].dataset or name]
        count = _FEW if self.quick else copies or workload.copies
        return make_dataset(replace(workload, copies=count), self.source, self.work)

    @contextmanager
    def opened(self, name: str, copies: int | None = None) -> Iterator[PeerSource]:
        """The dataset of a workload as peers read it, with a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
            yield open_source(self.dataset(name, copies), Path(scratch))


@dataclass(frozen=True)
class Part:
    """A part of the comparison."""

    title: str  # What it measures
    minutes: float  # About how long it takes on two cores
    run: Callable[[Run, Path], None]  # Measures, and writes the JSON file


def _settings(**options: Any) -> PeerSettings:
    return PeerSettings(_BATCH, num_threads=len(allowed_cores()), **options)


def _measure_each(names: Sequence[str], what: str, measure: Measure, path: Path, **conditions: Any) -> None:
    """Measure loaders one after the other, and write the JSON after each of them."""
    loaders: list[Found] = []
    for name in names:
        report(f"{TITLES[name]}: {what}")
        try:
            found = {"missing": "", **measure(name)}
        except PeerGone as reason:
            found = {"missing": str(reason)}
        loaders.append({"name": name, **found})
        write_json(path, {"machine": describe(allowed_cores()), **conditions, "loaders": loaders})


def _workloads(run: Run, path: Path, *, changes: Sequence[tuple[str, Found]]) -> None:
    """Compare image loaders on workloads, with other options of :func:`run_bench`."""
    comparisons: list[Comparison] = []
    for name, options in changes:
        workload = WORKLOADS[name]
        given: Found = {
            "against": workload.peers,
            "size": workload.size,
            "workload": workload.title,
            "rounds": 1 if run.quick else run.rounds,
            "min_seconds": 0.1 if run.quick else _TURN_SECONDS,
        }
        comparisons.append(run_bench(run.dataset(name), engines=(), report=report, **{**given, **options}))
        show(comparisons[-1])
        write_json(path, [to_json(one) for one in comparisons])


def _images(title: str, minutes: float, *names: str) -> Part:
    return Part(title, minutes, partial(_workloads, changes=[(name, {}) for name in names]))


def _sweep(unit: str, option: str, values: Sequence[int], peers: Sequence[str]) -> Part:
    title = WORKLOADS["short256"].title
    changes = [
        ("short256", {option: value, "against": peers, "workload": f"{title}, {unit} {value:,}"})
        for value in values
    ]
    return Part(f"rates by {unit}", 2, partial(_workloads, changes=changes))


def _text(run: Run, path: Path) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    repeats, rounds = (1, 1) if run.quick else (8, 3)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = _write_text(Path(scratch), repeats)
        plan = ComparisonPlan(TEXT_PEERS, _settings(), tuple(allowed_cores()), rounds, min_seconds=1.0)
        loaders = [
            {"name": one.name, "missing": one.missing}
            if one.missing
            else {"name": one.name, **_text_rates(one.answers, one.start)}
            for one in run_in_turns(source, plan, report)
        ]
    conditions = {"repeats": repeats, "rounds": rounds, "batch_size": _BATCH}
    write_json(path, {"machine": describe(allowed_cores()), **conditions, "loaders": loaders})


def _text_rates(answers: Sequence[Found], start: Found) -> Found:
    """Medians over the turns of a loader of text; tokens are those without padding."""
    median, millions = statistics.median, [one["tokens"] / 1e6 for one in answers]
    pairs = list(zip(answers, millions, strict=True))
    return {
        "million_tokens_per_second": median(n / one["seconds"] for one, n in pairs),
        "cpu_seconds_per_million": median(one["cpu_seconds"] / n for one, n in pairs),
        "padding": median(1 - one["tokens"] / one["slots"] for one in answers),
        **{name: start[name] for name in ("first_batch_seconds", "versions", "notes")},
        "missing": "",
    }


def _write_text(folder: Path, repeats: int) -> PeerSource:
    """Write sequences with the lengths of GSM8K's answers, as a dataset of Stoker and as a table."""
    generator = np.random.default_rng(0)
    lengths = np.tile(gsm8k_lengths("answer"), repeats)
    ids = generator.integers(97, 123, lengths.sum()).astype(np.uint16)
    letters, ends = ids.astype(np.uint8).tobytes().decode(), np.cumsum(lengths)
    lines = (letters[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True))
    (folder / "lines.txt").write_text("\n".join(lines))
    stoker.convert_text(folder / "lines.txt", folder / "shards", tokenizer="bytes")
    table, count = folder / "sequences.npz", len(lengths)
    np.savez(table, ids=ids, lengths=lengths)
    return PeerSource(folder / "shards", "tfrecord", (), table, count, raw=False, scratch=folder)


def _resume(run: Run, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        images, shards = Path(scratch, "images"), Path(scratch, "shards")
        write_numbered_images(images, _FEW if run.quick else 1024)
        stoker.convert(images, shards, seed=0, storage=stoker.ImageStorage(shards=8))
        source, names = open_source(shards, Path(scratch)), ("stoker", *installed_rivals())
        what = "half an epoch, and the other half"
        _measure_each(names, what, partial(resumed, source), path, records=source.records)


def resumed(source: PeerSource, name: str, batch_size: int = _BATCH) -> Found:
    """How a loader goes on after half of an epoch, in a new process that has imported and made it.

    A loader without a state makes the first half again with the same seed, as its users do. The samples are
    images of noise, each with its own mean colour.
    """
    settings = replace(_settings(resumable=True), batch_size=batch_size)
    half = source.records // batch_size // 2
    with PeerProcess(name) as process:
        process.begin(source, settings)
        before = process.ask("state", scratch=str(source.scratch / name), steps=half)
    with PeerProcess(name) as process:
        process.begin(source, settings, write=False)
        after = process.ask("resume", state=before["state"], steps=half, rest=half)
    first, second = before["seen"], after["seen"]
    return {
        "seconds": after["resume_seconds"],
        "saves_state": before["state"] is not None,
        "repeated": len(second) - len(set(second) - set(first)),
        "omitted": source.records - len(set(first) | set(second)),
    }


def _memory(run: Run, path: Path) -> None:
    epochs = 2 if run.quick else 20

    def measure(name: str) -> Found:
        with PeerProcess(name) as process:
            process.begin(source, _settings())
            return {"memory": process.ask("endure", epochs=epochs)["memory"]}

    with run.opened("imagenet256", copies=512) as source:
        names = ("stoker", *installed_rivals())
        _measure_each(names, f"{epochs} epochs", measure, path, records=source.records, epochs=epochs)


_WRITING = (
    *("stoker-conversion", "torch-files", "ffcv", "webdataset", "litdata", "mosaic-streaming", "grain"),
    *("hf-datasets", "hf-streaming", "ray-data"),
)


def _conversion(run: Run, path: Path) -> None:
    from ..peers.stoker import write_files

    rounds, median = 1 if run.quick else 3, statistics.median

    def measure(name: str) -> Found:
        written: list[Found] = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(dir=source.scratch) as scratch, PeerProcess(name) as process:
                # Stoker converts loose files, which it checks; the others get the bytes by position.
                folder = loose if name == "stoker-conversion" else source.dataset
                given = replace(source, dataset=folder, scratch=Path(scratch))
                process.ask("import")
                written.append(process.ask("write", source=given.to_json(), settings=asdict(_settings())))
        return {
            "images_per_second": source.records / median(one["write_seconds"] for one in written),
            "cpu_seconds_per_1000": 1000
            * median(one["write_cpu_seconds"] for one in written)
            / source.records,
            "bytes_over_jpegs": median(one["written_bytes"] for one in written) / size,
        }

    with run.opened("imagenet") as source:
        loose = write_files(source)
        size = sum(file.stat().st_size for file in loose.rglob("*.jpg"))
        _measure_each(_WRITING, "writing its files", measure, path, records=source.records, rounds=rounds)


_REMOTE = (
    *("stoker", "stoker-blocks", "torch-files", "webdataset", "litdata", "mosaic-streaming"),
    *("hf-streaming", "ray-data"),
)


def _remote(run: Run, path: Path) -> None:
    def measure(name: str) -> Found:
        own = replace(source, scratch=source.scratch / name)
        own.scratch.mkdir()
        settings = asdict(_settings())
        with PeerProcess(name) as process:
            process.ask("import")
            written = process.ask("write", source=own.to_json(), settings=settings)["written_bytes"]
            url = upload(own.scratch if written else own.dataset, name)
            process.ask("prepare", source=replace(own, remote=url).to_json(), settings=settings)
            first = process.ask("warm_up")
            later = process.ask("turn", min_seconds=_TURN_SECONDS)
        rates = [epochs["images"] / epochs["seconds"] for epochs in (first, later)]
        return {"first_batch_seconds": first["first_batch_seconds"], "images_per_second": rates}

    link = {"latency_ms": _LATENCY_MS, "megabytes_per_second": float(_MEGABYTES)}
    with run.opened("imagenet256") as source, object_store(_LATENCY_MS / 1000, _MEGABYTES * 1e6):
        _measure_each(_REMOTE, "epochs", measure, path, records=source.records, **link)


_ON_DISK = (
    *("torch-files", "stoker-files", "stoker", "stoker-blocks", "torch", "tfdata", "dali", "ffcv"),
    *("webdataset", "litdata", "mosaic-streaming", "grain", "hf-datasets"),
)


def _disk(run: Run, path: Path) -> None:
    def measure(name: str) -> Found:
        with (
            throttled_disk(source.scratch, _MEGABYTES * 1_000_000, _REQUESTS) as group,
            PeerProcess(name) as process,
        ):
            process.begin(source, _settings())
            written = [file for file in (source.scratch / name).rglob("*") if file.is_file()]
            evict([*source.shards, *written])
            group.add(sorted(process_tree(process.pid)))
            epoch = process.ask("warm_up")
            read, requests = group.read()
        return {
            "images_per_second": epoch["images"] / epoch["seconds"],
            "first_batch_seconds": epoch["first_batch_seconds"],
            "megabytes": read / 1e6,
            "requests": requests,
        }

    limits = {"megabytes_per_second": _MEGABYTES, "requests_per_second": _REQUESTS}
    with run.opened("imagenet") as source:
        _measure_each(_ON_DISK, "an epoch from the disk", measure, path, records=source.records, **limits)


def _cold(run: Run, path: Path) -> None:
    rounds = 1 if run.quick else run.rounds

    def first_epoch(name: str, files: Sequence[Path]) -> Found:
        with PeerProcess(name) as process:
            process.begin(source, _settings(), write=False)
            evict(files)
            return process.ask("warm_up")

    def measure(name: str) -> Found:
        states: dict[str, list[Found]] = {"cold": [], "warm": []}
        for _ in range(rounds):
            for state, epochs in states.items():
                epochs.append(first_epoch(name, source.shards if state == "cold" else ()))
        median, warm = statistics.median, states["warm"]
        rates = {
            state: median(one["images"] / one["seconds"] for one in epochs)
            for state, epochs in states.items()
        }
        return {**rates, "first_batch_seconds": median(one["first_batch_seconds"] for one in warm)}

    names = ("stoker", "stoker-no-read-ahead", "tfdata-plain", "dali", "torch")
    with run.opened("raw256") as source:
        what = "first epochs, cold and warm"
        _measure_each(names, what, measure, path, records=source.records, rounds=rounds)


PARTS = {
    "imagenet": _images("photographs of ImageNet's size and quality", 7, "imagenet"),
    "restarts": _images("the same with restart markers", 7, "imagenet-restarts"),
    "imagenet256": _images("the same at short side 256", 5, "imagenet256"),
    "raw256": _images("raw pixels, short side 256", 4, "raw256"),
    "published": _images(
        "the workloads that FFCV and SPDL have published", 3, "ffcv-rn18", "ffcv-rn50", "spdl-example"
    ),
    "text": Part("batches of text", 2, _text),
    "resume": Part("the second half of an epoch, in a new process", 3, _resume),
    "memory": Part("memory over 20 epochs", 4, _memory),
    "conversion": Part("writing the files of each loader", 2, _conversion),
    "remote": Part("an object store with a latency of 20 ms", 2, _remote),
    "disk": Part("a disk that is limited as a hard disk is", 4, _disk),
    "cold": Part("the first epoch of a new process, with and without the page cache", 3, _cold),
    "batches": _sweep("batches of", "batch_size", (1, 64, 1024), ("stoker", "tfdata-plain", "dali", "torch")),
    "threads": _sweep("threads:", "num_threads", (1, 2, 4, 8, 16), ("stoker", "dali")),
}
"""All parts by name, in the order of the page."""
