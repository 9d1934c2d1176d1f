"""The parts of the DALI engine that no other engine has: pipelines, their decoders, and refusals."""

from __future__ import annotations

import io
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.dali import FLIPPED, PLAIN, images, work
from helpers.images import PNG, TURNED, work_of
from helpers.loaders import image_arguments, settings_of
from nvidia.dali import backend
from nvidia.dali.ops import ExternalSource
from PIL import Image

import stoker
from stoker import augment
from stoker.augment import (
    CenterCrop,
    Pad,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    compile_image,
)
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Status, open_shards
from stoker.pipeline.engines.dali.engine import BuiltPipeline, DaliEngine
from stoker.pipeline.engines.dali.inputs import DaliBatch, Payloads, PipelineSpec, read_payloads
from stoker.pipeline.engines.dali.pipeline import define_pipeline
from stoker.pipeline.options import DaliOptions

pytest.importorskip("nvidia.dali")


PADDED = [Resize((6, 6)), CenterCrop(8)]
SHORT_MIX = augment.AugMix(mixture_width=1, chain_depth=1)


def test_batches_of_different_pipelines_leave_in_the_order_of_their_submission(
    opened: Dataset, make: Callable[..., DaliEngine]
) -> None:
    lists: list[list[Any]] = [PLAIN, FLIPPED, PADDED, PLAIN, FLIPPED]
    works = [work(opened, 4 * i, transforms) for i, transforms in enumerate(lists)]
    together = images(make(depth=5), *works)
    alone = [images(make(), batch)[0] for batch in works]
    assert all(np.array_equal(left, right) for left, right in zip(together, alone, strict=True))


def test_batches_of_one_pipeline_may_differ_in_length(
    opened: Dataset, make: Callable[..., DaliEngine]
) -> None:
    works = [work(opened, 0, PLAIN), work(opened, 4, PLAIN, 3), work(opened, 7, PLAIN, 1)]
    assert [len(batch) for batch in images(make(depth=3), *works)] == [4, 3, 1]


def operators(spec: PipelineSpec, **options: Any) -> list[Any]:
    """The operators of a pipeline on a GPU. DALI lists them in no public way, and runs them only on one."""
    pipeline = define_pipeline(
        spec, EngineSettings((), (), max_pixels=1, device="cuda:0", **options), batch_size=4
    )
    pipeline._build_graph()
    return [node._op for node in pipeline._ops if not isinstance(node._op, ExternalSource)]


