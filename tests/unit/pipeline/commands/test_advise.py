"""The command that says what a training step needs: its arithmetic, and what it prints."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.warm_python import WarmPython
from PIL import Image

import stoker
from stoker.pipeline.commands.advise import (
    LIBRARY_BYTES,
    TRAINING_FORMS,
    Demand,
    advise_on,
    cluster_sentences,
    demand_of_cluster,
    memory_of_rank,
)
from stoker.pipeline.commands.app import app
from stoker.pipeline.commands.conversion_gain import Gain, decoder_bytes

# 2,000 images a second on two cores from 100 KB each, and 8,000 from 20 KB each.
GAINS = [Gain("as they are", 2000, 10**8), Gain("small", 8000, 2 * 10**7)]

MEASURED = """
import json, sys
from pathlib import Path

from stoker import ImageLoader
from stoker.augment import Normalize, RandomResizedCrop

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

options = json.loads(sys.argv[2])
before = most = memory()
loader = ImageLoader(sys.argv[1], batch_size=options["batch_size"], num_threads=options["threads"],
                     transforms=[RandomResizedCrop(options["size"]), Normalize()], steps_per_epoch=8)
for batch in loader:
    most = max(most, memory())
print(most - before)
"""


@pytest.mark.parametrize(
    ("demand", "waits"),
    [
        (Demand(1000, cores=2, measured_cores=2), [0, 0]),
        (Demand(4000, cores=2, measured_cores=2), [0.5, 0]),
        (Demand(4000, cores=8, measured_cores=2), [0, 0]),
        (Demand(4000, cores=8, measured_cores=2, bandwidth=10**8), [0.75, 0]),
        (Demand(10_000, cores=2, measured_cores=2, bandwidth=10**8), [0.9, 0.5]),
    ],
)
def test_a_step_waits_for_cores_or_for_the_storage(demand: Demand, waits: list[float]) -> None:
    advice = [advise_on(gain, demand, images=1000) for gain in GAINS]
    assert [form.waits for form in advice] == pytest.approx(waits)
    needed = demand.images_per_second
    assert [form.cores_needed for form in advice] == pytest.approx([needed / 1000, needed / 4000])
    assert [form.bytes_per_second for form in advice] == pytest.approx([needed * 100_000, needed * 20_000])


@pytest.mark.parametrize(
    ("network", "phrases"),
    [
        (10**9, ["6.0 more cores", "make 6,000 images/s", "carries 6,667 images/s", "100.0 kB of the link"]),
        (45 * 10**7, ["it carries 50% of what the workers would make"]),
    ],
)
def test_a_cluster_adds_missing_cores_as_far_as_the_link_carries(network: int, phrases: list[str]) -> None:
    demand = Demand(8000, cores=2, measured_cores=2)
    (best, _) = [advise_on(gain, demand, images=1000) for gain in GAINS]
    text = " ".join(cluster_sentences(demand_of_cluster(best, demand, 150_000, 100_000, network)))
    assert all(phrase in text for phrase in phrases), text
    rich = replace(demand, cores=8)
    (best, _) = [advise_on(gain, rich, images=1000) for gain in GAINS]
    cluster = demand_of_cluster(best, rich, 150_000, 100_000, network)
    assert "would not help" in " ".join(cluster_sentences(cluster))


@pytest.mark.parametrize(
    ("options", "conclusion"),
    [
        ("--step-ms 1000000", "The images are fast enough as they are, with num_threads=1. A rank needs"),
        ("--step-ms 0.02 --cores 1 --bandwidth 1KB --network 1GB", "No form is fast enough."),
    ],
)
def test_the_command_prints_a_conclusion_and_the_memory(
    thumbnails: Path, capsys: pytest.CaptureFixture[str], options: str, conclusion: str
) -> None:
    arguments = ["--images", "32", "--size", "16", "--batch-size", "4", *options.split()]
    app(["advise", str(thumbnails), *arguments], standalone_mode=False)
    printed = capsys.readouterr().out
    assert conclusion in printed
    assert "73.7 kB for 6 batches of 12.3 kB each, as float32" in printed


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {"batch_size": 32, "size": 160, "threads": 2}),
        ("PNG", {"batch_size": 4, "size": 16, "threads": 4}),
    ],
)
def test_the_advised_memory_is_at_least_what_a_loader_takes(
    warm_python: WarmPython, pack_images: Callable[..., Path], kind: str, options: dict[str, int]
) -> None:
    payloads = []
    for seed in range(4):
        stream = io.BytesIO()
        noise = np.random.default_rng(seed).integers(0, 255, (600, 800, 3), np.uint8)
        Image.fromarray(noise).save(stream, kind, compress_level=1)
        payloads.append(stream.getvalue())
    folder = pack_images(payloads)
    measured = int(warm_python.output(MEASURED, folder, json.dumps(options)))
    batch = options["batch_size"] * 3 * options["size"] ** 2 * 4
    needed = memory_of_rank(batch, decoder_bytes(stoker.open(folder)), options["threads"])
    assert measured < needed < 6 * measured + LIBRARY_BYTES
    assert measured > (2 * batch if kind == "JPEG" else 3 * 600 * 800), "it is no measurement"


def test_the_command_prints_json(thumbnails: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(
        ["advise", str(thumbnails), "--step-ms", "64", "--images", "32", "--ranks", "2", "--json"],
        standalone_mode=False,
    )
    report = json.loads(capsys.readouterr().out)
    assert report["demand"]["images_per_second"] == 2000
    assert [form["form"] for form in report["forms"]] == ["as they are", *TRAINING_FORMS]
