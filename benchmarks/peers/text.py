"""The loaders of text that are compared: batches of 64-bit ids and of their mask, padded to one length.

Each is a :class:`stoker.benchmarks.peers.base.Peer` whose batches are pairs ``(input_ids, attention_mask)``
of arrays of NumPy: (N, L) int64, and (N, L) int64 or bool. ``PeerSource.table`` is then the file that
:class:`Sequences` reads. Each loader imports its library when it writes or prepares.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import stoker

from .base import PeerSettings, PeerSource, worker_options

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it at import
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

_PAD = 256  # the id of padding; those of tokens are bytes
_BUCKETS = 8
_SHUFFLE_BUFFER = 10_000
_PREFETCH = 3  # batches of Stoker


class Sequences:
    """Token ids by the number of a sequence; ``lengths`` is (N,) int64."""

    def __init__(self, source: PeerSource) -> None:
        with np.load(source.table) as table:
            self._ids, self.lengths = table["ids"], table["lengths"]
        self._ends = np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def ids(self, i: int) -> npt.NDArray[np.uint16]:
        """Return the ids of sequence ``i``, (L,) uint16."""
        end = self._ends[i]
        ids: npt.NDArray[np.uint16] = self._ids[end - self.lengths[i] : end]
        return ids

    def __getitem__(self, i: int) -> Any:
        """Return the ids of sequence ``i`` as PyTorch's int64."""
        return _tensor(self.ids(i))


def _tensor(ids: npt.NDArray[np.uint16]) -> Any:
    import torch

    return torch.from_numpy(ids.astype("int64"))


def pad_tensors(sequences: list[Any]) -> tuple[Any, Any]:
    """Return the ids of a batch, (N, L) int64, padded to the longest, and their mask, (N, L) bool."""
    import torch

    ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=_PAD)
    lengths = torch.tensor([len(one) for one in sequences])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


