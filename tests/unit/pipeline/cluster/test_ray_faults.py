"""Faults of workers on a Ray cluster: killed, lost, slow and refused machines, and bad samples."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.ray_stand_in import Call, RayStandIn, assert_same, hook

import stoker
from stoker import ImageLoader, RayWorkers, TextLoader
from stoker.augment import (
    RandomHorizontalFlip,
    RandomResizedCrop,
)
from stoker.errors import SampleError
from stoker.pipeline.images.engine import images as images_module

ALONE = RayWorkers(local=False)


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
    seed: int,
    load: Callable[..., ImageLoader],
    use: Callable[..., RayStandIn],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(Faults(seed))
    monkeypatch.setattr(images_module, "_MOST_TOGETHER", 1 + seed)
    options = {"batch_size": 5, "shuffle": True, "seed": seed, **IMAGES[seed % 2]}
    alone, shared = load(**options), load(**options, workers=RayWorkers(local=bool(seed // 2)))
    for _ in range(2):
        assert_same(list(shared), list(alone))
    assert shared.state_dict() == alone.state_dict()


def test_a_straggler_is_made_again_elsewhere(
    load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]
) -> None:
    def stuck_once(asked: list[Call]) -> None:
        asked[-1].stuck = len(asked) == 5

    hook(use(), stuck_once)
    alone, shared = load(batch_size=1), load(batch_size=1, workers=ALONE)
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
    assert (
        "the worker on machine (a0) makes no batches: it has Stoker 0.0, and this process has" in caplog.text
    )


@pytest.mark.filterwarnings("ignore:a bad sample")
def test_a_bad_sample_is_named_as_without_workers(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes], use: Callable[..., RayStandIn]
) -> None:
    use()
    folder = pack_images([make_jpeg(i)[: -100 if i == 11 else None] for i in range(20)])
    options = {"batch_size": 4, "transforms": [RandomResizedCrop(8)]}
    errors: list[str] = []
    found: list[Any] = []
    for workers in (None, ALONE):
        with ImageLoader(folder, **options, workers=workers) as loader, pytest.raises(SampleError) as raised:
            found.extend(loader)
        errors.append(str(raised.value))
        with ImageLoader(folder, **options, workers=workers, on_error="skip", max_bad=1) as loader:
            assert [len(batch.label) for batch in loader] == [4, 4, 3, 4, 4]
    assert len(found) == 4  # both have handed out the batches before it
    assert "k11" in errors[0]
    assert errors[0] == errors[1]


def test_text_before_a_damaged_record_is_handed_out(
    tmp_path: Path, shards: Path, use: Callable[..., RayStandIn]
) -> None:
    use()
    folder = Path(shutil.copytree(shards, tmp_path / "damaged"))
    dataset = stoker.open(folder)
    shard, at = (int(dataset.column(name)[50]) for name in ("shard", "offset"))
    file = Path(dataset.data_files[shard])
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    found: list[list[Any]] = [[], []]
    for batches, workers in zip(found, (None, ALONE), strict=True):
        with TextLoader(folder, batch_size=4, workers=workers) as loader, pytest.raises(SampleError):
            batches.extend(loader)
    assert found[0]
    assert_same(*found)


def test_close_ends_the_workers(load: Callable[..., ImageLoader], use: Callable[..., RayStandIn]) -> None:
    ray = use()
    shared = load(workers=ALONE)
    next(iter(shared))
    shared.close()
    assert all(actor.is_dead for actor in ray.actors)
