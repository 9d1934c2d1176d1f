"""Loaders with workers on a Ray cluster, by a stand-in for Ray whose machines fail as a test says."""

from __future__ import annotations

import logging
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.ray_stand_in import Call, RayStandIn

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
from stoker.pipeline.cluster import dispatcher

ALONE = RayWorkers(local=False)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LISTING", "_LEAST", "_TICK"):
        monkeypatch.setattr(dispatcher, name, 0.001)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RayStandIn]:
    """Puts a stand-in with these machines in the place of Ray."""

    def make(before_wait: Callable[[RayStandIn], None] = lambda _: None, **cores: int) -> RayStandIn:
        ray = RayStandIn(cores or {"a0": 2, "b0": 2}, before_wait)
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    return make


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one._fields == other._fields
        for a, b in zip(one, other, strict=True):
            assert type(a) is type(b)
            assert a == b if isinstance(a, list) else np.array_equal(a, b)


def made_by(loader: Any) -> set[str]:
    return {one.name for one in loader.stats().makers}


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
    seed: int, load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]
) -> None:
    use(Faults(seed))
    options = {"batch_size": 5, "shuffle": True, "seed": seed, **IMAGES[seed % 2]}
    alone, shared = load(**options), load(**options, workers=RayWorkers(local=bool(seed // 2)))
    for _ in range(2):
        assert_same(list(shared), list(alone))
    assert shared.state_dict() == alone.state_dict()


COLORS = [ColorJitter(0.4, 0.4, 0.4, 0.1), RandomAutocontrast(), Normalize(), RandomErasing(value="random")]
FLOATS = [
    ({"transforms": [RandomResizedCrop(8), *COLORS], "layout": "NHWC4", "dtype": "bfloat16"}, (192, 512)),
    ({"transforms": [Resize(8), *COLORS], "sizes": "padded", "multiple": 4}, None),
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
def test_float_images_come_as_uint8_and_are_finished_here_to_the_same_bits(
    options: dict[str, Any],
    sizes: tuple[int, int] | None,
    load: Callable[..., ImageLoader],
    use: Callable[..., RayStandIn],
) -> None:
    use()
    options = {"batch_size": 8, "columns": ("image", "label"), **options}
    alone = list(load(**options))
    for whole in (False, True):
        shared = load(**options, workers=RayWorkers(local=False, whole=whole))
        assert_same(list(shared), alone)
        if sizes:
            assert {one.bytes / one.samples for one in shared.stats().makers} == {sizes[whole]}


def test_workers_make_the_batches_of_text_and_of_ranks(
    shards: Path, use: Callable[..., RayStandIn], caplog: pytest.LogCaptureFixture
) -> None:
    ray = use(a0=4, b0=2)
    options = {"batch_size": 4, "shuffle": True, "rank": 1, "world_size": 2, "output": "torch"}
    alone, shared = TextLoader(shards, **options), TextLoader(shards, **options, workers=ALONE)
    for _ in range(2):
        assert_same(list(shared), list(alone))
    assert ray.placed == {"a0": 2, "b0": 1}
    makers = shared.stats().makers
    assert {one.name for one in makers} <= {"machine (a0)", "machine (b0)"}
    assert sum(one.samples for one in makers) >= shared.stats().samples >= 98
    with caplog.at_level("INFO", "train"):
        shared.publish(logging.getLogger("train"))
    assert re.search(
        r" by maker: (machine \(\w0\) [\d,]+(, )?)+; \d+ batches made again\.$", caplog.messages[-1]
    )
    shared.close()


def test_monitors_have_figures_of_each_maker(
    load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]
) -> None:
    client = pytest.importorskip("prometheus_client", reason="needs pip install prometheus-client")
    use(a0=1)
    registry, written = client.CollectorRegistry(), {}
    shared = load(workers=ALONE)
    shared.publish(registry)
    list(shared)
    shared.publish(SimpleNamespace(add_scalar=lambda name, value, _: written.update({name: value})))
    labels = {"rank": "0", "maker": "machine (a0)"}
    # At least the batches of the pass: those of the next pass are made ahead.
    assert (registry.get_sample_value("stoker_maker_batches", labels) or 0) >= 4
    assert written["stoker/maker_batches/machine (a0)"] >= 4


def test_exclusions_and_resumes_on_other_ranks_reach_the_workers(
    load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]
) -> None:
    use()
    options = {"shuffle": True, "sizes": "padded", "aspect_ratio_group_factor": 1, "transforms": []}
    saved = load(**options, batch_size=4, workers=ALONE)
    next(iter(saved))
    state = saved.state_dict()
    options |= {"batch_size": 4, "rank": 1, "world_size": 2}
    alone, shared = load(**options), load(**options, workers=ALONE)
    for loader in (alone, shared):
        loader.load_state_dict(state)
    assert_same(list(shared), list(alone))
    alone, shared = (load(shuffle=True, batch_size=8, workers=one) for one in (None, ALONE))
    found = []
    for loader in (alone, shared):
        running = iter(loader)
        left_out = int(next(running).row[0])
        loader.exclude(left_out, from_step=3)
        found.append([*running, *loader])
    assert_same(*found)
    assert not any(left_out in batch.row for batch in found[0][-8:])


def test_a_straggler_is_made_again_elsewhere(
    load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]
) -> None:
    asked: list[Call] = []
    ray = use()
    run = ray._run

    def stuck_once(call: Call) -> None:
        asked.append(call)
        if len(asked) == 9:
            call.stuck = True
        else:
            run(call)

    ray._run = stuck_once  # type: ignore[method-assign]  # the test
    alone, shared = load(batch_size=4), load(batch_size=4, workers=ALONE)
    assert_same(list(shared), list(alone))
    assert shared.stats().made_again >= 1


def test_a_loader_goes_on_alone_when_the_cluster_is_lost(
    load: Callable[..., ImageLoader], use: Callable[..., RayStandIn], caplog: pytest.LogCaptureFixture
) -> None:
    ray = use()
    alone, shared = load(batch_size=4), load(batch_size=4, workers=ALONE)
    running = iter(shared)
    found = [next(running)]
    ray.is_lost = True
    for _ in range(2):
        assert_same([*found, *running], list(alone))
        found, running = [], iter(shared)
    assert "the Ray cluster is lost, this process goes on alone: Broken pipe" in caplog.text


def test_a_machine_with_another_release_or_data_is_refused_by_name(
    load: Callable[..., ImageLoader],
    use: Callable[..., RayStandIn],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    use(a0=1)
    shared = load(workers=ALONE)
    monkeypatch.setattr("stoker.pipeline.cluster.batch_maker.__version__", "0.0")
    assert len(list(shared)) == 4
    assert made_by(shared) == {"local"}
    assert "no batches are made on machine (a0): it has Stoker 0.0, and this process has" in caplog.text


@pytest.mark.filterwarnings("ignore:a bad sample")
def test_a_bad_sample_is_named_as_without_workers(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes], use: Callable[..., RayStandIn]
) -> None:
    use()
    folder = pack_images([make_jpeg(i)[: -100 if i == 11 else None] for i in range(20)])
    options = {"batch_size": 4, "transforms": [RandomResizedCrop(8)]}
    errors = []
    for workers in (None, ALONE):
        with ImageLoader(folder, **options, workers=workers) as loader, pytest.raises(SampleError) as raised:
            list(loader)
        errors.append(str(raised.value))
        with ImageLoader(folder, **options, workers=workers, on_error="skip", max_bad=1) as loader:
            assert [len(batch.label) for batch in loader] == [4, 4, 3, 4, 4]
    assert "k11" in errors[0]
    assert errors[0] == errors[1]


def test_close_ends_the_workers(load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]) -> None:
    ray = use()
    shared = load(workers=ALONE)
    next(iter(shared))
    shared.close()
    assert all(actor.is_dead for actor in ray.actors)


def test_what_workers_cannot_have_is_refused(
    load: Callable[..., ImageLoader], use: Callable[..., RayStandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    with pytest.raises(ConfigError, match="cannot be sent to workers"):
        load(transforms=[RandomResizedCrop(8), lambda images: images], workers=ALONE)
    with pytest.raises(ConfigError, match=r"workers must be a stoker\.RayWorkers, found 8"):
        load(workers=8)
    with pytest.raises(ConfigError, match="num_cpus must be at least 1, found 0"):
        RayWorkers(num_cpus=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match="pip install ray"):
        load(workers=ALONE)
