"""DALI on the GPU: the same parameters, the same pixels within rounding, and the same policies."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.gpu_device import DEVICE, ON_GPU, consumer_stream, fall_behind, memory_in_use, needs_cuda
from helpers.images import decode_with_pillow, encode
from helpers.loaders import image_arguments
from PIL import Image

import stoker
from stoker import augment
from stoker.augment import (
    CenterCrop,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    reference,
)
from stoker.errors import SampleError
from stoker.pipeline.engines.dali.engine import BuiltPipeline

BORDER = 4
TRAINING = (RandomResizedCrop(64), RandomHorizontalFlip())
EVALUATION = (Resize(72), CenterCrop(64))


def torch_batches(dataset: Path, **arguments: Any) -> list[Any]:
    """All batches of one pass, on the GPU."""
    settings: dict[str, Any] = {"batch_size": 24, "engine": "dali", "device": DEVICE, "output": "torch"}
    with stoker.ImageLoader(dataset, **image_arguments(**{**settings, **arguments})) as loader:
        return list(loader)


def damaged(photographs: list[Path], at: int) -> list[bytes]:
    """Eight photographs, one of them with a Huffman table that no decoder takes."""
    payloads = [file.read_bytes() for file in photographs[:8]]
    counts = payloads[at].find(b"\xff\xc4") + 5  # behind the marker, the length and the table's number
    payloads[at] = payloads[at][:counts] + b"\xff" * 16 + payloads[at][counts + 16 :]
    return payloads


@pytest.mark.parametrize("transforms", [TRAINING, EVALUATION], ids=["training", "evaluation"])
def test_the_gpu_shows_the_reference_pixels(dataset: Path, transforms: tuple[Any, ...]) -> None:
    batch = torch_batches(dataset, transforms=transforms, layout="NHWC", columns=("image", "row"))[0]
    found, opened = batch.image.cpu().numpy().astype(int), stoker.open(dataset)
    samples = opened.samples(np.arange(len(found)))
    plan = stoker.augment.compile_image(transforms)
    params = plan.draw(samples.height, samples.width, samples.row, 0, 0)
    for i in range(len(found)):
        expected = reference.execute(params, i, decode_with_pillow(opened.read(i)), "uint8", "NHWC").astype(
            int
        )
        difference = np.abs(found[i] - expected)
        # nvJPEG rounds its colour conversion and upsampling otherwise than libjpeg-turbo.
        assert difference.mean() < 1.5
        assert np.percentile(difference[BORDER:-BORDER, BORDER:-BORDER], 99) <= 8


# On PNG, whose pixels are the same everywhere: the mean difference in levels that is allowed.
OPERATIONS: dict[str, tuple[list[augment.Transform], float]] = {
    "jitter": ([augment.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.05),
    "levels": ([augment.RandomPosterize(3), augment.RandomSolarize(128)], 0),
    "autocontrast": ([augment.RandomAutocontrast()], 0),
    "sharpness": ([augment.RandomAdjustSharpness(2.5)], 0.05),
    "blur": ([augment.GaussianBlur(5)], 0.05),
    "equalize": ([augment.RandomEqualize(1)], 0.5),
    "warp": ([augment.RandomRotation(30, fill=(9, 80, 200))], 0.1),
    "perspective": ([augment.RandomPerspective(0.5, p=0.8)], 1.5),
    "horizon": ([augment.RandomAffine(30, (0.3, 0.3), (1.5, 3)), augment.RandomPerspective(0.95, p=1)], 1.5),
    "erase": ([augment.RandomErasing(0.7)], 0),
    "policy": ([augment.RandAugment()], 1),
    "mix": ([augment.AugMix()], 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_those_of_the_reference(squares: Path, name: str) -> None:
    transforms, allowed = OPERATIONS[name]
    arguments: dict[str, Any] = {"transforms": [CenterCrop(64), *transforms], "layout": "NHWC"}
    found = torch_batches(squares, **arguments)[0].image.cpu().numpy().astype(int)
    with stoker.ImageLoader(
        squares, **image_arguments(batch_size=24, engine="reference", **arguments)
    ) as loader:
        expected = next(iter(loader)).image.astype(int)
    assert np.abs(found - expected).mean() <= allowed


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations_are_those_of_the_reference(
    pack_images: Callable[..., Path], photographs: list[Path], orientation: int
) -> None:
    images = [Image.open(file).convert("RGB") for file in photographs[:4]]
    payloads = [encode(image, orientation=orientation, quality=95) for image in images]
    arguments: dict[str, Any] = {"transforms": EVALUATION, "layout": "NHWC", "batch_size": 4}
    found = torch_batches(pack_images(payloads), **arguments)[0].image.cpu().numpy().astype(int)
    with stoker.ImageLoader(
        pack_images(payloads), **image_arguments(engine="reference", **arguments)
    ) as loader:
        expected = next(iter(loader)).image.astype(int)
    assert np.abs(found - expected).mean() < 1.5


JPEGS: dict[str, tuple[str, dict[str, Any]]] = {
    "progressive": ("RGB", {"progressive": True}),
    "444": ("RGB", {"subsampling": "4:4:4"}),
    "422": ("RGB", {"subsampling": "4:2:2"}),
    "restarts": ("RGB", {"restart_marker_rows": 1}),
    "grey": ("L", {}),
    "cmyk": ("CMYK", {}),
}


@pytest.mark.parametrize("name", JPEGS)
def test_every_kind_of_jpeg_is_near_the_reference(
    pack_images: Callable[..., Path], photographs: list[Path], name: str
) -> None:
    """Crops at odd places that are not resampled, beside an ordinary JPEG that has to stay whole."""
    mode, options = JPEGS[name]
    payloads = [photographs[0].read_bytes()]
    for file in photographs[1:4]:
        stream = io.BytesIO()
        Image.open(file).convert(mode).save(stream, "JPEG", quality=95, **options)
        payloads.append(stream.getvalue())
    folder = pack_images(payloads)
    arguments: dict[str, Any] = {"transforms": [RandomCrop(65)], "layout": "NHWC", "batch_size": 4}
    found = torch_batches(folder, **arguments)[0].image.cpu().numpy().astype(int)
    with stoker.ImageLoader(folder, **image_arguments(engine="reference", **arguments)) as loader:
        difference = np.abs(found - next(iter(loader)).image.astype(int))
    for own in difference:
        # nvJPEG repeats the chroma of 4:2:0 where libjpeg-turbo interpolates it.
        assert own.mean() < 1.5
        assert np.percentile(own[BORDER:-BORDER, BORDER:-BORDER], 99) <= 12


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_consumer_on_another_stream_sees_whole_batches(dataset: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    arguments: dict[str, Any] = {"transforms": [*TRAINING, Normalize()], "dtype": dtype}
    expected = [batch.image.sum(dtype=torch.float64).item() for batch in torch_batches(dataset, **arguments)]
    found = []
    settings: dict[str, Any] = {"batch_size": 24, "engine": "dali", "device": DEVICE, "output": "torch"}
    with stoker.ImageLoader(dataset, **image_arguments(**settings, **arguments)) as loader, consumer_stream():
        for batch in loader:
            fall_behind()
            found.append(batch.image.sum(dtype=torch.float64))
            del batch
        assert [value.item() for value in found] == expected


def test_images_stay_on_the_gpu(dataset: Path) -> None:
    batch = torch_batches(dataset, transforms=[*TRAINING, Normalize()])[0]
    assert batch.image.device.type == batch.label.device.type == DEVICE.partition(":")[0]
    assert batch.image.dtype.is_floating_point


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_float_type_is_made_on_the_gpu(dataset: Path, dtype: str) -> None:
    images = torch_batches(dataset, transforms=[*TRAINING, Normalize()], dtype=dtype)[0].image
    assert str(images.dtype) == f"torch.{dtype}"
    assert abs(float(images.float().mean())) < 3


def test_two_passes_show_the_same_pixels(dataset: Path) -> None:
    first, second = (torch_batches(dataset, transforms=TRAINING, shuffle=True, seed=3)[0] for _ in range(2))
    assert bool((first.image == second.image).all())
    assert bool((first.label == second.label).all())


@pytest.mark.filterwarnings("ignore:a bad sample was")
@pytest.mark.parametrize("at", [0, 3, 7])
def test_a_bad_sample_is_skipped_and_its_neighbours_are_whole(
    pack_images: Callable[..., Path], photographs: list[Path], at: int
) -> None:
    whole = pack_images([file.read_bytes() for file in photographs[:8]])
    broken = pack_images(damaged(photographs, at))
    expected = torch_batches(whole, batch_size=8, transforms=EVALUATION)[0].image
    found = torch_batches(broken, batch_size=8, transforms=EVALUATION, on_error="skip")[0].image
    kept = [i for i in range(8) if i != at]
    # Which images go to the hardware decoder, whose rounding is its own, depends on the others.
    assert float((found.float() - expected[kept].float()).abs().mean()) < 1


def test_a_bad_sample_is_named(pack_images: Callable[..., Path], photographs: list[Path]) -> None:
    with pytest.raises(SampleError, match="k3"):
        torch_batches(pack_images(damaged(photographs, 3)), batch_size=8, transforms=EVALUATION)


@pytest.mark.parametrize("load", [0.0, 1.0])
def test_pixels_do_not_depend_on_the_other_images_of_a_batch(dataset: Path, load: float) -> None:
    options = stoker.DaliOptions(hw_decoder_load=load)
    arguments: dict[str, Any] = {"transforms": EVALUATION, "dali": options}
    together = torch_batches(dataset, batch_size=24, **arguments)[0].image
    alone = torch_batches(dataset, batch_size=5, **arguments)
    for number, batch in enumerate(alone[:4]):
        assert bool((batch.image == together[5 * number : 5 * number + 5]).all())


def test_one_pipeline_is_built_for_a_plan(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    make = BuiltPipeline.__init__

    def noted(*arguments: Any) -> None:
        built.append(arguments)
        make(*arguments)

    monkeypatch.setattr(BuiltPipeline, "__init__", noted)
    some = [RandomResizedCrop(64), RandomVerticalFlip(0.2), augment.RandomGrayscale(0.2)]
    torch_batches(dataset, batch_size=4, transforms=some)
    assert len(built) == 1


def test_cuda_works_in_a_child_after_gpus_were_counted(dataset: Path) -> None:
    """In a process of its own, as this one has started CUDA."""
    program = f"""