@pytest.mark.parametrize(
    "transforms",
    [
        [Pad(2), RandomVerticalFlip()],
        [augment.RandomPerspective(0.9, p=1, fill=(1, 2, 3)), augment.ColorJitter(0.4, 0.4), SHORT_MIX],
        [augment.RandAugment(), augment.GaussianBlur(3), augment.RandomErasing()],
        *([augment.RandomResizedCrop(8, interpolation=name)] for name in ("nearest", "bicubic", "lanczos")),
        [augment.RandomChoice([Resize((8, 8), "nearest"), augment.RandomRotation(9)])],
        [augment.TrivialAugmentWide(), augment.ColorJitter(hue=0.1), augment.RandomErasing()],
        [augment.AutoAugment(), augment.RandomEqualize(), augment.RandomAutocontrast()],
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("encoded", [True, False])
def test_every_operator_of_a_pipeline_exists_on_a_gpu(
    transforms: list[Any], encoded: bool, dtype: Any
) -> None:
    """DALI checks arguments before it looks for a GPU, but not whether an operator has a GPU version."""
    sides = np.full(64, 8)  # of as many samples as meet most operations of a policy
    params = compile_image([CenterCrop(8), *transforms], dtype).draw(sides, sides, np.arange(64), 0, 0)
    spec = PipelineSpec.of(params, encoded=encoded)
    used = {(node.device, node.schema_name) for node in operators(spec, image_format=ImageFormat(dtype))}
    names = {"cpu": "CPU", "mixed": "Mixed", "gpu": "GPU"}
    registered = {device: getattr(backend, f"Registered{name}Ops")() for device, name in names.items()}
    assert not [(device, name) for device, name in used if name not in registered[device]]
    assert ("gpu", "CropMirrorNormalize") in used


@pytest.mark.parametrize("folder", ["thumbnails", "squares"])
@pytest.mark.parametrize("transforms", [PADDED, [Resize((8, 8)), augment.RandomRotation(9), SHORT_MIX]])
def test_a_batch_of_black_pixels_alone_is_executed(
    folder: str, transforms: list[Any], request: pytest.FixtureRequest
) -> None:
    """A pipeline on a GPU begins with a whole batch of them."""
    dataset = open_dataset(request.getfixturevalue(folder))
    settings = settings_of(dataset, ImageFormat("uint8", "NHWC"), batch_size=4, max_pixels=10**6)
    params, samples = work(dataset, 0, transforms).params, dataset.samples(np.arange(4))
    with closing(open_shards(settings.files, settings.sizes)) as shards:
        encoded = bool((samples.codec == Codec.JPEG).any())
        payloads = read_payloads(shards, samples, settings)
        batch = DaliBatch(PipelineSpec.of(params, encoded=encoded), params, payloads)
        pipeline = BuiltPipeline(batch, settings)
        for n in (4, 1, 3):
            pipeline.start(batch.black(n))
            pixels = pipeline.finish()
            assert len(pixels) == n
            assert not pixels.any()


def test_images_outlive_the_engine(opened: Dataset, make: Callable[..., DaliEngine]) -> None:
    engine = make()
    held = [images(engine, work(opened, 4 * i, PLAIN))[0] for i in range(8)]
    copies = [array.copy() for array in held]
    images(engine, work(opened, 40, PLAIN))
    engine.close()
    engine.close()
    assert all(np.array_equal(array, copy) for array, copy in zip(held, copies, strict=True))


class TestPipelinesDoNotMultiply:
    @pytest.fixture
    def kept(self) -> Callable[[], set[BuiltPipeline]]:
        """``kept()``: the pipelines that the test has built and that an engine still has."""
        before = weakref.WeakSet(BuiltPipeline.alive)
        return lambda: {pipeline for pipeline in BuiltPipeline.alive if pipeline not in before}

    def test_what_batches_happen_to_need_builds_no_pipeline_after_a_typical_batch(
        self, opened: Dataset, make: Callable[..., DaliEngine], kept: Callable[[], set[BuiltPipeline]]
    ) -> None:
        transforms: list[Any] = [Resize((8, 8)), RandomVerticalFlip(0.2), augment.RandomGrayscale(0.2)]
        engine = make(typical=work(opened, 0, transforms, 61))
        first = kept()
        assert len(first) == 1
        works = [work(opened, 2 * i, transforms, 2) for i in range(12)]
        assert len({PipelineSpec.of(batch.params) for batch in works}) > 2
        made = images(engine, *works[:2]) + [images(engine, batch)[0] for batch in works[2:]]
        assert kept() == first
        for batch, pixels in zip(works, made, strict=True):
            (expected,) = images(make(), batch)
            assert np.abs(pixels.astype(int) - expected).max() <= 1

    def test_a_bad_sample_builds_no_pipeline(
        self, opened: Dataset, make: Callable[..., DaliEngine], kept: Callable[[], set[BuiltPipeline]]
    ) -> None:
        engine = make()
        images(engine, work(opened, 0, PLAIN))
        first = kept()
        bad = work(opened, 4, PLAIN)
        bad.samples.crc[1] ^= 1
        engine.submit(bad)
        result = engine.collect()
        assert result.status.tolist() == [0, Status.CHECKSUM_MISMATCH, 0, 0]
        assert not result.images[1].any()
        assert kept() == first

    def test_three_pipelines_of_five_are_kept(
        self, opened: Dataset, make: Callable[..., DaliEngine], kept: Callable[[], set[BuiltPipeline]]
    ) -> None:
        engine = make(depth=5)
        works = [work(opened, 0, [Resize((8, width))]) for width in (4, 5, 6, 7, 8)]
        assert [array.shape[2] for array in images(engine, *works)] == [4, 5, 6, 7, 8]
        assert len(kept()) == 3


class TestDecoding:
    def graph(self, **options: Any) -> dict[str, dict[str, Any]]:
        """Arguments of the operators of a pipeline on a GPU, by name."""
        sides = np.full(4, 64)
        params = compile_image([RandomResizedCrop(8)], "uint8").draw(sides, sides, np.arange(4), 0, 0)
        nodes = operators(PipelineSpec.of(params), image_format=ImageFormat("uint8"), **options)
        return {node.schema_name: dict(node._init_args) for node in nodes}

    def test_regions_are_not_decoded_on_a_gpu_unless_asked_for(self) -> None:
        assert "decoders__ImageSlice" not in self.graph()
        assert {"decoders__Image", "Slice"} <= set(self.graph())
        asked = self.graph(dali=DaliOptions(region_decode=True))
        assert "decoders__ImageSlice" in asked
        assert "decoders__Image" not in asked

    def test_the_decoder_gets_its_options(self) -> None:
        plain = self.graph()["decoders__Image"]
        assert plain["hw_decoder_load"] == 1.0
        assert plain["jpeg_fancy_upsampling"] is False
        assert "preallocate_width_hint" not in plain
        changed = self.graph(dali=DaliOptions(hw_decoder_load=0), largest=(300, 400))["decoders__Image"]
        assert changed["hw_decoder_load"] == 0.0
        assert (changed["preallocate_height_hint"], changed["preallocate_width_hint"]) == (300, 400)

    @pytest.mark.parametrize("transforms", [[RandomResizedCrop(16)], [Resize(20), CenterCrop(16)]])
    def test_whole_images_show_the_pixels_of_regions(self, dataset: Path, transforms: list[Any]) -> None:
        """The decoder of DALI on a CPU decodes regions bit for bit."""
        arguments: dict[str, Any] = {"batch_size": 8, "transforms": transforms, "engine": "dali"}

        def image(region: bool) -> Any:
            options = DaliOptions(region_decode=region)
            with stoker.ImageLoader(
                dataset, **image_arguments(dali=options, device="cpu", **arguments)
            ) as loader:
                return next(iter(loader)).image

        assert np.array_equal(image(region=True), image(region=False))


pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

CROPS = [RandomResizedCrop(24, scale=(0.05, 0.4)), RandomHorizontalFlip(), RandomVerticalFlip()]


def read(dataset: Dataset, samples: Samples, crops: Any, file: Path | None = None) -> Payloads:
    """The payloads of samples, from the shard of the dataset or from another file."""
    files = [file] if file else dataset.data_files
    settings = EngineSettings(files, dataset.data_sizes, ImageFormat(), max_pixels=10**6)
    boxes = None if crops is None else np.array(crops, np.int32)
    with closing(open_shards(settings.files, settings.sizes)) as shards:
        return read_payloads(shards, samples, settings, boxes)


def test_the_payload_of_a_crop_is_a_shorter_jpeg(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    batch = work_of(dataset, CROPS, 0)
    crops, whole = (read(dataset, batch.samples, boxes) for boxes in (batch.params.crop, None))
    assert whole.origin is not None
    assert not whole.origin.any()
    for number, (crop, payload) in enumerate(zip(crops.encoded(), whole.encoded(), strict=True)):
        is_spliced = number not in (TURNED, PNG)
        assert (len(crop) < len(payload)) == is_spliced
        if is_spliced:
            with Image.open(io.BytesIO(crop)) as image:
                assert min(image.size) >= 1


def test_damage_is_found_only_if_the_crop_needs_the_damaged_bytes(
    datasets: dict[bool, Dataset], tmp_path: Path
) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.zeros(1, np.int64))
    assert samples.bands is not None
    (file,) = dataset.data_files
    data = bytearray(file.read_bytes())
    data[int(samples.offset[0] + samples.length[0]) - 10] ^= 1  # in the last rows
    (tmp_path / "shard").write_bytes(data)
    height, width = int(samples.height[0]), int(samples.width[0])
    for crop, status in (
        ((0, 0, 9, 9), Status.OK),
        ((height - 9, 0, 9, 9), Status.CHECKSUM_MISMATCH),
        ((0, 0, height, width), Status.CHECKSUM_MISMATCH),
    ):
        assert read(dataset, samples, [crop], tmp_path / "shard").status().tolist() == [status]
