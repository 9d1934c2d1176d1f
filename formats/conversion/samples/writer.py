"""``stoker.Writer``: a dataset of samples that a program writes one by one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from stoker.errors import SourceError, StokerError
from stoker.processes import Cleanup, OwnerProcess

from ...codecs.codec import MAX_PIXELS
from ...containers.registry import DEFAULT_CONTAINER
from ...files import check_named
from ...sources.listing import Skip
from ...threads import check_threads
from ..execution import Summary
from ..images.captions import written_captions
from ..option_values import parse_resize, shard_bytes
from ..shards.encoder import EncodedRecord
from ..writer_context import WriterContext
from .encoding_pool import EncodingPool
from .existing import WriterStart
from .options import WriterOptions
from .output import ShardedOutput
from .url_output import open_output
from .values.objects import upper_box_format


class Writer(WriterContext):
    """Writes samples into a dataset of images.

    The samples become a dataset in :meth:`close`, or at the end of a ``with`` block. Until then, and if the
    block raises or the process is killed, the folder holds no dataset. A writer may be used from several
    threads; it stores samples in the order of the calls.

    The first sample fixes the form of all samples: a label, several or none; objects; a mask; and the names
    and types of the columns.

    Args:
        target: Folder to write, made if missing; or a URL, to which finished shards are uploaded.
        classes: Names of the classes, that of label 0 first. None numbers names in the order in which they
            first occur, and takes numbers as they are.
        keypoints: Names of the keypoints of an object; ``left_eye`` and ``right_eye`` are swapped in a
            mirrored image. None numbers them.
        box_format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height; COCO's) or "CXCYWH"
            (centre, width, height), in pixels.
        ignore_index: Value in masks for pixels without a class; None if there is none.
        format: Container of the shards: ``tfrecord`` or ``lmdb``.
        resize: As for :func:`stoker.convert`. Boxes, keypoints and masks are resized with their image.
        encoding: Encoding of the stored images: ``keep`` (files as they are; arrays and images of Pillow as
            PNG), ``jpeg``, ``png`` or ``raw``.
        quality: JPEG quality of images that are encoded anew, 1 to 100, by default 90.
        subsampling: JPEG chroma subsampling of the same images: 444, 422 or, by default, 420.
        restarts: Whether stored JPEGs get restart markers, as for :func:`stoker.convert`.
        shard_size: Approximate bytes of a shard, such as ``256MB``, which is the default.
        shard_records: Records of a shard, instead of a size.
        strict: Whether a broken image raises an error; else it is left out, counted, and named in
            ``skipped.jsonl``.
        max_pixels: An image of more pixels is broken.
        caption_column: Name under which :meth:`write` takes the caption of an image, or a list of several.
            They become token ids beside the images.
        tokenizer: Tokenizer of captions: "bytes", or the path of a Hugging Face tokenizers JSON. It and the
            next three arguments are as for :func:`stoker.convert_text`.
        vocabulary: Folder of a dataset whose tokenizer to use.
        bos: Whether each caption begins with a token for it.
        eos: Whether each caption ends with a token for it.
        num_threads: Threads that check and encode; by default the cores that this process may use.
        append: Whether to add the samples to the dataset in ``target``, if there is one, as its next version.
            The samples must have the same fields as those of the dataset; ``classes`` may add names after its
            classes. Its shards stay as they are.
        overwrite: Replace a dataset, or an unfinished conversion, in ``target``.

    Raises:
        ConfigError: An option has a value that it cannot have.
        DatasetError: There is a dataset, or an unfinished conversion, in ``target``.
        LockedError: Another writer or conversion writes into ``target``.
        WriteError: The disk is full or refuses a write.
        StorageError: A URL cannot be read or written.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        classes: Sequence[str] | None = None,
        keypoints: Sequence[str] | None = None,
        box_format: Literal["XYXY", "XYWH", "CXCYWH", "xyxy", "xywh", "cxcywh"] = "XYXY",
        ignore_index: int | None = 255,
        format: str = DEFAULT_CONTAINER,  # noqa: A002 - the user's word for it
        resize: str | None = None,
        encoding: str = "keep",
        quality: int | None = None,
        subsampling: str | None = None,
        restarts: bool | None = None,
        shard_size: str | int | None = None,
        shard_records: int | None = None,
        strict: bool = True,
        max_pixels: int = MAX_PIXELS,
        caption_column: str | None = None,
        tokenizer: str | os.PathLike[str] | None = None,
        vocabulary: str | os.PathLike[str] | None = None,
        bos: bool = False,
        eos: bool = False,
        num_threads: int | None = None,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        check_named(target=target)
        start = WriterStart.of(
            target,
            container=format,
            restarts=restarts,
            classes=classes,
            keypoints=keypoints,
            ignore_index=ignore_index,
            append=append,
            overwrite=overwrite,
        )
        captions = written_captions(
            caption_column,
            start.existing,
            start.folder,
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            bos=bos,
            eos=eos,
        )
        mode, height, width = parse_resize(resize)
        options = WriterOptions(
            container=start.container,
            mode=mode,
            height=height,
            width=width,
            encoding=encoding,
            quality=quality,
            subsampling=subsampling,
            restarts=start.restarts,
            shard_bytes=shard_bytes(shard_size, shard_records, None),
            shard_records=shard_records or 0,
            max_pixels=max_pixels,
            strict=strict,
            captions=captions and captions.options,
        )
        threads = check_threads(num_threads)
        self._encoder = start.encoder(options, upper_box_format(box_format), captions)
        self._output = open_output(target, self._encoder, options, start.existing, overwrite=overwrite)
        self._begin(start.records, threads)

    def _begin(self, first: int, threads: int) -> None:
        """Start the threads. Nothing after this may fail, because the output holds a lock."""
        self._pool = EncodingPool(self._encoder, threads)
        self._owner, self._lock = OwnerProcess(), threading.Lock()
        self._checker = self._encoder.checker
        self._first, self._count = first, 0
        self._closed = False
        self._summary: Summary | None = None
        self._started = time.monotonic()
        self._abandon = Cleanup(self, _abandon, self._pool, self._output)

    def __len__(self) -> int:
        """Number of samples so far."""
        return self._count

    def write(self, image: Any, *, label: Any = None, key: str | None = None, **columns: Any) -> None:
        """Write a sample.

        Args:
            image: The bytes of an image file, or its path: the bytes are stored as they are. Or an image of
                Pillow; an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of uint8 or uint16; or a tensor of
                PyTorch of uint8 with the channels first.
            label: Name or number of a class, or a list of them. None for samples without a label.
            key: Name of the sample; by default its number, from ``00000000``.
            columns: The rest of the sample by name, the same names in all samples:

                - ``boxes``: (M, 4) numbers, and ``box_labels``: M names or numbers, of the M objects of the
                  image. For each object also ``crowd`` (M,) bool, ``area`` (M,), ``object_id`` (M,) int64,
                  ``keypoints`` (M, K, 3) of x, y and visibility, or (M, 3K); and ``masks``: (M, H, W), or M
                  arrays (H, W), lists of polygons, or run lengths as COCO has them.
                - ``segmentation``: a mask of classes, (H, W) uint8 or uint16, or a file of it, or its path.
                - The name ``caption_column``: a text, or a list of texts.
                - Any other name is a column: a number, a text, or an array of numbers of any shape.

        Raises:
            ConfigError: The sample does not fit the first one, or cannot be stored; names key and column.
            DecodeError: An image is broken or cannot be read, and ``strict``. The error names its key. As
                threads encode, it may come with a later sample, or in :meth:`close`; all other samples are
                kept.
            LockedError: The process was forked from the one that made the writer.
            WriteError: The disk is full or refuses a write; nothing more can be written.
        """
        self._check_usable(self._output.target)
        with self._lock:
            name = f"{self._first + self._count:08d}" if key is None else key
            sample = self._checker.check(name, image, label, columns)
            self._count += 1
            self._store(self._pool.add(sample))

    def skip(self, key: str, reason: str, detail: str = "") -> None:
        """Note a sample that is left out: it is counted by its reason, and ``skipped.jsonl`` names it.

        Args:
            key: Name of the sample.
            reason: The reason, in words that many samples share.
            detail: The exact finding; may be empty.
        """
        self._check_usable(self._output.target)
        with self._lock:
            self._output.add(Skip(key, reason, detail))

    def close(self) -> Summary:
        """Publish the dataset; a second call returns the same.

        Raises:
            SourceError: No sample was written.
            StokerError: As :meth:`write`; nothing is published then.
        """
        if self._summary is not None:
            return self._summary
        self._check_usable(self._output.target)
        try:
            with self._lock:
                self._store(self._pool.finish())
                if not self._count and not self._first:
                    raise SourceError("no sample was written", path=self._output.target)
                published = self._output.publish(tuple(self._checker.classes), self._encoder.info)
        finally:
            self.abandon()
        self._summary = Summary.of(published, time.monotonic() - self._started, published.written)
        return self._summary

    def abandon(self) -> None:
        """Give up the dataset and remove its files; after :meth:`close` it does nothing."""
        self._closed = True
        self._abandon()

    def _store(self, outcomes: Iterable[EncodedRecord | Skip | StokerError]) -> None:
        """Store records; raise the first error of a sample when all others are stored."""
        failed: StokerError | None = None
        for outcome in outcomes:
            if isinstance(outcome, StokerError):
                failed = failed or outcome
                continue
            try:
                self._output.add(outcome)
            except BaseException:
                self.abandon()  # a shard may end within a record
                raise
        if failed is not None:
            raise failed


def _abandon(pool: EncodingPool, output: ShardedOutput) -> None:
    pool.close()
    output.abandon()
