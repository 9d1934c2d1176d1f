"""The loader of text: its arguments, and the parts of its pipeline that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.bucketing import Batchify, BatchSampler, BucketBoundaries, MaskTokens, SpanCorruption
from stoker.bucketing.batchify import Labels
from stoker.bucketing.groups import LastGroup
from stoker.errors import ConfigError

from .. import adapters
from ..engines.registry import choose_placement, device_name, numbered_device, this_machine
from ..execution.ranks import find_process
from ..execution.stats import StatsTotals
from ..loader import Loader, given_arguments
from ..options import (
    Buckets,
    MaxLength,
    MaxTokens,
    Packing,
    Ranks,
    Reading,
    Samples,
    Streams,
    check_option,
    check_unused,
)
from ..order.sampling import Sampler, SampleSource, open_source
from .batching import BatchingConfig
from .config import ids_dtype, make_config
from .text_pipeline import TextPipeline

if TYPE_CHECKING:
    from ..batch_forms import BatchForm


class TextLoader(Loader):
    """Loads batches of token ids for a training loop, ahead of the step that needs them.

    Batches hold samples of similar length, so that there is little padding, or packed rows with nearly none.
    Iterating over the loader runs one epoch; iterating again runs the next one. A batch is a named tuple of
    columns. At each step all ranks receive batches of one shape, and :meth:`shapes` lists the shapes before
    the first batch.

    A batch is a function of the dataset, the arguments, the seed, the epoch and the step.

    Args:
        dataset: Folder of a dataset that :func:`stoker.convert_text` made, or the result of
            :func:`stoker.open` or :func:`stoker.mix`. With a cache it may be the URL of a dataset.
            ``shards/text@3`` is version 3 of a dataset.
        batch_size: Samples of a batch on this rank, with ``pack`` its rows; or :class:`stoker.MaxTokens`, so
            that short samples make larger batches. Give it or ``batch_sampler``.
        batch_sampler: Function that makes a :class:`stoker.bucketing.BatchSampler`, such as
            ``partial(SortedBucketSampler, batch_size=32, window=50)``. It is called with the lengths of an
            epoch's samples, (n,) or (n, D) int64 for D fields, and the keyword arguments that all samplers
            have. The sampler's lengths decide batches and padding, and may be costs; they do not decide which
            tokens are read.
        buckets: Number of padded lengths, with the boundaries that pad least; or the boundaries, (K,) or
            (K, D) integers. None draws random batches and pads each to its longest sample, in any number of
            shapes. "auto" makes 8 buckets of one field. For several fields it makes windows of 100 batches,
            which a k-d split orders: they pad less and have many shapes. Give 8 for few shapes, such as for
            compilers. Packed rows have no
            buckets. :class:`stoker.Buckets` also pads to multiples.
        pack: Tokens of a row that holds several sequences. None gives each sample a row. With several fields
            it is one number for all or one for each; all sequences of a sample are in the same segment of the
            same row. :class:`stoker.Packing` also limits the sequences of a row. :class:`stoker.Streams`
            makes rows that go on in the next batch.
        max_length: Largest number of tokens of a sequence; the dataset must have no longer one. A
            :class:`stoker.MaxLength` truncates or splits longer ones. None sets no limit; ``pack`` and
            boundaries do.
        shuffle: Whether each epoch draws other batches. False keeps the order of the dataset: exactly
            with ``buckets=None``, and within each bucket; windows keep theirs. With a ``sampler`` each
            epoch draws other batches.
        sampler: Which samples an epoch draws, if not every sample once: :class:`stoker.Weighted`,
            :class:`stoker.ClassBalanced`, or your own sampler.
        steps_per_epoch: Steps of an epoch, as many samples as fill them; or :class:`stoker.Samples`, which
            batches without a fixed number of samples need. Epochs are then cut from an infinite stream of
            draws, and each goes on where the last one ended. None makes an epoch of all draws, once.
        seed: Integer, 0 to 2**64 - 1, that decides all draws.
        last_batch: What happens to samples that do not fill a batch. "drop" leaves them out of the epoch.
            "pad" repeats samples and adds a column ``mask``, (N,) bool, False for each repeated sample.
            "partial" makes smaller batches; to give all ranks one shape it may repeat fewer than
            ``world_size`` samples, which the column ``mask`` shows if you ask for it.
        output: Framework of the arrays: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet". "keras"
            returns arrays of Keras' backend, and ``fit``, ``evaluate`` and ``predict`` take the loader
            itself.
        batch_as: Form of a batch, if it is not the named tuple, which is also read as a mapping. "dict" is a
            dict of the columns; ``{"pixel_values": "image", "labels": "label"}`` also renames them. A
            function makes anything of the named tuple, in your thread.
        device: Where the loader returns batches: "cpu", "cuda", "cuda:N", or a device object of PyTorch or
            JAX. "cuda" is the GPU of this rank. "pinned" is page-locked memory of the CPU, see
            :class:`stoker.ImageLoader`. None leaves batches on the framework's default device.
        fields: Names of the fields to read. None reads all.
        columns: Names of the columns of a batch of N rows, each padded to length L:

            - "input_ids": (N, L), of the dtype ``dtype``; "attention_mask" (N, L); of packed rows
              "segment_ids" and "position_ids", (N, L); and the other arrays of :mod:`stoker.bucketing`.
              With several fields each name has the prefix ``<field>_``.
            - "mask": (N,) bool, see ``last_batch``.
            - "row": (N,) int64, number of each sample in :attr:`dataset`, as its ``keys()`` counts. For
            packed rows (N, the most sequences): ``row[i, s - 1]`` is the sample of segment s, and -1 means
            that there is no such segment.
            - Of rows that are not packed: "label", (N,) int64, where samples have classes; "key", list of N
              names in the source; any column of numbers of the index, (N,), or of strings, list of N str; and
              "dataset" of a mixture.

            None takes "input_ids" and "attention_mask", or of packed rows "input_ids", "segment_ids" and
            "position_ids".
        dtype: Dtype of token ids, "int32" or "int64". None takes int64 for PyTorch, whose losses need it, and
            int32 for other frameworks.
        prefetch: Batches that may be ready or in flight ahead of the step, from 1. Small batches of padded
            rows are made together, up to 131,072 tokens, and count as one.
        labels: Kind of the column "labels". "causal" models shift the labels themselves, so the first token
            of a sequence has the label -100. "seq2seq" are the targets of encoder-decoders, which predict the
            first token, too. Padding has the label -100. A :class:`stoker.bucketing.MaskTokens` hides tokens
            that the model is to restore, and a :class:`stoker.bucketing.SpanCorruption` makes "input_ids" and
            "labels" of one field. Each epoch draws others; the draws of a sample depend on the seed and the
            epoch alone. "labels" are then among the columns, with streams in place of "targets".
        batchify: Function that makes the arrays of a batch, for arrays that ``columns`` cannot name; see
            :mod:`stoker.bucketing`. It is called with a ``Ragged`` (with a ``Packed`` for packed rows, and
            with a dict of ``Ragged`` by field for several fields) and the padded length, and returns a dict
            of arrays. If it has a parameter ``context``, it also gets a
            :class:`~stoker.bucketing.BatchContext` with the epoch, the step and the rows of the batch.
            :class:`stoker.bucketing.PreferencePairs` makes pairs for DPO, planned by the longer of the two.
        ranks: How the processes of a training share the batches, a :class:`stoker.Ranks`, which also has
            slices for context parallelism and the balance of tokens. None finds the rank of this process.
        reading: Whether payloads are compared with their checksums, and the cache of a remote dataset: a
            :class:`stoker.Reading`.

    Raises:
        ConfigError: An argument is wrong, or two arguments do not fit each other.
        DatasetError: The path holds no dataset that can be read.
        MissingDependencyError: The framework is not installed.
    """

    pipeline: TextPipeline

    def __init__(
        self,
        dataset: SampleSource | str | os.PathLike[str],
        *,
        batch_size: int | MaxTokens | None = None,
        batch_sampler: Callable[..., BatchSampler] | None = None,
        buckets: int
        | BucketBoundaries
        | npt.NDArray[np.int64]
        | Sequence[int]
        | str
        | Buckets
        | None = "auto",
        pack: int | Sequence[int] | Packing | Streams | None = None,
        max_length: int | MaxLength | None = None,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        steps_per_epoch: int | Samples | None = None,
        seed: int = 0,
        last_batch: LastGroup = "partial",
        fields: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        labels: Labels | MaskTokens | SpanCorruption = "causal",
        batchify: Batchify | None = None,
        dtype: str | None = None,
        output: str = "numpy",
        batch_as: BatchForm | None = None,
        device: Any = None,
        prefetch: int = 4,
        ranks: Ranks | None = None,
        reading: Reading | None = None,
    ) -> None:
        arguments = given_arguments(TextLoader, locals())
        if batch_as is not None and columns is None:
            from ..batch_forms import usual_columns

            columns = usual_columns(batch_as)
        shared_by = check_option("ranks", ranks, Ranks) or Ranks()
        reads = check_option("reading", reading, Reading) or Reading()
        check_unused(reads, ("read_ahead", "mapped", "exact", "max_pixels"), "a TextLoader")
        prefetch = whole_number("prefetch", prefetch, 1)
        process, totals = find_process(shared_by), StatsTotals()
        framework = adapters.framework_of(output)
        pinned = isinstance(device, str) and device == "pinned"
        wanted = "cpu" if pinned else device_name(device)

        # A state of an earlier release may name other buckets.
        def make_pipeline(source: SampleSource, buckets: Any = buckets) -> TextPipeline:
            padding = buckets if isinstance(buckets, Buckets) else Buckets(buckets)
            packing = pack if isinstance(pack, (Packing, Streams)) else Packing(pack) if pack else None
            limit = max_length if isinstance(max_length, MaxLength) else MaxLength(max_length, "error")
            in_samples = None if isinstance(batch_size, MaxTokens) else batch_size
            batching = BatchingConfig(
                batch_size=in_samples,
                max_tokens=batch_size.number if isinstance(batch_size, MaxTokens) else None,
                batch_sampler=batch_sampler,
                buckets=padding.boundaries,
                pad_to_multiple_of=padding.pad_to_multiple_of,
                pack=packing.tokens if isinstance(packing, Packing) else None,  # type: ignore[arg-type]
                max_sequences=packing.max_sequences if isinstance(packing, Packing) else None,
                stream=packing.tokens if isinstance(packing, Streams) else None,
                max_length=limit.tokens,
                too_long=limit.too_long,
                keep_end=limit.keep_end,
                shuffle=shuffle if sampler is None else True,
                samples_per_epoch=_samples(
                    steps_per_epoch, None if packing else in_samples, process.world_size
                ),
                seed=seed,
                last_batch=last_batch,
                balance=shared_by.balance,
            )
            config = make_config(
                source,
                batching,
                shuffle=shuffle,
                sampler=sampler,
                fields=fields,
                columns=columns,
                dtype=ids_dtype(dtype, framework.ids_dtype),
                batchify=batchify,
                labels=labels,
                ranks=shared_by,
                world_size=process.world_size,
                verify=reads.verify,
            )
            placement = choose_placement(
                numbered_device(wanted, this_machine(wanted), process.local_rank),
                made_on="cpu",
                pin_memory=pinned,
                copies_from_pinned=framework.pins_memory,
            )
            return TextPipeline(config, process, adapters.load(framework, placement), totals)

        super().__init__(
            make_pipeline,
            open_source(dataset, "text", reads.cache),
            arguments,
            process=process,
            totals=totals,
            prefetch=prefetch,
        )
        adapters.specialize_loader(self, output)

    def __repr__(self) -> str:
        batches = f"{len(self)} batches of {len(self.shapes())} shapes"
        process = self.process
        return f"<TextLoader of {self.dataset!r}: {batches}, rank {process.rank} of {process.world_size}>"

    @property
    def boundaries(self) -> npt.NDArray[np.int64] | None:
        """(K, D) int64, the padded lengths of each field; None if each batch has its own."""
        return self.pipeline.config.planner.boundaries

    @property
    def pad_id(self) -> int:
        """Token id of padding. Documents may contain it, too, so only masks show what is padding."""
        return self.pipeline.config.reader.pad_id

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct shapes of batches, ascending: (samples, padded length), with a length for each field.

        A compiler can be shown all of them before the first batch. With buckets or packing they are the
        shapes of every epoch, and of the rest of an epoch that is resumed; otherwise those of the next epoch.
        If epochs draw different samples, ``last_batch="partial"`` makes smaller batches; the list has only
        those of the next epoch. With slices for context parallelism they are the shapes of whole rows.
        """
        planner = self.pipeline.config.planner
        shapes = planner.common_shapes  # first, so that the next epoch's plan is kept
        return sorted({*shapes, *self.steps(self.position.epoch, 0).plan.shapes()})


def _samples(steps: int | Samples | None, batch_size: int | None, world_size: int) -> int | None:
    """Samples of an epoch over all ranks; ``batch_size`` is None without a fixed number of samples."""
    if steps is None:
        return None
    if isinstance(steps, Samples):
        return steps.number
    number = whole_number("steps_per_epoch", steps, 1)
    if batch_size is None:
        raise ConfigError(
            "steps_per_epoch counts steps of a batch_size of samples",
            hint="Give the samples of an epoch over all ranks: steps_per_epoch=Samples(100_000).",
        )
    return number * batch_size * world_size
