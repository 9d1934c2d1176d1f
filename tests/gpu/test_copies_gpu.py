"""Batches of the native engine on the GPU: by page-locked memory and a stream of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import WORDS
from helpers.gpu_device import DEVICE, ON_GPU, consumer_stream, fall_behind, needs_cuda
from helpers.loaders import image_arguments, text_arguments

import stoker
from stoker.augment import CutMix, MixUp, Normalize, RandomHorizontalFlip, RandomResizedCrop

torch = pytest.importorskip("torch")

if ON_GPU and not torch.cuda.is_available():
    pytest.skip("needs a build of PyTorch that sees a GPU", allow_module_level=True)

TRANSFORMS = (RandomResizedCrop(96), RandomHorizontalFlip(), Normalize())


def load(dataset: Path, **options: Any) -> stoker.ImageLoader:
    given = {"batch_size": 24, "engine": "native", "output": "torch", "columns": ("image", "label", "row")}
    return stoker.ImageLoader(
        dataset, **image_arguments(transforms=TRANSFORMS, shuffle=True, **{**given, **options})
    )


@needs_cuda
def test_page_locked_batches_on_the_cpu(dataset: Path) -> None:
    with load(dataset, device="cpu") as plain, load(dataset, device="cpu", pin_memory=True) as pinned:
        for expected, batch in zip(plain, pinned, strict=True):
            assert batch.image.is_pinned()
            assert batch.label.is_pinned()
            assert not expected.image.is_pinned()
            assert torch.equal(batch.image, expected.image)


@pytest.mark.parametrize("prefetch", [1, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_copies_are_complete_when_the_consumer_uses_them(dataset: Path, prefetch: int, dtype: str) -> None:
    with (
        load(dataset, device="cpu", dtype=dtype) as plain,
        load(dataset, device=DEVICE, dtype=dtype, prefetch=prefetch) as copied,
        consumer_stream(),
    ):
        for _ in range(5):
            for expected, batch in zip(plain, copied, strict=True):
                assert batch.image.device == torch.device(DEVICE)
                fall_behind()
                doubled = batch.image * 2
                label = batch.label + 0
                del batch
                assert torch.equal(doubled.cpu(), expected.image * 2)
                assert torch.equal(label.cpu(), expected.label)


def test_text_is_complete_when_the_consumer_uses_it(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join("word " * (1 + i % 300) for i in range(4000)))
    stoker.convert_text(tmp_path / "t.txt", tmp_path / "text", tokenizer=WORDS)
    given: dict[str, Any] = {"max_tokens": 1 << 14, "shuffle": True, "output": "torch"}
    with (
        stoker.TextLoader(tmp_path / "text", **text_arguments(device="cpu", **given)) as plain,
        stoker.TextLoader(tmp_path / "text", **text_arguments(device=DEVICE, **given)) as copied,
        consumer_stream(),
    ):
        for expected, batch in zip(plain, copied, strict=True):
            fall_behind()
            ids, mask = batch.input_ids + 0, batch.attention_mask.clone()
            del batch
            assert torch.equal(ids.cpu(), expected.input_ids)
            assert torch.equal(mask.cpu(), expected.attention_mask)


def test_mixing_on_the_gpu_is_that_on_the_cpu(
    pack_images: Callable[..., Path], photographs: list[Path]
) -> None:
    pytest.importorskip("nvidia.dali")
    payloads = [file.read_bytes() for file in photographs[:48]]
    folder = pack_images(payloads, label=np.arange(48) % 3)
    options: dict[str, Any] = {"transforms": (*TRANSFORMS, MixUp()), "output": "torch", "engine": "dali"}
    with (
        stoker.ImageLoader(folder, **image_arguments(batch_size=24, device="cpu", **options)) as on_cpu,
        stoker.ImageLoader(folder, **image_arguments(batch_size=24, device=DEVICE, **options)) as on_gpu,
    ):
        for expected, batch in zip(on_cpu, on_gpu, strict=True):
            assert (batch.image.cpu() - expected.image).abs().mean() < 0.05
            assert torch.allclose(batch.label.cpu(), expected.label)


@pytest.mark.parametrize("transform", [MixUp(), CutMix()])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16"])
def test_mixing_by_a_mask_is_that_of_the_host(transform: Any, dtype: str) -> None:
    from stoker.pipeline.adapters.torch import Adapter

    images = (255 * torch.rand(32, 3, 48, 48, device=DEVICE)).to(getattr(torch, dtype))
    params = transform.draw(np.arange(32), (48, 48), 0, 0)
    found = Adapter(DEVICE).mix(params, images, "NCHW").float().cpu()
    expected = Adapter("cpu").mix(params, images.cpu(), "NCHW").float()
    assert torch.allclose(found, expected, rtol=1e-2 if dtype == "bfloat16" else 1e-6)
