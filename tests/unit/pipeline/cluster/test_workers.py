"""Loaders with workers on a Ray cluster, by a stand-in for Ray whose machines fail as a test says."""

from __future__ import annotations

import logging
import pickle
import random
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.cluster import Call, RayStandIn, assert_same, hook
from helpers.datasets import flip_bit
from helpers.loaders import image_arguments, text_arguments

import stoker
from stoker import ImageLoader, RayWorkers, TextLoader
from stoker.augment import (
    ColorJitter,
    Normalize,
    RandomAutocontrast,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Views,
)
from stoker.errors import ConfigError, MissingDependencyError, SampleError
from stoker.pipeline.adapters.numpy import Adapter
from stoker.pipeline.cluster import workers as workers_module
from stoker.pipeline.cluster.batch_maker import BatchMaker
from stoker.pipeline.images import image_pipeline as images_module

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds in place of seconds between two looks, and minutes until a busy machine counts as lost."""
    for name in ("_LISTING", "_LEAST", "_TICK"):
        monkeypatch.setattr(workers_module, name, 0.001)
    for name in ("_SILENCE", "_STARTUP"):
        monkeypatch.setattr(workers_module, name, 600)


@pytest.fixture
def use_ray(monkeypatch: pytest.MonkeyPatch) -> Make:
    """``use_ray(before_wait, **cores)``: replaces Ray by a stand-in with these machines."""

    def make(before_wait: Callable[[RayStandIn], None] = lambda _: None, **cores: int) -> RayStandIn:
        ray = RayStandIn(cores or {"a0": 2, "b0": 2}, before_wait)
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    return make


ONLY_WORKERS = RayWorkers(local=False)

COLORS = [ColorJitter(0.4, 0.4, 0.4, 0.1), RandomAutocontrast(), Normalize(), RandomErasing(value="random")]
FLOATS = [
    ({"transforms": [RandomResizedCrop(8), *COLORS], "layout": "NHWC4", "dtype": "bfloat16"}, (192, 512)),
    ({"transforms": [Resize(8), *COLORS], "sizes": "padded", "pad_to_multiple_of": 4}, None),
    (
        {
            "transforms": {
                "large": Views(2, [RandomResizedCrop(9), *COLORS]),
                "small": [RandomResizedCrop(7), Normalize()],
            },
            "columns": ("large", "small"),
            "dtype": "float16",
        },
        (633, 1266),
    ),
]


@pytest.mark.parametrize(("options", "sizes"), FLOATS)
def test_float_images_are_sent_as_uint8_and_finished_to_the_same_bits(
    options: dict[str, Any], sizes: tuple[int, int] | None, load: Make, use_ray: Make
) -> None:
    use_ray()
    options = {"batch_size": 8, "columns": ("image", "label"), **options}
    alone = list(load(**options))
    for whole in (False, True):
        shared = load(**options, workers=RayWorkers(local=False, whole=whole))
        assert_same(list(shared), alone)
        if sizes:
            assert {maker.bytes / maker.samples for maker in shared.stats().makers} == {sizes[whole]}


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_of_workers_lie_in_the_memory_that_the_framework_wants(
    dtype: str, load: Make, use_ray: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ray()
    arrays = []

    def page_locked(shape: tuple[int, ...], name: str) -> Any:
        arrays.append(np.empty(shape, name))
        return arrays[-1]

    # As the adapter of a framework on a GPU allocates page-locked memory.
    monkeypatch.setattr(Adapter, "allocate", staticmethod(page_locked))
    for batch in load(batch_size=8, dtype=dtype, columns=("image",), workers=ONLY_WORKERS):
        assert any(np.shares_memory(batch.image, array) for array in arrays)


def test_workers_make_the_batches_of_text_and_of_ranks(
    shards: Path, use_ray: Make, caplog: pytest.LogCaptureFixture
) -> None:
    ray = use_ray(a0=4, b0=2)
    options = {"batch_size": 4, "shuffle": True, "rank": 1, "world_size": 2, "output": "torch"}
    alone, shared = (
        TextLoader(shards, **text_arguments(**options)),
        TextLoader(shards, **text_arguments(**options, workers=ONLY_WORKERS)),
    )
    for _ in range(2):
        assert_same(list(shared), list(alone))
    assert ray.assigned == {"a0": 2, "b0": 1}
    makers = shared.stats().makers
    assert {maker.name for maker in makers} <= {"machine (a0)", "machine (b0)"}
    assert sum(maker.samples for maker in makers) >= shared.stats().samples >= 98
    with caplog.at_level("INFO", "train"):
        shared.publish(logging.getLogger("train"))
    assert re.search(
        r" by maker: (machine \(\w0\) [\d,]+(, )?)+; \d+ batches made again\.$", caplog.messages[-1]
    )
    shared.close()


def test_published_statistics_have_figures_of_each_maker(load: Make, use_ray: Make) -> None:
    client = pytest.importorskip("prometheus_client", reason="needs pip install prometheus-client")
    use_ray(a0=1)
    registry, written = client.CollectorRegistry(), {}
    shared = load(workers=ONLY_WORKERS)
    shared.publish(registry)
    list(shared)
    shared.publish(SimpleNamespace(add_scalar=lambda name, value, _: written.update({name: value})))
    labels = {"rank": "0", "maker": "machine (a0)"}
    # At least the batches of the pass: those of the next pass are made ahead.
    assert (registry.get_sample_value("stoker_maker_batches", labels) or 0) >= 4
    assert written["stoker/maker_batches/machine (a0)"] >= 4


def test_exclusions_and_resumes_on_other_ranks_reach_the_workers(load: Make, use_ray: Make) -> None:
    use_ray()
    options = {"shuffle": True, "sizes": "padded", "aspect_ratio_group_factor": 1, "transforms": []}
    saved = load(**options, batch_size=4, workers=ONLY_WORKERS)
    next(iter(saved))
    state = saved.state_dict()
    options |= {"batch_size": 4, "rank": 1, "world_size": 2}
    alone, shared = load(**options), load(**options, workers=ONLY_WORKERS)
    for loader in (alone, shared):
        loader.load_state_dict(state)
    assert_same(list(shared), list(alone))
    alone, shared = (load(shuffle=True, batch_size=8, workers=workers) for workers in (None, ONLY_WORKERS))
    received = []
    for loader in (alone, shared):
        running = iter(loader)
        left_out = int(next(running).row[0])
        loader.exclude(left_out, from_step=3)
        received.append([*running, *loader])
    assert_same(*received)
    assert not any(left_out in batch.row for batch in received[0][-8:])


def test_one_request_asks_for_several_small_batches(
    shards: Path, load: Make, use_ray: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = hook(use_ray(a0=1))
    workers = RayWorkers(local=False, in_flight=1)
    for counts, shared in (
        ([8, 8], load(batch_size=4, workers=workers)),
        ([1] * 16, load(batch_size=4, sizes="padded", transforms=[], workers=workers)),
        ([25], TextLoader(shards, **text_arguments(batch_size=4, workers=workers))),
    ):
        assert counts_of_requests(shared, asked) == counts
    # The bound of the product, 48 MiB, holds hundreds of batches of small images.
    monkeypatch.setattr(images_module, "_TOGETHER", 3 * 4 * 8 * 8 * 3)  # bytes of three batches as uint8
    for dtype in ("uint8", "float32"):
        shared = load(batch_size=4, transforms=[RandomResizedCrop(8)], dtype=dtype, workers=workers)
        assert counts_of_requests(shared, asked) == [3, 3, 3, 3, 3, 1]


def counts_of_requests(shared: Any, asked: list[Call]) -> list[int]:
    """Numbers of batches that were asked for at once in an epoch."""
    del asked[:]
    assert len(list(shared)) == len(shared)
    shared.close()
    counts = [pickle.loads(call.arguments)[0].count for call in asked if call.method == "make"]
    while sum(counts) > len(shared):  # of the next epoch
        counts.pop()
    return counts


def test_arguments_that_workers_cannot_have_are_refused(
    load: Make, use_ray: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ray()
    with pytest.raises(ConfigError, match="cannot be sent to workers"):
        load(transforms=[RandomResizedCrop(8), lambda images: images], workers=ONLY_WORKERS)
    with pytest.raises(ConfigError, match=r"workers must be a stoker\.RayWorkers, found 8"):
        load(workers=8)
    with pytest.raises(ConfigError, match="num_cpus must be at least 1, found 0"):
        RayWorkers(num_cpus=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match="pip install ray"):
        load(workers=ONLY_WORKERS)


def makers_of(loader: Any) -> set[str]:
    return {maker.name for maker in loader.stats().makers}


IMAGES = [
    {
        "transforms": [RandomResizedCrop(8), RandomHorizontalFlip()],
        "columns": ("image", "label", "key"),
    },
    {
        "transforms": [RandomResizedCrop(8)],
        "sizes": stoker.RandomSizes(8, 16, step=8),
        "columns": ("image", "row"),
    },
]


class Faults:
    """Kills actors, loses and adds machines and leaves calls without an answer, by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.added = 0

    def __call__(self, ray: RayStandIn) -> None:
        event = self.random.random()
        if event < 0.1:
            ray.kill(self.random.choice(ray.actors))
        elif event < 0.15 and len(ray.cores) > 1:
            del ray.cores[self.random.choice(sorted(ray.cores))]
        elif event < 0.25 and len(ray.cores) < 5:
            self.added += 1
            ray.cores[f"c{self.added:07x}"] = 1


