"""Faults of workers on a Ray cluster: killed, lost, slow and refused machines, and bad samples."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.cluster import Call, RayStandIn, assert_same, hook
from helpers.datasets import flip_bit
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader, RayWorkers, TextLoader
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop
from stoker.errors import SampleError
from stoker.pipeline.images import image_pipeline as images_module

Make = Callable[..., Any]

ONLY_WORKERS = RayWorkers(local=False)


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
    shared = load(workers=ONLY_WORKERS)
    # The stand-in's machines run in this process, so they have its release.
    monkeypatch.setattr("stoker.pipeline.cluster.batch_maker.__version__", "0.0")
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
        with TextLoader(folder, batch_size=4, workers=workers) as loader, pytest.raises(SampleError):
            batches.extend(loader)
    assert received[0]
    assert_same(*received)


def test_close_ends_the_workers(load: Make, use_ray: Make) -> None:
    ray = use_ray()
    shared = load(workers=ONLY_WORKERS)
    next(iter(shared))
    shared.close()
    assert all(actor.is_dead for actor in ray.actors)