def _padded(sequences: list[npt.NDArray[np.uint16]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The same for arrays of NumPy."""
    lengths = np.array([len(one) for one in sequences])
    ids = np.full((len(sequences), int(lengths.max())), _PAD, np.int64)
    for row, one in zip(ids, sequences, strict=True):
        row[: len(one)] = one
    return ids, np.arange(ids.shape[1]) < lengths[:, None]


class StokerText:
    """``TextLoader``: random batches, padded to their longest sequence."""

    packages = ("stoker", "numpy")
    lead = _PREFETCH + 1
    buckets: int | None = None

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        self._loader = stoker.TextLoader(
            source.dataset,
            batch_size=settings.batch_size,
            buckets=self.buckets,
            shuffle=True,
            seed=settings.seed,
            last_batch="drop",
            dtype="int64",
            prefetch=_PREFETCH,
            ranks=stoker.Ranks(0, 1),
        )
        return ("compares the checksum of every sequence",)

    def epoch(self) -> Iterator[Any]:
        yield from self._loader


class StokerBuckets(StokerText):
    """Batches from eight buckets, whose lengths are those that pad least."""

    buckets = _BUCKETS


class TorchText:
    """PyTorch's DataLoader: random batches of sequences in memory, padded by the workers."""

    packages: ClassVar[tuple[str, ...]] = ("torch",)
    lead = 0
    _loader: Any

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        import torch

        torch.manual_seed(settings.seed)
        self._loader = torch.utils.data.DataLoader(
            Sequences(source),
            shuffle=True,
            collate_fn=pad_tensors,
            **worker_options(settings),
        )
        return ("reads sequences that lie in memory",)

    def epoch(self) -> Iterator[Any]:
        for ids, mask in self._loader:
            yield ids.numpy(), mask.numpy()


class TransformersText(TorchText):
    """The DataLoader that ``Trainer`` of Hugging Face makes with ``group_by_length``, on Arrow files."""

    packages = ("transformers", "datasets", "torch")

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        import datasets

        sequences = Sequences(source)
        rows = [sequences.ids(i).tolist() for i in range(len(sequences))]
        columns = {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows]}
        datasets.Dataset.from_dict(columns).save_to_disk(source.scratch / "hf")

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        import datasets
        import torch
        from transformers import DataCollatorWithPadding
        from transformers.trainer_pt_utils import LengthGroupedSampler

        torch.manual_seed(settings.seed)
        self._loader = torch.utils.data.DataLoader(
            datasets.load_from_disk(source.scratch / "hf"),
            sampler=LengthGroupedSampler(settings.batch_size, lengths=Sequences(source).lengths.tolist()),
            collate_fn=DataCollatorWithPadding(_tokenizer()),
            **worker_options(settings),
        )
        return ("sorts windows of 50 batches by length",)

    def epoch(self) -> Iterator[Any]:
        for batch in self._loader:
            yield batch["input_ids"].numpy(), batch["attention_mask"].numpy()


def _tokenizer() -> Any:
    """A tokenizer that pads; it sees no text."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {str(number): number for number in range(_PAD)} | {"[PAD]": _PAD}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words)),
        pad_token="[PAD]",  # noqa: S106 - a token
    )


class MosaicText(TorchText):
    """Mosaic Streaming: MDS shards of ids, padded by the collate function of its loader."""

    packages = ("mosaicml-streaming", "torch")

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        from streaming import MDSWriter

        sequences = Sequences(source)
        with MDSWriter(out=str(source.scratch / "mds"), columns={"tokens": "ndarray:uint16"}) as writer:
            for i in range(len(sequences)):
                writer.write({"tokens": sequences.ids(i)})

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()  # of processes that were killed
        dataset = StreamingDataset(
            local=str(source.scratch / "mds"),
            batch_size=settings.batch_size,
            shuffle=True,
            shuffle_seed=settings.seed,
        )
        self._loader = StreamingDataLoader(dataset, collate_fn=_pad_columns, **worker_options(settings))
        return ("shuffles shards and blocks of samples (py1e)",)


def _pad_columns(samples: list[dict[str, Any]]) -> tuple[Any, Any]:
    return pad_tensors([_tensor(sample["tokens"]) for sample in samples])


class GrainText:
    """Grain: a file of ArrayRecord, padded by ``batch_fn``, and worker processes."""

    packages = ("grain", "array_record")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        from array_record.python.array_record_module import ArrayRecordWriter

        sequences = Sequences(source)
        # One record a group, as its documentation advises for random access.
        writer = ArrayRecordWriter(str(source.scratch / "text.arrayrecord"), "group_size:1")
        for i in range(len(sequences)):
            writer.write(sequences.ids(i).tobytes())
        writer.close()

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        import grain

        records = grain.sources.ArrayRecordDataSource([str(source.scratch / "text.arrayrecord")])
        dataset = (
            grain.MapDataset.source(records)
            .seed(settings.seed)
            .shuffle()
            .map(_ids)
            .repeat()
            .to_iter_dataset()
            .batch(settings.batch_size, drop_remainder=True, batch_fn=_padded)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=settings.num_threads))
        )
        self._steps = source.records // settings.batch_size
        self._batches: Any = iter(dataset)
        return ()

    def epoch(self) -> Iterator[Any]:
        for _ in range(self._steps):  # the dataset repeats
            yield next(self._batches)


def _ids(record: bytes) -> Any:
    return np.frombuffer(record, np.uint16)


class TFDataText:
    """tf.data: TFRecord files, and ``bucket_by_sequence_length`` with quantiles as boundaries."""

    packages = ("tensorflow", "tensorflow-cpu")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        import tensorflow as tf

        sequences = Sequences(source)
        for part in range(settings.num_threads):
            with tf.io.TFRecordWriter(str(source.scratch / f"{part:05d}.tfrecord")) as writer:
                for i in range(part, len(sequences), settings.num_threads):
                    values = tf.train.Int64List(value=sequences.ids(i).tolist())
                    features = tf.train.Features(feature={"ids": tf.train.Feature(int64_list=values)})
                    writer.write(tf.train.Example(features=features).SerializeToString())

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        import tensorflow as tf

        tf.config.threading.set_inter_op_parallelism_threads(settings.num_threads)
        options = tf.data.Options()
        options.threading.private_threadpool_size = settings.num_threads
        options.deterministic = False
        lengths = Sequences(source).lengths
        boundaries = np.unique(np.quantile(lengths, np.arange(1, _BUCKETS) / _BUCKETS).astype(int)) + 1
        paths = sorted(map(str, source.scratch.glob("*.tfrecord")))

        def parse(record: Any) -> tuple[Any, Any]:
            ids = tf.io.parse_single_example(record, {"ids": tf.io.RaggedFeature(tf.int64)})["ids"]
            return ids, tf.ones_like(ids)

        self._dataset = (
            tf.data.TFRecordDataset(paths, num_parallel_reads=settings.num_threads)
            .shuffle(_SHUFFLE_BUFFER, seed=settings.seed)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .bucket_by_sequence_length(
                lambda ids, _: tf.shape(ids)[0],
                bucket_boundaries=boundaries.tolist(),
                bucket_batch_sizes=[settings.batch_size] * (len(boundaries) + 1),
                padding_values=(np.int64(_PAD), np.int64(0)),
                drop_remainder=True,
            )
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )
        return (f"order from a shuffle buffer of {_SHUFFLE_BUFFER:,} records",)

    def epoch(self) -> Iterator[Any]:
        return iter(self._dataset.as_numpy_iterator())
