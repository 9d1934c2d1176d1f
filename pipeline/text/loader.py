"""The loader of text: its arguments, and the parts that are made from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batchify, BatchSampler, BucketBoundaries, MaskTokens, SpanCorruption
from stoker.bucketing.batchify import Labels
from stoker.bucketing.groups import LastGroup
from stoker.bucketing.packing import TooLong
from stoker.bucketing.samplers import Balance

from .. import adapters
from ..caching.prefetcher import CachePrefetcher, make_cache_prefetcher, resolve
from ..cluster.ray_workers import RayWorkers
from ..engines.devices import BatchPlacement, choose_placement, device_name, numbered_device, this_machine
from ..execution.ranks import find_ranks
from ..execution.stats import Counters, StatsTotals
from ..order.sample_source import SampleSource
from ..order.sampling import Sampler, open_source
from .batching import BatchingConfig, as_buckets
from .checkpoints import CheckpointedText
from .config import ids_dtype, make_config
from .context_slices import SliceForm
from .producer import TOGETHER, TextBatchProducer
from .schedule import TextSchedule


class TextLoader(CheckpointedText):
    """Loads batches of token ids for a training loop, ahead of the step that needs them.

    Batches hold samples of similar length, so that there is little padding, or packed rows with nearly none.
    Iterating over the loader runs one epoch; iterating again runs the next one. A batch is a named tuple of
    columns. At each step all ranks receive batches of one shape, and :meth:`shapes` lists the shapes before
    the first batch.

    A batch is a function of the dataset, the arguments, the seed, the epoch and the step.

    Args:
        dataset: Folder of a dataset that :func:`stoker.convert_text` made, or the result of
            :func:`stoker.open` or :func:`stoker.mix`. With ``cache`` it may be the URL of a dataset.
            ``shards/text@3`` is version 3 of a dataset.
        batch_size: Samples of a batch on this rank; with ``pack`` its rows. Give ``batch_size``,
            ``max_tokens`` or ``batch_sampler``, and only one of them.
        max_tokens: Tokens of a batch on this rank, padding included. Short samples then make larger batches.
        batch_sampler: Function that makes a :class:`stoker.bucketing.BatchSampler`, such as
            ``partial(SortedBucketSampler, batch_size=32, window=50)``. It is called with the lengths of an
            epoch's samples, (n,) or (n, D) int64 for D fields, and the keyword arguments that all samplers
            have. The sampler's lengths decide batches and padding, and may be costs; they do not decide which
            tokens are read.
        buckets: Number of padded lengths, with the boundaries that pad least; or the boundaries, (K,) or
            (K, D) integers. None draws random batches and pads each to its longest sample, in any number of
            shapes. "auto" makes 8 buckets of one field. For several fields it makes windows of 100 batches,
            which a k-d split orders: they pad less and have many shapes. Give 8 for few shapes, such as for
            compilers. Packed rows have no buckets.
        pad_to_multiple_of: Padded lengths are multiples of this; 8 or 16 suits tensor cores. Boundaries and
            ``pack`` must be such multiples. A ``batch_sampler`` takes ``pad_to_multiple_of`` itself.
        pack: Tokens of a row that holds several sequences. None gives each sample a row. With several fields
            it is one number for all or one for each; all sequences of a sample are in the same segment of the
            same row.
        stream: Tokens that each row takes of its stream, for models whose state goes from batch to batch: row
            i goes on in row i of the next one. The documents of an epoch are cut into one stream for each row
            of all ranks. Columns are "input_ids"; "targets", the token that follows each; and "begins", True
            where a document or a stream begins: (N, stream). "partial" ends an epoch with a shorter step.
        max_sequences: Largest number of sequences in a packed row, which decides the length of
            ``cu_seqlens``. None sets no limit.
        max_length: Largest number of tokens of a sequence. None sets no limit; ``pack`` and boundaries do.
        too_long: What happens to a longer sequence: "error" refuses the dataset, "truncate" keeps its
            beginning and the special tokens that the tokenizer puts at its end, and "split" fills packed rows
            with its pieces.
        shuffle: Whether batches are drawn anew in each epoch. False keeps the order of the dataset: exactly
            with ``buckets=None``, and within each bucket; windows keep theirs. With a ``sampler`` batches are
            always drawn anew.
        sampler: Which samples an epoch draws, if not every sample once: :class:`stoker.Weighted`,
            :class:`stoker.ClassBalanced`, or your own sampler.
        samples_per_epoch: Samples of an epoch over all ranks. Epochs are then cut from an infinite stream of
            draws, and each goes on where the last one ended. None makes an epoch of all draws, once.
        seed: Integer, 0 to 2**64 - 1, that decides all draws.
        rank: Rank of this process. None finds it with torch.distributed, JAX, or the launcher's environment
            variables. Give both ``rank`` and ``world_size``, or neither.
        world_size: Number of ranks.
        mesh: DeviceMesh of PyTorch with the dimensions along which batches differ, such as ``mesh["dp"]``, in
            place of ``rank`` and ``world_size``.
        replicate: Processes in a row that receive the same batches, such as those of tensor parallelism.
        context: Rank and size of a context-parallel group, such as (0, 4), or a DeviceMesh of one dimension,
            such as ``mesh["cp"]``: this process receives its slice of each row. The processes of a group have
            one ``rank``. See the guide to text.
        context_slices: "balanced" gives rank r of n the parts r and 2 n - 1 - r of 2 n, so that causal
            attention costs all ranks the same; "contiguous" gives it the r-th of n parts.
        last_batch: What happens to samples that do not fill a batch. "drop" leaves them out of the epoch.
            "pad" repeats samples and adds a column ``mask``, (N,) bool, False for each repeated sample.
            "partial" makes smaller batches; to give all ranks one shape it may repeat fewer than
            ``world_size`` samples, which the column ``mask`` shows if you ask for it.
        balance: How the samples of a step are dealt to the ranks, for models that do not compute padding:
            "tokens" gives all ranks about as many tokens, "attention" about the same sum of squared lengths.
            None deals them in order.
        output: Framework of the arrays: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet". "keras"
            hands out arrays of Keras' backend, and ``fit``, ``evaluate`` and ``predict`` take the loader
            itself.
        device: Where batches are handed out: "cpu", "cuda", "cuda:N", or a device object of PyTorch or JAX.
            "cuda" is the GPU of this rank. None leaves batches on the framework's default device.
        fields: Names of the fields to read. None reads all.
        columns: Names of the columns of a batch of N rows, each padded to length L:

            - "input_ids": (N, L), of the dtype ``dtype``; "attention_mask" (N, L); of packed rows
              "segment_ids" and "position_ids", (N, L); and the other arrays of :mod:`stoker.bucketing`.
              With several fields each name has the prefix ``<field>_``.
            - "mask": (N,) bool, see ``last_batch``.
            - "row": (N,) int64, number of each sample in :attr:`dataset`, as its ``keys()`` counts. For
            packed rows (N, ``max_sequences``): ``row[i, s - 1]`` is the sample of segment s, and -1 means
            that there is no such segment.
            - Of rows that are not packed: "label", (N,) int64, where samples have classes; "key", list of N
              names in the source; any column of numbers of the index, (N,), or of strings, list of N str; and
              "dataset" of a mixture.

            None hands out "input_ids" and "attention_mask", or of packed rows "input_ids", "segment_ids" and
            "position_ids".
        dtype: Dtype of token ids, "int32" or "int64". None takes int64 for PyTorch, whose losses need it, and
            int32 for other frameworks.
        prefetch: Batches that may be ready or in flight ahead of the step, from 1. Small batches of padded
            rows are made together, up to 131,072 tokens, and count as one.
        labels: Kind of the column "labels". "causal" models shift the labels themselves, so the first token
            of a sequence has the label -100. "seq2seq" are the targets of encoder-decoders, which predict the
            first token, too. Padding has the label -100.
        batchify: Function that makes the arrays of a batch, for arrays that ``columns`` cannot name; see
            :mod:`stoker.bucketing`. It is called with a ``Ragged`` (with a ``Packed`` for packed rows, and
            with a dict of ``Ragged`` by field for several fields) and the padded length, and returns a dict
            of arrays. If it has a parameter ``context``, it also gets a
            :class:`~stoker.bucketing.BatchContext` with the epoch, the step and the rows of the batch.
            :class:`stoker.bucketing.PreferencePairs` makes pairs for DPO, planned by the longer of the two.
        mask: Tokens that the model is to restore: a :class:`stoker.bucketing.MaskTokens`, or a
            :class:`stoker.bucketing.SpanCorruption`, which makes "input_ids" and "labels" of one field. Each
            epoch draws anew; the draws of a sample depend on the seed and the epoch alone. "labels" are then
            among the columns, with ``stream`` in place of "targets".
        verify: Whether every payload is compared with its checksum at each reading. With "split" a loader
            compares it once, and then reads each piece alone.
        pin_memory: Whether ``output="torch"`` hands out batches in page-locked memory; see
            :class:`stoker.ImageLoader`. With ``device="cuda:N"`` batches go through such memory by
            themselves.
        cache: Folder on a local disk that keeps the fetched parts of a remote dataset; see
            :class:`stoker.ImageLoader`.
        cache_size: Size of the cache in bytes, or as text such as "200GB". None sets no limit. The loader
            first evicts the parts that this epoch and the next one need last.
        workers: Processes on other machines that also make batches, a :class:`stoker.RayWorkers`.

    Raises:
        ConfigError: An argument is wrong, or two arguments do not fit each other.
        DatasetError: The path holds no dataset that can be read.
        MissingDependencyError: The framework is not installed.
    """

    def __init__(
        self,
        dataset: SampleSource | str | os.PathLike[str],
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        batch_sampler: Callable[..., BatchSampler] | None = None,
        buckets: int | BucketBoundaries | npt.NDArray[np.int64] | Sequence[int] | str | None = "auto",
        pad_to_multiple_of: int = 1,
        pack: int | Sequence[int] | None = None,
        stream: int | None = None,
        max_sequences: int | None = None,
        max_length: int | None = None,
        too_long: TooLong = "error",
        shuffle: bool = False,
        sampler: Sampler | None = None,
        samples_per_epoch: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        replicate: int = 1,
        context: Any = None,
        context_slices: SliceForm = "balanced",
        last_batch: LastGroup = "partial",
        balance: Balance | None = None,
        output: str = "numpy",
        device: Any = None,
        fields: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        dtype: str | None = None,
        prefetch: int = 3,
        labels: Labels = "causal",
        batchify: Batchify | None = None,
        mask: MaskTokens | SpanCorruption | None = None,
        verify: bool = True,
        pin_memory: bool = False,
        cache: str | os.PathLike[str] | None = None,
        cache_size: str | int | None = None,
        workers: RayWorkers | None = None,
    ) -> None:
        ranks = find_ranks(rank, world_size, mesh, replicate)
        batching = BatchingConfig(
            batch_size=batch_size,
            max_tokens=max_tokens,
            batch_sampler=batch_sampler,
            buckets=as_buckets(buckets),
            pad_to_multiple_of=pad_to_multiple_of,
            pack=pack,  # type: ignore[arg-type]  # the config makes a tuple of it
            max_sequences=max_sequences,
            max_length=max_length,
            too_long=too_long,
            shuffle=shuffle if sampler is None else True,
            samples_per_epoch=samples_per_epoch,
            seed=seed,
            last_batch=last_batch,
            balance=balance,
            stream=stream,
        )
        framework = adapters.framework_of(output)
        config = make_config(
            open_source(resolve(dataset, cache, cache_size), "text"),
            batching,
            shuffle=shuffle,
            sampler=sampler,
            fields=fields,
            columns=columns,
            dtype=ids_dtype(dtype, framework.ids_dtype),
            batchify=batchify,
            labels=labels,
            mask=mask,
            context=context,
            context_slices=context_slices,
            world_size=ranks.world_size,
            verify=verify,
        )
        super().__init__(config, ranks, prefetch)
        adapters.specialize_loader(self, output)
        self._cache_prefetcher = make_cache_prefetcher(config.dataset, config.planned_draws)
        self._adapter = adapters.load(framework, self._choose_placement(device, framework, pin_memory))
        self._use_workers(workers)

    def __repr__(self) -> str:
        ranks = self._ranks
        batches = f"{len(self)} batches of {len(self.shapes())} shapes"
        return f"<TextLoader of {self.dataset!r}: {batches}, rank {ranks.rank} of {ranks.world_size}>"

    def _choose_placement(
        self, device: Any, framework: adapters.Framework, pin_memory: bool
    ) -> BatchPlacement:
        device = device_name(device)
        return choose_placement(
            numbered_device(device, this_machine(device), self._ranks.local_rank),
            made_on="cpu",
            pin_memory=pin_memory,
            copies_from_pinned=framework.pins_memory,
        )

    def _together(self, schedule: TextSchedule, *, unfinished: bool) -> Callable[[int], int]:
        return lambda step: len(schedule.together(step, TOGETHER))

    def _make_producer(self, schedule: TextSchedule, epoch: int) -> TextBatchProducer:
        return self._producer(schedule, self._totals, self._cache_prefetcher, TOGETHER)

    @contextmanager
    def _make_single_producer(self, schedule: TextSchedule, epoch: int) -> Iterator[TextBatchProducer]:
        prefetcher = make_cache_prefetcher(self._config.dataset)
        try:
            yield self._producer(schedule, StatsTotals(), prefetcher, together=0)
        finally:
            if prefetcher:
                prefetcher.close()

    def _producer(
        self, schedule: TextSchedule, totals: StatsTotals, prefetcher: CachePrefetcher | None, together: int
    ) -> TextBatchProducer:
        epoch = self._config.planner.epoch_of(schedule.plan)
        return TextBatchProducer(
            self._config,
            schedule,
            epoch,
            adapter=self._adapter,
            totals=totals,
            cache_prefetcher=prefetcher,
            together=together,
        )

    def _counters(self) -> Counters:
        return self._cache_prefetcher.counters() if self._cache_prefetcher else Counters()

    def _release(self) -> None:
        if self._cache_prefetcher:
            self._cache_prefetcher.close()
        self._config.reader.close()
