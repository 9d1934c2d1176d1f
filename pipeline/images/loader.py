"""The loader of images: its arguments, and the parts of its pipeline that they make."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.arguments import optional_number, whole_number
from stoker.types import Color, DType, Layout

from .. import adapters
from ..execution.ranks import find_process
from ..execution.stats import StatsTotals, explain_slow_engine
from ..loader import Loader, given_arguments
from ..options import (
    BadSamples,
    DaliOptions,
    Objects,
    Pixels,
    Ranks,
    Reading,
    Seeds,
    check_option,
    check_unused,
)
from ..order.orders import BlockShuffle
from ..order.sampling import Sampler, SampleSource, open_source
from ..order.schedule import LastBatch
from .batch_transforms import Transforms
from .config import make_config
from .image_pipeline import ImagePipeline, choose_engine
from .planned_batches import check_crops
from .sizes import Sizes, make_size_plan

if TYPE_CHECKING:
    from ..batch_forms import BatchForm
    from .captions import Tokens


class ImageLoader(Loader):
    """Loads batches of decoded and augmented images for a training loop, ahead of the step that needs them.

    Iterating over the loader runs one epoch; iterating again runs the next one. A batch is a named tuple of
    columns: ``images, labels = batch``, ``batch.image`` and ``batch["image"]`` work. Leaving the loop early
    ends the epoch; only a look at one batch before the first epoch does not.
    After an error of the loader the next iteration goes on with the batch that was not received. The loader's
    threads end when nothing refers to the loader, at :meth:`close`, or at the end of a ``with`` block.

    A batch is a function of the dataset, the transforms, the seed, the epoch and the step. It does not depend
    on threads, prefetching or timing, and engines differ only by rounding.

    Args:
        dataset: Folder of a dataset, or what :func:`stoker.open` or :func:`stoker.mix` returns. With
            a cache it may be the URL of a dataset. ``shards/train@3`` is version 3 of one.
        batch_size: Samples of a batch on this rank; or :class:`stoker.Pixels`, the pixels of a batch.
        classes: Names of the classes of images or shards that are read in place, label 0 first, such as
            ``train.dataset.classes`` for the images to validate on; see :func:`stoker.open`.
        transforms: List of transforms from :mod:`stoker.augment`, which decide what happens to each image.
            All images must leave them in one size. Transforms of batches (MixUp, CutMix, or a
            RandomChoice of these) may follow, and functions of your own after those. A function takes the
            images of a batch as the loader would return them, and returns as many images, of any shape and
            dtype; :class:`stoker.augment.AllColumns` holds one that takes all columns. A mapping of names to
            lists of transforms of images, or to :class:`stoker.augment.Views`, makes an image column for
            each name. One decoding serves all of them; see the guide to views.
        sizes: Sizes of the images, if not all batches have one. See the guide to sizes.

            - ``{0: 160, 10: 192}``: by the first epoch with each size, which is the side of a square or
              (height, width). :class:`stoker.RandomSizes`: by step. :class:`stoker.AspectBuckets`: batches of
              few shapes. The size replaces that of the last crop or resize among the transforms.
            - :class:`stoker.Patches`: packed rows of patches. ``batch_size`` counts rows, and the columns are
              "patches", "segment_ids", "patch_positions", "cu_seqlens", "label", "row" and "mask".
            - "padded", or :class:`stoker.Padded`, pads the images of a batch with zeros to the largest, and
              adds a column ``image_size``, (N, 2) int64, heights and widths. "ragged", or
              :class:`stoker.Ragged`, returns lists of images, and of masks.
        shuffle: False keeps the order of the index. True draws a random order of all samples. A
            :class:`stoker.BlockShuffle` reads long runs of samples, for storage that needs them.
        sampler: Which samples an epoch draws, if not every sample once: :class:`stoker.Weighted`,
            :class:`stoker.ClassBalanced`, :class:`stoker.Repeated`, or a sampler of your own.
        steps_per_epoch: Steps of an epoch. Epochs are then cut from an infinite stream of draws, and each
            goes on where the last one ended. None makes an epoch of all draws, once.
        seed: Integer that decides the order and every random parameter; or :class:`stoker.Seeds`, two seeds.
        last_batch: What happens to samples that do not fill a last batch. "partial" returns a smaller
            batch, "drop" leaves them out, and "pad" repeats samples and adds a column ``mask``, (N,) bool,
            False for each repeated sample. If fewer samples than ranks are left, "partial" gives some ranks
            an empty batch, and they warn once.
        engine: What decodes and transforms images: "native" (C++), "dali" (NVIDIA DALI), or "reference"
            (Pillow and NumPy; slow, and executes every transform). "auto" takes "dali" if ``device`` is a
            GPU, and DALI is installed and executes all the transforms; else "native"; and "reference" for
            transforms that neither executes. ``stoker bench --device cuda`` says which is faster. A
            :class:`stoker.DaliOptions` is "dali" with these options.
        device: Where the loader returns batches: "cpu", "cuda", "cuda:N", or a device object of PyTorch or
            JAX. "cuda" is the GPU of this rank. "pinned" is page-locked memory of the CPU, from which
            PyTorch's ``.to("cuda", non_blocking=True)`` copies in the background; for a GPU the loader itself
            copies through such memory, on a separate stream. None leaves batches where the engine makes them.
        output: Framework of the arrays: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet". "keras"
            returns arrays of Keras' backend, and ``fit``, ``evaluate`` and ``predict`` take the loader
            itself.
        batch_as: Form of a batch, if it is not the named tuple, which is also read as a mapping. "dict" is a
            dict of the columns; ``{"pixel_values": "image", "labels": "label"}`` also renames them. A
            function makes anything of the named tuple, in your thread. "transformers" takes
            the names of Hugging Face's image models, "torchvision-detection", "detr" and "ultralytics" make
            what these detectors take, with the columns that they need. See the guide to frameworks.
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
            - Any array column of the dataset, (N, ...), or as ``objects`` says; and ``<name>_shape``. Arrays
              are returned as they were written, whatever transforms do to the images.
            - In annotated datasets, for each sample with M objects: "boxes" (M, 4) float32, "box_labels" (M,)
              int64, "crowd" (M,) bool, "area" (M,) float32, "object_id" (M,) int64, "keypoints" (M, K, 3)
              float32, "corners" (M, 4, 2) float32, "masks" (M, H, W) uint8, 0 or 1. "segmentation" is
              (N, H, W), uint8 or int64: the stored class masks, or else masks drawn from those of objects as
              in torchvision's references for segmentation. There 0 is the background, 1 + label an object,
              and 255 a pixel where objects overlap, a crowd lies, or the image shows nothing of the source.
              With 255 classes or more, the masks are int64 and 65535 replaces 255.
            - With a mapping of transforms: "<name>" in place of "image", (V, N, 3, H, W) with V views of each
              sample; and these columns of annotated datasets, and "to_source", with the prefix "<name>_",
              which follow the images of that name.
        objects: Form of the columns of objects, and which objects they have: a :class:`stoker.Objects`. It
            also has the form of array columns. "padded" is short for ``Objects("padded")``.
        caption: Form of captions beside the images, a :class:`stoker.Tokens`: "caption" is then (N, L) int64,
            token ids of one of the captions of each sample, or a list of N arrays; and "caption_mask" is
            (N, L) bool, False at padding. With :class:`stoker.Patches` captions are packed, see the guide to
            sizes.
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
        ranks: How the processes of a training share the batches, a :class:`stoker.Ranks`. None finds the rank
            of this process.
        reading: How payloads are read and decoded, and the cache of a remote dataset: a
            :class:`stoker.Reading`.
        errors: What happens to bad samples, a :class:`stoker.BadSamples`. None raises an error.

    Raises:
        ConfigError: An argument is wrong, or two arguments do not fit each other.
        DatasetError: The path holds no dataset that can be read.
        MissingDependencyError: The engine or the framework needs a package that is not installed.
    """

    pipeline: ImagePipeline

    def __init__(
        self,
        dataset: SampleSource | str | os.PathLike[str],
        *,
        batch_size: int | Pixels,
        classes: Sequence[str] | None = None,
        transforms: Transforms = (),
        sizes: Sizes | None = None,
        shuffle: bool | BlockShuffle = False,
        sampler: Sampler | None = None,
        steps_per_epoch: int | None = None,
        seed: int | Seeds = 0,
        last_batch: LastBatch = "partial",
        columns: Sequence[str] | None = None,
        objects: Objects | str | None = None,
        caption: Tokens | None = None,
        dtype: DType | None = None,
        color: Color = "rgb",
        layout: Layout = "NCHW",
        output: str = "numpy",
        batch_as: BatchForm | None = None,
        device: Any = None,
        engine: str | DaliOptions = "auto",
        num_threads: int | None = None,
        prefetch: int = 4,
        ranks: Ranks | None = None,
        reading: Reading | None = None,
        errors: BadSamples | None = None,
    ) -> None:
        arguments = given_arguments(ImageLoader, locals())
        shared_by = check_option("ranks", ranks, Ranks) or Ranks()
        check_unused(shared_by, ("context", "balance"), "an ImageLoader")
        reads = check_option("reading", reading, Reading) or Reading()
        bad_samples = check_option("errors", errors, BadSamples) or BadSamples()
        forms = Objects(objects) if isinstance(objects, str) else objects  # type: ignore[arg-type]  # checked
        forms = check_option("objects", forms, Objects) or Objects()
        if batch_as is not None:
            from ..batch_forms import check_objects, usual_columns

            check_objects(batch_as, forms, output)
            columns = usual_columns(batch_as) if columns is None else columns
        seeds = (
            seed if isinstance(seed, Seeds) else Seeds(whole_number("seed", seed), whole_number("seed", seed))
        )
        prefetch = whole_number("prefetch", prefetch, 1)
        steps = optional_number("steps_per_epoch", steps_per_epoch, 1)
        threads = optional_number("num_threads", num_threads, 1)
        process, totals = find_process(shared_by), StatsTotals()

        def make_pipeline(source: SampleSource) -> ImagePipeline:
            plan = make_size_plan(sizes, batch_size, seeds.order)
            config = make_config(
                source,
                transforms,
                plan,
                shuffle=shuffle,
                sampler=sampler,
                samples_per_epoch=plan.samples(steps, process),
                seeds=seeds,
                last_batch=last_batch,
                columns=columns,
                objects=forms,
                caption=caption,
                dtype=dtype,
                color=color,
                layout=layout,
                bad_samples=bad_samples,
            )
            if sampler is None:  # a sampler may never draw small images
                check_crops(config)
            setup = choose_engine(
                config,
                process,
                output,
                engine=engine,
                device=device,
                num_threads=threads,
                prefetch=prefetch,
                reading=reads,
            )
            return ImagePipeline(config, setup, last_batch, totals)

        super().__init__(
            make_pipeline,
            open_source(dataset, "image", reads.cache, classes),
            arguments,
            process=process,
            totals=totals,
            prefetch=prefetch,
        )
        adapters.specialize_loader(self, output)
        if engine == "auto" and self.engine == "reference":
            explanation = explain_slow_engine(totals.slow_steps)
            warnings.warn(f"{explanation}; engine='reference' says that you accept this", stacklevel=2)

    def __repr__(self) -> str:
        return (
            f"<ImageLoader of {self.dataset!r}: {len(self)} batches of {self.pipeline.config.size_plan}, "
            f"engine {self.engine} on {self.device}, rank {self.process.rank} of {self.process.world_size}>"
        )

    @property
    def engine(self) -> str:
        """Name of the engine that runs: "native", "dali" or "reference"."""
        return self.pipeline.engine.name

    @property
    def device(self) -> str:
        """Device on which the engine makes images, "cpu" or "cuda:N"."""
        return self.pipeline.engine.device
