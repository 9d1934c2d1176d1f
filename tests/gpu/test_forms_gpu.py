"""Forms, filters and columns on the GPU: each is what the same loader leaves on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import COLUMNS, write_annotated
from helpers.gpu_device import DEVICE, ON_GPU, consumer_stream, fall_behind, needs_cuda
from helpers.loaders import image_arguments

import stoker
from stoker import augment
from stoker.augment import (
    CenterCrop,
    Normalize,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from stoker.formats.codecs.codec import Codec

torch = pytest.importorskip("torch")

GPU: dict[str, Any] = {"engine": "dali", "device": DEVICE, "output": "torch"}


def batches(folder: Path, **options: Any) -> list[Any]:
    """All batches of one pass."""
    given: dict[str, Any] = {"batch_size": 5, "transforms": [Resize(40), CenterCrop(32)], **options}
    with stoker.ImageLoader(folder, **image_arguments(**given)) as loader:
        return list(loader)


def on_gpu(folder: Path, **options: Any) -> list[Any]:
    return batches(folder, **{**GPU, **options})


def on_cpu(folder: Path, **options: Any) -> list[Any]:
    return on_gpu(folder, device="cpu", **options)


def values(images: Any) -> np.ndarray[Any, Any]:
    return np.asarray(images.float().cpu().numpy(), np.float64)


FILTERS: dict[str, Sequence[augment.Transform]] = {
    **{
        name: [RandomResizedCrop(48, interpolation=name), RandomHorizontalFlip()]
        for name in ("nearest", "bilinear", "bicubic", "lanczos")
    },
    "choice": [
        augment.RandomChoice(
            [
                RandomResizedCrop(48, interpolation=name)
                for name in ("nearest", "bilinear", "bicubic", "lanczos")
            ]
        )
    ],
    "enlarged": [RandomResizedCrop(80, scale=(0.05, 0.2), interpolation="bicubic")],
    "padded": [Resize(30), CenterCrop(48), augment.RandomVerticalFlip()],
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_those_of_the_reference(squares: Path, name: str) -> None:
    options: dict[str, Any] = {"transforms": FILTERS[name], "layout": "NHWC", "batch_size": 12}
    (found,) = on_gpu(squares, **options)
    (expected,) = batches(squares, engine="reference", **options)
    difference = np.abs(values(found.image) - expected.image)
    assert difference.mean() < 1  # of which nearest has much in few pixels, and the border some
    assert np.percentile(difference, 95) <= 3


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_every_form_has_erased_boxes(squares: Path, dtype: str, layout: str) -> None:
    transforms = [Resize(40), CenterCrop(32), RandomErasing(0.7)]
    options: dict[str, Any] = {
        "transforms": transforms if dtype == "uint8" else [*transforms, Normalize()],
        "dtype": dtype,
        "layout": layout,
    }
    found, expected = on_gpu(squares, **options), on_cpu(squares, **options)
    assert [len(batch.label) for batch in found] == [5, 5, 2]
    for batch, plain in zip(found, expected, strict=True):
        assert batch.image.dtype == plain.image.dtype
        assert batch.image.shape == plain.image.shape
        # The mean difference in units of the output: a level is 1/58 of a deviation or so.
        difference = np.abs(values(batch.image) - values(plain.image))
        assert difference.mean() < (1 if dtype == "uint8" else 0.02)


def test_raw_pixels_pass_by_the_decoder(pack_images: Callable[..., Path]) -> None:
    """Raw pixels of many sizes."""
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 256, (40 + 3 * i, 70 - 2 * i, 3), np.uint8) for i in range(8)]
    folder = pack_images(
        [one.tobytes() for one in pixels],
        codec=np.full(8, Codec.RAW, np.uint8),
        height=np.array([one.shape[0] for one in pixels]),
        width=np.array([one.shape[1] for one in pixels]),
    )
    options: dict[str, Any] = {"transforms": [RandomResizedCrop(32), RandomHorizontalFlip()], "batch_size": 8}
    (found,) = on_gpu(folder, **options)
    (expected,) = on_cpu(folder, **options)
    assert np.abs(values(found.image) - values(expected.image)).mean() < 0.5


def test_annotations_are_on_the_gpu_with_their_images(pack_images: Callable[..., Path]) -> None:
    folder = write_annotated(pack_images)
    options: dict[str, Any] = {
        "columns": COLUMNS,
        "objects": "padded",
        "transforms": [augment.RandomIoUCrop(), Resize((32, 32)), augment.RandomAffine(20)],
        "shuffle": True,
    }
    found, expected = on_gpu(folder, **options), on_cpu(folder, **options)
    for batch, plain in zip(found, expected, strict=True):
        for name in COLUMNS:
            column = getattr(batch, name)
            assert column.device == torch.device(DEVICE), name
            difference = np.abs(values(column) - values(getattr(plain, name)))
            assert difference.mean() < (1 if name == "image" else 1e-4), name


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_memory_is_not_reused_before_its_consumer_is_done(squares: Path, dtype: Any) -> None:
    """The consumer's stream is behind, and drops each batch at once."""
    options: dict[str, Any] = {"dtype": dtype, "batch_size": 2}
    if dtype != "uint8":
        options["transforms"] = [Resize(40), CenterCrop(32), Normalize()]
    expected = [values(batch.image) for batch in on_gpu(squares, **options)]
    with stoker.ImageLoader(
        squares, **image_arguments(**{"transforms": [Resize(40), CenterCrop(32)], **GPU, **options})
    ) as loader:
        for _ in range(5):
            late = []
            with consumer_stream():
                for batch in loader:
                    fall_behind(20_000_000)  # some ten milliseconds
                    late.append(batch.image + 0)
                    del batch
                late = [image.cpu() for image in late]  # waits for the stream
            assert all(np.array_equal(values(one), other) for one, other in zip(late, expected, strict=True))