import os
import stoker
from stoker.augment import CenterCrop
options = {{"batch_size": 4, "transforms": [CenterCrop(32)], "output": "torch"}}
with stoker.ImageLoader({str(dataset)!r}, engine="native", **options) as loader:
    next(iter(loader))
child = os.fork()
if not child:
    with stoker.ImageLoader({str(dataset)!r}, engine="dali", device={DEVICE!r}, **options) as loader:
        next(iter(loader)).image.sum().item()
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_cuda
def test_a_framework_that_holds_the_memory_is_named(dataset: Path) -> None:
    """In a process of its own, whose memory a tensor takes, as TensorFlow would."""
    program = f"""
import sys, types
import torch
import stoker
from stoker.augment import CenterCrop
from stoker.errors import EngineError
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
torch.zeros(1, device="cuda")
free, _ = torch.cuda.mem_get_info()
taken = torch.empty(free - (8 << 20), dtype=torch.uint8, device="cuda")
try:
    stoker.ImageLoader({str(dataset)!r}, engine="dali", device="cuda:0", output="torch", batch_size=64,
                       transforms=[CenterCrop(224)])
except EngineError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert "cuda:0 has too little memory for DALI" in done.stdout, done.stderr[-2000:]
    assert "set_memory_growth" in done.stdout


def test_memory_is_flat_over_many_batches(dataset: Path) -> None:
    pytest.importorskip("torch")
    used = []
    with stoker.ImageLoader(
        dataset,
        batch_size=32,
        shuffle=True,
        engine="dali",
        device=DEVICE,
        output="torch",
        transforms=[*TRAINING, Normalize()],
    ) as loader:
        batches = 0
        while batches < (1000 if ON_GPU else 30):
            batches += sum(1 for _ in loader)
            used.append(memory_in_use())
    warm = used[len(used) // 4 :]
    assert max(warm) - min(warm) < 256 << 20