@pytest.mark.parametrize("seed", range(4))
def test_batches_are_those_of_one_process_while_workers_die_and_are_added(
    seed: int, load: Make, use_ray: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ray(Faults(seed))
    # Otherwise one request would have all batches of these small images.
    monkeypatch.setattr(images_module, "_MOST_TOGETHER", 1 + seed)
    options = {"batch_size": 5, "shuffle": True, "seed": seed, **IMAGES[seed % 2]}
    alone, shared = load(**options), load(**options, workers=RayWorkers(local=bool(seed // 2)))
    for _ in range(2):
        assert_same(list(shared), list(alone))
    assert shared.state_dict() == alone.state_dict()


def test_another_worker_makes_the_batches_of_a_slow_one_again(load: Make, use_ray: Make) -> None:
    def stuck_once(asked: list[Call]) -> None:
        asked[-1].stuck = len(asked) == 5

    hook(use_ray(), stuck_once)
    alone, shared = load(batch_size=1), load(batch_size=1, workers=ONLY_WORKERS)
    assert_same(list(shared), list(alone))
    assert shared.stats().made_again >= 1


def test_a_loader_continues_without_workers_when_the_cluster_is_lost(
    load: Make, use_ray: Make, caplog: pytest.LogCaptureFixture
) -> None:
    ray = use_ray()
    alone, shared = load(batch_size=4), load(batch_size=4, workers=ONLY_WORKERS)
    running = iter(shared)
    received = [next(running)]
    ray.is_lost = True
    for _ in range(2):
        assert_same([*received, *running], list(alone))
        received, running = [], iter(shared)
    assert "the Ray cluster is lost, this process goes on alone: Broken pipe" in caplog.text


def test_a_machine_with_another_release_is_refused_by_name(
    load: Make, use_ray: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_ray(a0=1)
    start = BatchMaker.start
    # The stand-in's machines run in this process, so they have its release; they start with the loader.
    monkeypatch.setattr(BatchMaker, "start", lambda maker: replace(start(maker), version="0.0"))
    shared = load(workers=ONLY_WORKERS)
    assert len(list(shared)) == 4
    assert makers_of(shared) == {"local"}
    assert (
        "the worker on machine (a0) makes no batches: it has Stoker 0.0, and this process has" in caplog.text
    )


@pytest.mark.filterwarnings("ignore:a bad sample")
def test_a_bad_sample_is_named_as_without_workers(pack_images: Make, make_jpeg: Make, use_ray: Make) -> None:
    use_ray()
    folder = pack_images([make_jpeg(i)[: -100 if i == 11 else None] for i in range(20)])
    options = {"batch_size": 4, "transforms": [RandomResizedCrop(8)]}
    errors: list[str] = []
    before: list[Any] = []
    for workers in (None, ONLY_WORKERS):
        with (
            ImageLoader(folder, **image_arguments(**options, workers=workers)) as loader,
            pytest.raises(SampleError) as raised,
        ):
            before.extend(loader)
        errors.append(str(raised.value))
        with ImageLoader(
            folder, **image_arguments(**options, workers=workers, on_error="skip", max_bad=1)
        ) as loader:
            assert [len(batch.label) for batch in loader] == [4, 4, 3, 4, 4]
    assert len(before) == 4  # both have handed out the batches before it
    assert "k11" in errors[0]
    assert errors[0] == errors[1]


def test_text_before_a_damaged_record_is_handed_out(tmp_path: Path, shards: Path, use_ray: Make) -> None:
    use_ray()
    folder = Path(shutil.copytree(shards, tmp_path / "damaged"))
    flip_bit(stoker.open(folder), 50)
    received: list[list[Any]] = [[], []]
    for batches, workers in zip(received, (None, ONLY_WORKERS), strict=True):
        with (
            TextLoader(folder, **text_arguments(batch_size=4, workers=workers)) as loader,
            pytest.raises(SampleError),
        ):
            batches.extend(loader)
    assert received[0]
    assert_same(*received)


def test_close_ends_the_workers(load: Make, use_ray: Make) -> None:
    ray = use_ray()
    shared = load(workers=ONLY_WORKERS)
    next(iter(shared))
    shared.close()
    assert all(actor.is_dead for actor in ray.actors)