@pytest.mark.filterwarnings("ignore:a bad sample was")
@pytest.mark.parametrize("at", [0, 4])
def test_a_bad_sample_is_replaced(squares: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = on_gpu(squares, batch_size=12)[0]
    dataset = stoker.open(squares)
    samples = dataset.samples
    monkeypatch.setattr(type(dataset), "samples", lambda _, rows: _damaged(samples(rows), at))
    with stoker.ImageLoader(
        dataset,
        **image_arguments(batch_size=12, transforms=[Resize(40), CenterCrop(32)], on_error="replace", **GPU),
    ) as loader:
        (batch,) = list(loader)
        assert loader.stats().replaced == 1
    kept = [i for i in range(12) if i != at]
    assert np.array_equal(values(batch.image)[kept], values(whole.image)[kept])
    assert np.array_equal(values(batch.image)[at], values(whole.image)[at + 1])


def _damaged(samples: Any, at: int) -> Any:
    samples.crc[samples.row == at] ^= 1
    return samples


@needs_cuda
def test_a_named_gpu_is_the_one_of_this_rank_and_dali_decodes(
    squares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = torch.cuda.device_count()  # of this rank, whose GPU is the first again
    for name, value in {"RANK": local, "WORLD_SIZE": local + 1, "LOCAL_RANK": local}.items():
        monkeypatch.setenv(name, str(value))
    options: dict[str, Any] = {"batch_size": 4, "transforms": [CenterCrop(32)], "output": "torch"}
    with stoker.ImageLoader(squares, **image_arguments(device="cuda", **options)) as loader:
        assert loader.engine == "dali"
        assert next(iter(loader)).image.device == torch.device("cuda:0")
    with stoker.ImageLoader(squares, **image_arguments(**options)) as loader:
        assert loader.engine == "native"
        assert next(iter(loader)).image.device == torch.device("cpu")


@pytest.mark.parametrize("output", ["cupy", "jax"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_libraries_receive_the_same(squares: Path, output: Any, dtype: Any) -> None:
    library = pytest.importorskip(output)
    if output == "jax" and ON_GPU and library.default_backend() != "gpu":
        pytest.skip("needs a build of JAX that sees a GPU")
    if output == "cupy" and not ON_GPU:
        pytest.skip("CuPy has no arrays on the CPU")
    options: dict[str, Any] = {"transforms": [CenterCrop(32), Normalize()], "dtype": dtype}
    for batch, plain in zip(
        on_gpu(squares, output=output, **options), on_gpu(squares, **options), strict=True
    ):
        images = batch.image.get() if output == "cupy" else np.asarray(batch.image)
        if output == "cupy" and dtype == "bfloat16":
            images = (images.astype(np.uint32) << 16).view(np.float32)
        assert np.array_equal(images.astype(np.float64), values(plain.image))
