"""The loader of images: its arguments, and the parts that it makes of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stoker.arguments import optional_number, whole_number
from stoker.augment.geometry.boxes import BoxFormat
from stoker.formats.codecs.codec import MAX_PIXELS
from stoker.types import Color, DType, Layout

from .. import adapters
from ..caching.prefetcher import resolve
from ..cluster.ray_workers import RayWorkers
from ..engines.dali import DaliOptions
from ..execution.ranks import find_ranks
from ..order.orders import BlockShuffle
from ..order.sample_source import SampleSource
from ..order.sampling import Sampler
from ..order.schedule import LastBatch
from .arguments import ColumnArguments, EpochArguments, make_config
from .arrays import ArrayForm
from .bad_samples import OnError, make_bad_sample_policy
from .batch_transforms import Transforms
from .captions import Tokens
from .engine_images import EngineImages
from .engine_setup import EngineSetup, ReadOptions
from .objects import ObjectConfig, ObjectForm
from .sizes import Sizes, make_size_plan


class ImageLoader(EngineImages):
    """Loads batches of decoded and augmented images for a training loop, ahead of the step that needs them.

    Iterating over the loader runs one epoch; iterating again runs the next one. A batch is a named tuple of
    columns: ``images, labels = batch`` and ``batch.image`` both work. Leaving the loop early ends the epoch.
    After an error of the loader the next iteration goes on with the batch that was not received. The loader's
    threads end when nothing refers to the loader, at :meth:`close`, or at the end of a ``with`` block.

    A batch is a function of the dataset, the transforms, the seed, the epoch and the step. It does not depend
    on threads, prefetching or timing, and engines differ only by rounding.

    Args:
        dataset: Folder of a dataset, or what :func:`stoker.open` or :func:`stoker.mix` returns. With
            ``cache`` it may be the URL of a dataset. ``shards/train@3`` is version 3 of one.
        batch_size: Samples of a batch on this rank.
        pixels_per_batch: Pixels of a batch on this rank, in place of ``batch_size``. A batch has the samples
            that fit at its size, so the number of steps of an epoch depends on ``sizes``.
        transforms: List of transforms from :mod:`stoker.augment`, which decide what happens to each image.
            All images must leave them in one size. Transforms of batches (MixUp, CutMix, or a
            RandomChoice of these) may follow, and functions of your own after those. A function takes the
            images of a batch as the loader would hand them out, and returns as many images, of any shape and
            dtype; :class:`stoker.augment.AllColumns` holds one that takes all columns. A mapping of names to
            lists of transforms of images, or to :class:`stoker.augment.Views`, makes a column of images for
            each name. One decoding serves all of them; see the guide to views.
        sizes: Sizes of the images, if not all batches have one. See the guide to sizes.

            - ``{0: 160, 10: 192}``: by the first epoch with each size, which is the side of a square or
              (height, width). :class:`stoker.RandomSizes`: by step. :class:`stoker.AspectBuckets`: batches of
              few shapes. The size replaces that of the last crop or resize among the transforms.
            - :class:`stoker.Patches`: packed rows of patches. ``batch_size`` counts rows, and the columns are
              "patches", "segment_ids", "patch_positions", "cu_seqlens", "label", "row" and "mask".
            - "padded" pads the images of a batch with zeros to the largest, and adds a column ``image_size``,
              (N, 2) int64, heights and widths. "ragged" hands out lists of images, and of masks.
        pad_to_multiple_of: Height and width of a padded batch are multiples of this, pixels. None is 1.
        aspect_ratio_group_factor: Groups of aspect ratios from which padded and ragged batches are drawn, as
            in torchvision's references for detection: 0 separates upright images from the others, and k makes
            2k + 2 groups. None draws batches from all images.
        shuffle: False keeps the order of the index. True draws a random order of all samples. A
            :class:`stoker.BlockShuffle` reads long runs of samples, for storage that needs them.
        sampler: Which samples an epoch draws, if not every sample once: :class:`stoker.Weighted`,
            :class:`stoker.ClassBalanced`, :class:`stoker.Repeated`, or a sampler of your own.
        steps_per_epoch: Steps of an epoch. Epochs are then cut from an infinite stream of draws, and each
            goes on where the last one ended. None makes an epoch of all draws, once.
        seed: Integer that decides the order and every random parameter.
        draw_seed: Integer that decides the random parameters in place of ``seed``. Loaders that differ only
            in ``draw_seed`` show different crops of the same samples in the same order.
        rank: Rank of this process. None finds it with torch.distributed, JAX, or the launcher's environment
            variables. Give both ``rank`` and ``world_size``, or neither.
        world_size: Number of ranks.
        mesh: DeviceMesh of PyTorch that tells the rank, in place of ``rank`` and ``world_size``: the
            dimensions along which batches differ, such as ``mesh["dp"]``.
        replicate: Processes in a row that receive the same batches, such as those of tensor parallelism.
        last_batch: What happens to samples that do not fill a last batch. "partial" hands out a smaller
            batch, "drop" leaves them out, and "pad" repeats samples and adds a column ``mask``, (N,) bool,
            False for each repeated sample. If fewer samples than ranks are left, "partial" gives some ranks
            an empty batch, and they warn once.
        engine: What decodes and transforms images: "native" (C++), "dali" (NVIDIA DALI), or "reference"
            (Pillow and NumPy; slow, and executes every transform). "auto" takes "dali" if ``device`` is a
            GPU, and DALI is installed and executes all the transforms; else "native"; and "reference" for
            transforms that neither executes. ``stoker bench --device cuda`` says which is faster.
        device: Where batches are handed out: "cpu", "cuda", "cuda:N", or a device object of PyTorch or JAX.
            "cuda" is the GPU of this rank. None leaves batches where the engine makes them.
        dali: Options of the engine "dali", a :class:`stoker.DaliOptions`.
        output: Framework of the arrays: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet". "keras"
            hands out arrays of Keras' backend, and ``fit``, ``evaluate`` and ``predict`` take the loader
            itself.
        columns: Names of the columns of a batch of N samples. None takes "image" and, where samples have
            one, "label". With a mapping of transforms it takes its names in place of "image", and
            ``<name>_mask`` where patches are hidden.

            - "image": (N, 3, H, W), or as ``color`` and ``layout`` say, of the dtype ``dtype``.
            - "label": (N,) int64; (N, classes) float32 if samples have several labels or a transform mixes
              samples.
            - "row": (N,) int64, number of each sample in :attr:`dataset`, as its ``keys()`` and ``labels``
              count; ``dataset.rows[row]`` is its row in the index. "key": list of N names in the source.
            - "mask": (N,) bool, see ``last_batch``.
            - "to_source": (N, 3, 3) float64, leads from the images to their sources; "source_size": (N, 2)
              int64. See :func:`stoker.augment.to_source`.
            - Any column of numbers of the index, (N,), or of strings, list of N str, by its name.
            - Any array column of the dataset, (N, ...), or as ``arrays`` says; and ``<name>_shape``. Arrays
              are handed out as they were written, whatever transforms do to the images.
            - In annotated datasets, for each sample with M objects: "boxes" (M, 4) float32, "box_labels" (M,)
              int64, "crowd" (M,) bool, "area" (M,) float32, "object_id" (M,) int64, "keypoints" (M, K, 3)
              float32, "masks" (M, H, W) uint8, 0 or 1. "segmentation" is (N, H, W), uint8 or int64: the
              stored class masks, or else masks drawn from those of objects as in torchvision's references for
              segmentation. There 0 is the background, 1 + label an object, and 255 a pixel where objects
              overlap, a crowd lies, or the image shows nothing of the source. With 255 classes or more, the
              masks are int64 and 65535 replaces 255.
            - With a mapping of transforms: "<name>" in place of "image", (V, N, 3, H, W) with V views of each
              sample; and these columns of annotated datasets, and "to_source", with the prefix "<name>_",
              which follow the images of that name.
        objects: Form of the columns of objects. "ragged" hands out a list of N arrays. "padded" hands out one
            array, (N, largest M, ...), padded with zeros, and adds a column ``count``, (N,) int64.
        arrays: Form of array columns whose shapes differ between samples. "ragged" hands out a list of N
            arrays. "padded" hands out one array, padded with zeros at the ends of its sides, and adds a
            column ``<name>_shape``, (N, sides) int64.
        caption: Form of captions beside the images, a :class:`stoker.Tokens`: "caption" is then (N, L) int64,
            token ids of one of the captions of each sample, or a list of N arrays; and "caption_mask" is
            (N, L) bool, False at padding. With :class:`stoker.Patches` captions are packed, see the guide to
            sizes.
        box_format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height) or "CXCYWH" (center,
            width, height), in pixels of the output.
        min_visible: Share of an object's box, 0 to 1, that must be visible; other objects are dropped from
            all columns. An object that is not visible at all is always dropped.
        min_size: Least width and height of an object's box, pixels of the output; other objects are dropped.
        dtype: Dtype of the images: "uint8", "float32", "float16" or "bfloat16"; "uint16" where images are
            stored with 16 bits and ``color`` is "as_stored". None takes the dtype that the
            transforms end in. Floats are in 0..1 before Normalize, as torchvision's ``ToDtype(scale=True)``
            makes them.
        color: Channels of the images: "rgb", "gray" (one channel), "rgba" (four; alpha is 255 where an image
            has none), or "as_stored" (as many as the first image has; an image with another number is an
            error; arrays of ``.npy`` files may have any number, and floats). The last two allow crops,
            resizes, flips, padding, warps, ElasticTransform, RandomErasing, Normalize and SubtractMean, on
            the engines "native" and "reference". See the guide to pixels.
        layout: Axes of the images: "NCHW", "NHWC", or "NHWC4", which has a fourth channel of zeros.
        num_threads: Threads of the engine. None takes this rank's share of the cores that the process may
            use.
        prefetch: Batches that may be ready or in flight ahead of the step, from 1.
        read_ahead: Batches whose bytes the operating system is asked to read before the engine needs them; 0
            for none. The default covers half a second at a thousand images a second.
        on_error: What happens to a bad sample. "raise" raises an error that names it, "skip" leaves it out of
            its batch, and "replace" replaces it by the next good sample of the batch. The first bad sample
            is a warning, and ``stats()`` counts all.
        max_bad: Largest number of bad samples of an epoch on this rank that are skipped or replaced; one more
            is an error. A float is a share of the epoch, which counts from the hundredth sample on. None is
            0.01.
        max_pixels: An image with more pixels is a bad sample. Its header is checked before it is decoded.
        exact: Whether JPEGs are decoded at their full size. Otherwise the native engine decodes an image at a
            reduced size if it becomes at least four times smaller along both axes. That is faster and changes
            pixels a little; see the guide to augmentation. Use True for evaluations that you publish.
        verify: Whether every payload is compared with its checksum.
        mapped: Whether shards are mapped into memory. False reads each payload instead, which suits network
            file systems: a file that shrinks while it is mapped ends the process. Shards are then opened when
            they are needed, and at most 256 of them stay open.
        pin_memory: Whether ``output="torch"`` hands out batches in page-locked memory, from which
            ``.to("cuda", non_blocking=True)`` copies in the background. With ``device="cuda:N"`` the loader
            copies through page-locked memory by itself, on a separate stream.
        cache: Folder on a local disk that keeps what is fetched of a remote dataset. The loader fetches in
            the order of its batches. Ranks of one machine share a cache.
        cache_size: Size of the cache in bytes, or as text such as "200GB". None sets no limit. The loader
            first evicts what this epoch and the next one need last. In a few cases that the guide "Beyond one
            machine" names, it first evicts what was used least recently.
        workers: Processes on other machines that also make batches, a :class:`stoker.RayWorkers`. They do not
            change the batches; see the guide to clusters.

    Raises:
        ConfigError: An argument is wrong, or two arguments do not fit each other.
        DatasetError: The path holds no dataset that can be read.
        MissingDependencyError: The engine or the framework needs a package that is not installed.
    """

    def __init__(
        self,
        dataset: SampleSource | str | os.PathLike[str],
        *,
        batch_size: int | None = None,
        pixels_per_batch: int | None = None,
        transforms: Transforms = (),
        sizes: Sizes | None = None,
        pad_to_multiple_of: int | None = None,
        aspect_ratio_group_factor: int | None = None,
        shuffle: bool | BlockShuffle = False,
        sampler: Sampler | None = None,
        steps_per_epoch: int | None = None,
        seed: int = 0,
        draw_seed: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        replicate: int = 1,
        last_batch: LastBatch = "partial",
        engine: str = "auto",
        device: Any = None,
        dali: DaliOptions | None = None,
        output: str = "numpy",
        columns: Sequence[str] | None = None,
        objects: ObjectForm = "ragged",
        arrays: ArrayForm = "ragged",
        caption: Tokens | None = None,
        box_format: BoxFormat = "XYXY",
        min_visible: float = 0.0,
        min_size: float = 0.0,
        dtype: DType | None = None,
        layout: Layout = "NCHW",
        color: Color = "rgb",
        num_threads: int | None = None,
        prefetch: int = 4,
        read_ahead: int = 8,
        on_error: OnError = "raise",
        max_bad: int | float | None = None,
        max_pixels: int = MAX_PIXELS,
        exact: bool = False,
        verify: bool = True,
        mapped: bool = True,
        pin_memory: bool = False,
        cache: str | os.PathLike[str] | None = None,
        cache_size: str | int | None = None,
        workers: RayWorkers | None = None,
    ) -> None:
        ranks = find_ranks(rank, world_size, mesh, replicate)
        seed = whole_number("seed", seed)
        size_plan = make_size_plan(
            sizes,
            batch_size,
            pixels_per_batch,
            seed,
            pad_to_multiple_of=pad_to_multiple_of,
            aspect_ratio_group_factor=aspect_ratio_group_factor,
        )
        samples_per_epoch = size_plan.samples(optional_number("steps_per_epoch", steps_per_epoch, 1), ranks)
        draw_seed = seed if draw_seed is None else whole_number("draw_seed", draw_seed)
        object_config = ObjectConfig(frozenset(), objects, box_format, min_visible, min_size)
        self._config = make_config(
            resolve(dataset, cache, cache_size),
            transforms,
            size_plan,
            EpochArguments(shuffle, sampler, samples_per_epoch, seed, draw_seed, last_batch),
            ColumnArguments(columns, object_config, arrays, caption, dtype, layout, color),
            bad_samples=make_bad_sample_policy(on_error, max_bad),
        )
        super().__init__(self._config, ranks, last_batch, prefetch)
        adapters.specialize_loader(self, output)
        setup = EngineSetup(
            self._config,
            adapters.framework_of(output),
            ranks,
            engine=engine,
            device=device,
            dali=dali,
            num_threads=optional_number("num_threads", num_threads, 1),
            prefetch=self._prefetch,
            pin_memory=pin_memory,
            reading=ReadOptions(
                whole_number("max_pixels", max_pixels, 1), exact=exact, verify=verify, mapped=mapped
            ),
        )
        self._producers = setup.start(self._totals, read_ahead=whole_number("read_ahead", read_ahead, 0))
        self._use_workers(workers)
