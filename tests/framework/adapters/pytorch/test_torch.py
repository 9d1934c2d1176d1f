"""PyTorch: tensors over the engine's memory, the IterableDataset view, and a training loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import ConfigError

torch = pytest.importorskip("torch")

from stoker.pipeline.adapters.torch import iterable_dataset  # noqa: E402 - only where the package is installed


def load(folder: Path, engine: str = "native", **options: Any) -> ImageLoader:
    arguments = {"batch_size": 16, "output": "torch", "num_threads": 2, "transforms": [Resize((16, 16))]}
    return ImageLoader(folder, **image_arguments(engine=engine, **(arguments | options)))


def test_tensors_may_be_changed_in_place(thumbnails: Path, engine: str) -> None:
    with load(thumbnails, engine, dtype="float32") as loader:
        for images, labels in loader:
            images.mul_(0)
            labels.add_(1)
            assert not images.any()


def test_the_iterable_dataset_view_has_the_batches_of_the_loader(thumbnails: Path) -> None:
    with load(thumbnails, shuffle=True) as loader, load(thumbnails, shuffle=True) as other:
        view = iterable_dataset(loader)
        assert isinstance(view, torch.utils.data.IterableDataset)
        batches = torch.utils.data.DataLoader(view, batch_size=None)
        assert len(view) == len(batches) == 4
        for _ in range(2):
            for (images, labels), (expected, expected_labels) in zip(batches, other, strict=True):
                assert torch.equal(images, expected)
                assert torch.equal(labels, expected_labels)


def test_a_check_for_iterability_uses_up_no_epoch(thumbnails: Path) -> None:
    with load(thumbnails, shuffle=True) as loader, load(thumbnails, shuffle=True) as other:
        for epoch in range(2):
            iter(loader)
            assert loader.state_dict()["epoch"] == epoch
            for (_, labels), (_, expected) in zip(loader, other, strict=True):
                assert torch.equal(labels, expected)


def test_a_look_at_the_first_batch_of_a_view_uses_up_no_epoch(thumbnails: Path) -> None:
    with load(thumbnails, shuffle=True) as loader, load(thumbnails, shuffle=True) as other:
        view = iterable_dataset(loader)
        next(iter(view))
        for (_, labels), (_, expected) in zip(view, other, strict=True):
            assert torch.equal(labels, expected)
        assert len({tuple(next(iter(view)).label.tolist()) for _ in range(5)}) == 5


def test_a_view_has_the_state_of_its_loader(thumbnails: Path) -> None:
    with load(thumbnails, shuffle=True) as loader, load(thumbnails, shuffle=True) as other:
        running = iter(iterable_dataset(loader))
        next(running), next(running)
        iterable_dataset(other).load_state_dict(iterable_dataset(loader).state_dict())
        for (_, labels), (_, expected) in zip(running, other, strict=True):
            assert torch.equal(labels, expected)


def test_a_view_of_an_epoch_of_one_batch_goes_on_to_the_next(thumbnails: Path) -> None:
    with load(thumbnails, shuffle=True, batch_size=64) as loader:
        view = iterable_dataset(loader)
        first, second = next(iter(view)), next(iter(view))
    assert not torch.equal(first.label, second.label)


def test_the_element_spec_has_the_form_that_a_function_returns(thumbnails: Path) -> None:
    with load(thumbnails, transforms=[Resize((16, 16)), lambda images: images[:, :1].half()]) as loader:
        image = loader.element_spec()[0]
        assert (image.dtype, image.shape) == ("float16", (1, 16, 16))


def test_workers_of_torch_are_refused(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with load(thumbnails) as loader:
        monkeypatch.setattr(torch.utils.data, "get_worker_info", object)
        with pytest.raises(ConfigError, match="num_workers=0"):
            iter(iterable_dataset(loader))


@pytest.mark.parametrize("options", [{}, {"batch_size": None}, {"shuffle": True}])
def test_a_data_loader_of_a_loader_is_refused_and_the_view_named(
    thumbnails: Path, options: dict[str, Any]
) -> None:
    with load(thumbnails) as loader:
        batches = torch.utils.data.DataLoader(loader, **options)
        with pytest.raises(ConfigError, match=r"DataLoader\(iterable_dataset\(loader\), batch_size=None\)"):
            next(iter(batches))
        assert next(iter(loader)).image.shape[0] == 16  # and the loader itself still works


@pytest.fixture
def damaged(pack_images: Any, make_jpeg: Any) -> Path:
    """Four samples whose checksums are wrong."""
    folder: Path = pack_images([make_jpeg(i) for i in range(4)], crc=np.ones(4, np.uint32))
    return folder


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_a_batch_whose_samples_are_all_skipped_is_empty(damaged: Path) -> None:
    with load(damaged, on_error="skip") as loader:
        images, labels = next(iter(loader))
    assert (tuple(images.shape), len(labels)) == ((0, 3, 16, 16), 0)


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_a_batch_without_a_sample_to_replace_the_others_is_an_error(damaged: Path) -> None:
    with load(damaged, on_error="replace") as loader, pytest.raises(ValueError, match="checksum"):
        next(iter(loader))


def test_torch_saves_and_loads_a_state(thumbnails: Path, tmp_path: Path) -> None:
    with load(thumbnails, shuffle=True) as loader:
        batches = iter(loader)
        next(batches)
        torch.save({"loader": loader.state_dict()}, tmp_path / "checkpoint.pt")
        _, expected = next(batches)
    with load(thumbnails, shuffle=True) as loader:
        loader.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["loader"])
        _, labels = next(iter(loader))
    assert torch.equal(labels, expected)
