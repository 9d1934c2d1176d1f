"""``stoker.convert_text``: from files of text to published shards of token ids."""

from __future__ import annotations

import hashlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoker.arguments import check_progress
from stoker.errors import ConfigError

from ..concurrency.bounded_map import bounded_map
from ..containers.registry import DEFAULT_CONTAINER
from ..conversion.execution import Summary, check_num_threads, execute
from ..conversion.options import ShardOptions, parse_share, shard_bytes
from ..conversion.plan import plan_conversion
from ..conversion.renamed_option import renamed_option
from ..conversion.run import Progress, no_progress
from ..files.publishing import os_errors
from ..files.reading import check_named
from ..remote.copies import local_copies
from ..remote.store import is_url
from ..sources.listing import Skip
from .encoder import IDS_FEATURE, TextEncoder
from .text_listing import TextListing, open_text
from .tokenizers import Bytes, File, Tokenizer, Whitespace, count_words

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence
    from fractions import Fraction

    import numpy.typing as npt

__all__ = ["TextOptions", "convert_text"]

_RECORD_OVERHEAD = 80  # bytes: framing, the names of the features
_COUNTED_LINES = 4096  # in one task

Paths = str | os.PathLike[str]


@dataclass(frozen=True)
class TextOptions(ShardOptions):
    """How text becomes shards.

    Attributes:
        fields: Names of the sequences of a sample, with commas between.
        tokenizer: whitespace, bytes, or the name of the tokenizer's file.
        tokenizer_digest: SHA-256 of the dataset's ``tokenizer.json``; empty if it has none.
        vocab_size: All token ids are less than this.
        pad_id: Token id for padding.
        dtype: Type of the payload: uint16 or int32, little-endian.
    """

    made_by: ClassVar[str] = "convert-text"

    fields: str = "tokens"
    tokenizer: str = "whitespace"
    tokenizer_digest: str = ""
    vocab_size: int = 0
    pad_id: int = 0
    dtype: str = "uint16"

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :meth:`ShardOptions.record_bytes`. An id is stored twice, and a word has about five letters."""
        return sizes * (3 if self.tokenizer == "bytes" else 1) + _RECORD_OVERHEAD


@renamed_option("num_workers", "num_threads")
def convert_text(
    src: Paths | Sequence[Paths],
    dst: Paths,
    *,
    tokenizer: str | os.PathLike[str] = "whitespace",
    fields: Sequence[str] | None = None,
    format: str = DEFAULT_CONTAINER,  # noqa: A002 - the user's word for it
    seed: int | None = None,
    shard_size: str | int | None = None,
    shard_records: int | None = None,
    shards: int | None = None,
    val: str | float | Fraction = 0,
    test: str | float | Fraction = 0,
    parallel: bool = False,
    strict: bool = False,
    num_threads: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Convert text into a dataset of token ids.

    The same source and options give the same bytes, whatever ``num_threads``. If the conversion is killed,
    the same call resumes it; when it has finished, the same call does nothing and returns the same counts,
    as with :func:`stoker.convert`. A record is a tf.train.Example with an
    int64_list of token ids for each field. The index has the number of tokens of each field in a column
    ``<field>_length`` (int32), so that lengths need not be read from the shards. A sample with a field
    without tokens is skipped.

    Args:
        src: A text file with one sample in each line, or a file of JSON Lines (``.jsonl``); or several such
            files, which form one corpus in the order given. Each file may be compressed with gzip, and may be
            at a URL (s3, gs, http, ... as fsspec knows them), from which it is copied first.
        dst: Folder to write; made if missing. It may be such a URL, too.
        tokenizer: "whitespace" (words, of which the vocabulary is counted first), "bytes" (of UTF-8), or the
            path of a Hugging Face tokenizers JSON. The dataset holds it as ``tokenizer.json``.
        fields: For JSON Lines, the fields to convert, by default ``text``; for lines, the name of the field,
            by default ``tokens``; for parallel files, a name for each.
        format: Container of the shards: ``tfrecord`` or ``lmdb``.
        seed: Seed of a global shuffle; None keeps the order of the lines.
        shard_size: Approximate bytes of a shard, such as ``256MB``, which is the default.
        shard_records: Records of a shard, instead of a size.
        shards: Number of shards of each split, instead of a size.
        val: Share of the samples that becomes a validation dataset: ``0.1`` or ``10%``. Only the samples'
            keys decide which samples these are.
        test: Share that becomes a test dataset, chosen in the same way.
        parallel: Whether the text files are parallel, as translations are: their lines of one number form a
            sample, with a field for each file.
        strict: Stop at the first line that would be skipped.
        num_threads: By default the number of cores that this process may use.
        overwrite: Replace a dataset, or another unfinished conversion, in ``dst``.
        progress: Called about ten times a second.

    Raises:
        ConfigError: An option has a value that it cannot have.
        SourceError: The source cannot be used; or, with ``strict``, a line would be skipped.
        DatasetError: There is a dataset or another unfinished conversion in ``dst``.
        LockedError: Another process is converting into ``dst``.
        MissingDependencyError: The tokenizer's file needs a package that is not installed.
        StorageError: A URL cannot be reached, read or written; the same call resumes.
        WriteError: The disk is full or refuses a write; the same call resumes.
    """
    check_progress(progress)
    sources = [src] if isinstance(src, (str, os.PathLike)) else list(src)
    for source in sources:
        check_named(source=source, target=dst)
    threads = check_num_threads(num_threads)
    report = progress or no_progress
    report(0, 0, 0, "listing")
    scratch = Path(tempfile.gettempdir()) if is_url(dst) else _existing(Path(dst))
    with (
        os_errors(scratch),
        local_copies(sources) as paths,
        open_text(paths, fields, scratch, parallel=parallel) as listing,
    ):
        chosen = _tokenizer(tokenizer, listing, threads)
        options = TextOptions(
            container=format,
            seed=seed,
            shard_bytes=shard_bytes(shard_size, shard_records, shards),
            shard_records=shard_records or 0,
            shards=shards or 0,
            val=parse_share("val", val),
            test=parse_share("test", test),
            strict=strict,
            fields=",".join(listing.fields),
            tokenizer=chosen.name,
            tokenizer_digest=hashlib.sha256(chosen.file).hexdigest() if chosen.file is not None else "",
            vocab_size=chosen.vocab_size,
            pad_id=chosen.pad_id,
            dtype="uint16" if chosen.vocab_size <= 1 << 16 else "int32",
        )
        _check_names(listing.fields)
        plan = plan_conversion(listing, options, TextEncoder(listing, chosen, options.dtype))
        return execute(plan, dst, threads, overwrite=overwrite, report=report)


def _check_names(fields: tuple[str, ...]) -> None:
    if IDS_FEATURE in fields:
        raise ConfigError(
            f"a field cannot have the name {IDS_FEATURE!r}, which records use for the token ids"
        )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest folder above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def _tokenizer(name: str | os.PathLike[str], listing: TextListing, threads: int) -> Tokenizer:
    if name == "bytes":
        return Bytes()
    if name != "whitespace":
        return File(name)
    starts = range(0, len(listing), _COUNTED_LINES)
    tasks = ((start, partial(_count, listing, start)) for start in starts)
    with ThreadPoolExecutor(threads, thread_name_prefix="stoker-count") as pool:
        return Whitespace.build(counts for _, counts in bounded_map(pool, tasks, 2 * threads))


def _count(listing: TextListing, start: int) -> Counter[str]:
    rows = np.arange(start, min(start + _COUNTED_LINES, len(listing)))
    found = [one for one in listing.texts(rows) if not isinstance(one, Skip)]
    return count_words([text for one in found for text in one])
