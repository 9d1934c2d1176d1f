"""The loader of images."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from stoker.formats.codecs.header import MAX_PIXELS

from .. import adapters
from ..caching.cache_prefetcher import make_cache_prefetcher, resolve
from ..engines.base import EngineSettings
from ..engines.devices import device_name, this_machine
from ..engines.registry import make_engine
from ..engines.selection import plan_execution
from ..execution.arguments import optional_number, whole_number
from ..execution.loader import Loader
from ..execution.ranks import find_ranks
from ..execution.state import in_epochs_of
from ..order.schedule import LastBatch, Schedule
from .batch import made_by_functions
from .config import OnError, make_config
from .objects import ObjectConfig, ObjectForm
from .producer import ImageBatchProducer

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from stoker.augment.geometry.boxes import BoxFormat

    from ..engines.base import DType, Layout
    from ..execution.batch import ColumnSpec
    from ..order.epoch_order import BlockShuffle
    from ..order.sample_source import SampleSource
    from ..order.sampling import Sampler
    from .batch_transforms import AnyTransform

__all__ = ["ImageLoader"]


class ImageLoader(Loader):
    """Feeds decoded, augmented batches of images to a training loop, working ahead of it.

    Each pass over the loader is one epoch, the next pass the next one. Leaving a pass early ends it. A
    batch does not depend on threads, prefetching or engine: it is a function of seed, epoch and step.

    Args:
        dataset: A dataset or the path of one, or several mixed by :func:`stoker.mix`; with ``cache``, the URL
            of one. What lies elsewhere of datasets that :func:`stoker.open` opened with a cache is fetched
            ahead, too.
        batch_size: Samples a batch on this rank.
        transforms: What happens to the images, see :mod:`stoker.augment`; they must end in one size. Behind
            them transforms of batches (MixUp, CutMix, Mosaic, or a RandomChoice of these, which draws one for
            the batch), and behind those functions of your own: each takes the batch's images as they are
            handed out and returns as many.
        shuffle: False for the order of the index, True for a full shuffle, or a
            :class:`~stoker.pipeline.order.epoch_order.BlockShuffle` for storage that wants long reads.
        sampler: What an epoch draws, if not every sample once: :class:`~stoker.Weighted`,
            :class:`~stoker.ClassBalanced`, :class:`~stoker.Repeated`, or a sampler of your own.
        steps_per_epoch: Make a pass this many steps of an infinite stream of draws, which goes on from pass
            to pass; by default a pass is all draws once.
        seed: Decides the order and every random parameter.
        rank: This rank; by default found from torch.distributed, JAX, or the launcher's environment.
        world_size: Number of ranks, likewise.
        last_batch: "partial" hands out a short last batch, "drop" leaves it out, "pad" fills it and adds a
            column ``mask``, (N,) bool, False where a sample is padding.
        engine: "native" (C++), "dali", "reference" (Pillow and NumPy: slow, and executes all transforms), or
            "auto": dali where there are a GPU and DALI, else native; reference where the transforms need it.
        device: Where batches are wanted, "cpu", "cuda:N", or a device of PyTorch or JAX; by default where
            the engine leaves them.
        output: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet"; or "keras": arrays of its backend,
            and a loader that ``model.fit``, ``evaluate`` and ``predict`` take.
        columns: What a batch holds: "image", "label", "row" (position in the index), "key" (name in the
            source), "mask", and any further column of numbers of the index; of annotated datasets "boxes",
            "box_labels", "crowd", "area", "object_id", "keypoints", "masks" (of objects, 0 or 1), and
            "segmentation". "label" is (N,) int64, or (N, classes) float32 where samples have several, or
            where a transform mixes them.
        objects: How columns of objects leave: "ragged", a list of N arrays, (M, ...) for a sample of M
            objects; or "padded" with zeros to (N, most, ...), with a column ``count``, (N,) int64.
        box_format: "XYXY" (left, top, right, bottom), "XYWH" or "CXCYWH", pixels of the output.
        min_visible: Objects of whose box a smaller share is seen are dropped, 0 to 1. Of what is not seen at
            all nothing is left in any case.
        min_size: Objects whose box is narrower or lower are dropped, pixels of the output.
        dtype: "uint8", "float32", "float16" or "bfloat16"; by default what the transforms end in. Floats
            are in 0..1 before Normalize, as torchvision's ``ToDtype(scale=True)`` makes them.
        layout: "NCHW", "NHWC", or "NHWC4", which pads the channels to four.
        num_threads: Engine threads; by default the cores this process may use, shared with the other
            ranks of this machine.
        prefetch: Batches that may be ready or in flight ahead of the consumer, from 1.
        read_ahead: Batches whose bytes the kernel is asked for before they are started; 0 for none. The
            default covers half a second of work at a thousand images a second.
        on_error: What a bad sample does: "raise" an error that names it, "skip" leaves it out of its batch,
            "replace" puts the next good sample of the batch in its place.
        max_pixels: Images with more are bad samples; checked before anything is decoded.
        verify: Compare every payload with its checksum.
        mapped: Map the shards; False reads each payload instead, as suits network file systems, where a
            file that shrinks under a mapping ends the process.
        pin_memory: Make the batches of ``output="torch"`` in page-locked memory, from which
            ``.to("cuda", non_blocking=True)`` copies while the processor goes on. With ``device="cuda:N"``
            the native engine does so anyway, and the copy runs on a stream of its own.
        cache: Folder on a local disk for what is fetched of a dataset at a URL (or on a network file
            system), in the order in which it is needed; ranks of one machine share it.
        cache_size: Bytes that it may have about, such as ``"200GB"``; what lies behind is evicted. None for
            any number.

    Raises:
        ConfigError: An argument cannot be meant as given.
        DatasetError: The path is no dataset that can be read.
        MissingDependencyError: The engine or the output needs a package that is not installed.
    """

    def __init__(
        self,
        dataset: SampleSource | str | os.PathLike[str],
        *,
        batch_size: int,
        transforms: Sequence[AnyTransform] = (),
        shuffle: bool | BlockShuffle = False,
        sampler: Sampler | None = None,
        steps_per_epoch: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        last_batch: LastBatch = "partial",
        engine: str = "auto",
        device: Any = None,
        output: str = "numpy",
        columns: Sequence[str] = ("image", "label"),
        objects: ObjectForm = "ragged",
        box_format: BoxFormat = "XYXY",
        min_visible: float = 0.0,
        min_size: float = 0.0,
        dtype: DType | None = None,
        layout: Layout = "NCHW",
        num_threads: int | None = None,
        prefetch: int = 4,
        read_ahead: int = 8,
        on_error: OnError = "raise",
        max_pixels: int = MAX_PIXELS,
        verify: bool = True,
        mapped: bool = True,
        pin_memory: bool = False,
        cache: str | os.PathLike[str] | None = None,
        cache_size: str | int | None = None,
    ) -> None:
        batch_size = whole_number("batch_size", batch_size, 1)
        steps_per_epoch = optional_number("steps_per_epoch", steps_per_epoch, 1)
        num_threads = optional_number("num_threads", num_threads, 1)
        max_pixels = whole_number("max_pixels", max_pixels, 1)
        self._ranks = find_ranks(rank, world_size)
        self._batch_size = batch_size
        self._read_ahead = whole_number("read_ahead", read_ahead, 0)
        self._last_batch: LastBatch = last_batch
        self._is_stream = steps_per_epoch is not None
        self._config = make_config(
            resolve(dataset, cache, cache_size),
            transforms,
            shuffle=shuffle,
            sampler=sampler,
            samples_per_epoch=steps_per_epoch and steps_per_epoch * batch_size * self._ranks.world_size,
            seed=whole_number("seed", seed),
            last_batch=last_batch,
            columns=columns,
            dtype=dtype,
            layout=layout,
            on_error=on_error,
            objects=ObjectConfig(
                form=objects, box_format=box_format, min_visible=min_visible, min_size=min_size
            ),
        )
        super().__init__(self._ranks, self._config.identity, self._config.order.n, prefetch)
        adapters.specialize_loader(self, output)
        framework = adapters.framework_of(output)
        plan = plan_execution(
            engine,
            device_name(device),
            needs=self._config.plan.needs,
            machine=this_machine(),
            ranks=self._ranks,
            framework_sees_gpu=lambda: adapters.sees_gpu(framework),
            copies_from_pinned=framework.pins_memory,
            pin_memory=pin_memory,
            num_threads=num_threads,
            batch_size=batch_size,
            prefetch=self._prefetch,
        )
        self._cache_prefetcher = make_cache_prefetcher(self._config.dataset)
        self._adapter = adapters.load(framework, plan.placement)
        self._engine = make_engine(
            plan.engine,
            EngineSettings(
                [str(path) for path in self._config.dataset.data_files],
                self._config.dataset.data_sizes,
                self._config.output,
                device=plan.engine_device,
                num_threads=plan.num_threads,
                depth=plan.depth,
                batch_size=batch_size,
                max_pixels=max_pixels,
                verify=verify,
                mapped=mapped,
                allocate=self._adapter.allocate,
            ),
        )
        self._annotations = self._config.annotations.processor(self._config.dataset, plan.num_threads)

    def __repr__(self) -> str:
        return (
            f"<ImageLoader of {self._config.dataset!r}: {len(self)} batches of {self._batch_size}, "
            f"engine {self._engine.name} on {self._engine.device}, "
            f"rank {self._ranks.rank} of {self._ranks.world_size}>"
        )

    @property
    def dataset(self) -> SampleSource:
        """What is drawn from."""
        return self._config.dataset

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return self._config.columns

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self._engine.name

    @property
    def device(self) -> str:
        """Where the engine leaves images, "cpu" or "cuda:N"."""
        return self._engine.device

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Form of the columns of a batch, without the batch axis.

        Where functions of your own stand at the end of the transforms, they are called with a batch of zeros,
        once: they may make images of another shape or dtype.
        """
        return tuple(
            self._made_by_functions
            if name == "image" and self._config.batch_transform_plan.functions
            else self._config.spec(name)
            for name in self._config.columns
        )

    @cached_property
    def _made_by_functions(self) -> ColumnSpec:
        return made_by_functions(self._config, self._adapter, self._batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as a small JSON-able dict.

        It counts what the consumer has received, not what is ready. After a pass that was left early it
        names the next batch of that pass.
        """
        state = super().state_dict()
        return {**state, "samples_per_epoch": self._samples} if self._is_stream else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken: the next pass begins with exactly the next batch.

        The number of ranks, the batch size, the engine and the threads may be others than before. Where
        ``steps_per_epoch`` then makes epochs of another number of samples, a stream goes on where it was,
        in the epoch that this is with the new length.

        Raises:
            CheckpointError: The state belongs to another dataset or configuration; says what differs.
        """
        super().load_state_dict(in_epochs_of(self._samples, state))

    def _schedule(self, epoch: int, start: int) -> Schedule:
        ranks = self._ranks
        samples = self._config.order.n
        return Schedule(samples, self._batch_size, ranks.rank, ranks.world_size, self._last_batch, start)

    def _make_producer(self, schedule: Schedule, epoch: int) -> ImageBatchProducer:
        return ImageBatchProducer(
            self._config,
            schedule,
            epoch,
            engine=self._engine,
            annotations=self._annotations,
            adapter=self._adapter,
            totals=self._totals,
            read_ahead=self._read_ahead,
            cache_prefetcher=self._cache_prefetcher,
        )

    def _release(self) -> None:
        if self._cache_prefetcher:
            self._cache_prefetcher.close()
        self._engine.close()
        if self._annotations:
            self._annotations.close()
