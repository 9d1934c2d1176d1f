"""Loaders with workers on a Ray cluster, by a stand-in for Ray whose machines fail as a test says."""

from __future__ import annotations

import logging
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.cluster import Call, assert_same, hook
from helpers.loaders import text_arguments

from stoker import RayWorkers, TextLoader
from stoker.augment import (
    ColorJitter,
    Normalize,
    RandomAutocontrast,
    RandomErasing,
    RandomResizedCrop,
    Resize,
    Views,
)
from stoker.errors import ConfigError, MissingDependencyError
from stoker.pipeline.adapters.numpy import Adapter
from stoker.pipeline.images import image_pipeline as images_module

Make = Callable[..., Any]

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
        ([25], TextLoader(shards, batch_size=4, workers=workers)),
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
