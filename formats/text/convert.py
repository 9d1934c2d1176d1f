"""``stoker.convert_text``, which converts files of text into published shards of token ids."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from pathlib import Path
from typing import Any, ClassVar, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from stoker.arguments import check_progress, renamed_option
from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url

from ..containers.external import expand
from ..containers.registry import DEFAULT_CONTAINER
from ..conversion.execution import Summary, check_num_threads, execute
from ..conversion.options import Progress, ShardOptions, shard_options
from ..conversion.plan import EncodedRecord, plan_conversion
from ..conversion.runners import no_progress
from ..files import check_named, os_errors
from ..remote.store import local_copies
from ..sources.listing import Skip
from ..tokenization import TokenizerChoice, tokenizer_options
from ..worker_processes import can_fork, worker_processes
from .chats import TextComposer, find_composer
from .listing import RowColumns, SampleLines, TextListing, open_text
from .records import IDS_FEATURE, TextEncoder, TextRecords
from .row_values import read_row_columns
from .spool import spool_items

Make = Callable[[list[SampleLines]], list[EncodedRecord | Skip]]

_LEAST_BYTES = 4 << 20  # of a source: for less, the start of processes takes a large part of the time
_MOST = 4096


def check_processes(number: int | None) -> int | None:
    """Return a user's number of processes, or None."""
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, SupportsIndex) or not 0 <= index(number) <= _MOST:
        raise ConfigError(f"processes must be an integer from 0 to {_MOST}, not {number!r}")
    return index(number)


def choose_processes(requested: int | None, composer: TextComposer | None, size: int, threads: int) -> int:
    """Return the number of processes that make records; 0 for the threads of this process.

    By default there are as many as threads if the composer holds the interpreter's lock, the source is
    large enough, and processes can be forked.
    """
    if requested is not None:
        return requested
    holds_lock = composer is not None and composer.holds_lock
    return threads if holds_lock and size >= _LEAST_BYTES and threads > 1 and can_fork() else 0


@contextmanager
def record_maker(records: TextRecords, processes: int) -> Generator[Make]:
    """Yield a function that makes records in ``processes``, or in the calling thread if that is 0."""
    if not processes:
        yield records.encode
        return
    with worker_processes(
        records.encode, processes, work="makes records", sent="the tokenizer", fewer="processes=0"
    ) as submit:

        def make(samples: list[SampleLines]) -> list[EncodedRecord | Skip]:
            encoded: list[EncodedRecord | Skip] = submit(samples).result()
            return encoded

        yield make


_RECORD_OVERHEAD = 80  # bytes: framing, the names of the features
_LATER_OPTIONS = {"train_on", "joined", "chat_template", "template_digest", "bos", "eos"}


@dataclass(frozen=True)
class TextOptions(ShardOptions):
    """How text becomes shards."""

    made_by: ClassVar[str] = "convert-text"
    most_records: ClassVar[int] = 1 << 18

    fields: str = "tokens"  # Names of the sequences of a sample, with commas between
    tokenizer: str = "bytes"  # bytes, or the name of the tokenizer's file
    tokenizer_digest: str = ""  # SHA-256 of the dataset's ``tokenizer.json``; empty if it has none
    vocab_size: int = 0  # All token ids are less than this
    pad_id: int = 0  # Token id for padding
    dtype: str = "uint16"  # Type of the payload: uint16 or int32, little-endian
    # The part that a model is trained on: messages of a chat, or some of the joined fields
    train_on: str = ""
    joined: str = ""  # Names of the fields that are joined to one sequence, with commas between
    chat_template: str = ""  # Name of the chat template
    template_digest: str = ""  # SHA-256 of the chat template
    bos: bool = False  # Whether each sequence begins with a token that the tokenizer alone does not add
    eos: bool = False  # Whether each sequence ends with such a token

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        """See :meth:`ShardOptions.to_manifest`; it omits unused options, as earlier versions did."""
        return {
            name: value
            for name, value in super().to_manifest().items()
            if value or name not in _LATER_OPTIONS
        }

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :meth:`ShardOptions.record_bytes`. An id is stored twice, and a word has about five letters."""
        size = sizes * (3 if self.tokenizer == "bytes" else 1)
        size += _RECORD_OVERHEAD
        return size


def convert_listing(
    listing: TextListing,
    dst: str | os.PathLike[str],
    *,
    choice: TokenizerChoice,
    shards: ShardOptions,
    num_threads: int | None,
    overwrite: bool,
    composer: TextComposer | None = None,
    processes: int | None = 0,
    report: Progress = no_progress,
) -> Summary:
    """Tokenize the texts of a listing and publish their datasets.

    ``choice`` decides the tokenizer, ``shards`` the shards and splits, and ``composer`` makes one text of
    the values of a sample. The other arguments are those of :func:`stoker.convert_text`.

    Raises: As :func:`stoker.convert_text`.
    """
    fields = listing.fields if composer is None else (composer.field,)
    check_fields(fields)
    threads = check_num_threads(num_threads)
    workers = choose_processes(processes, composer, int(listing.sizes.sum()), threads)
    if (choice.bos or choice.eos) and composer is not None and not composer.adds_special_tokens:
        raise ConfigError("bos and eos are for texts, and a chat template has such tokens itself")
    tokenizer = choice.make()
    values: dict[str, Any] = {**vars(shards), **tokenizer_options(tokenizer, choice)}
    values |= {} if composer is None else composer.options
    options = TextOptions(fields=",".join(fields), **values)
    records = TextRecords(listing.format, tokenizer, options.dtype, composer)
    with record_maker(records, workers) as make:
        plan = plan_conversion(listing, options, TextEncoder(listing, records, make))
        return execute(plan, dst, max(threads, workers), overwrite=overwrite, report=report)


def check_fields(fields: tuple[str, ...]) -> None:
    """Raise ConfigError for a field whose name records use themselves."""
    if IDS_FEATURE in fields:
        raise ConfigError(
            f"a field cannot have the name {IDS_FEATURE!r}, which records use for the token ids"
        )


Paths = str | os.PathLike[str]


@renamed_option("num_workers", "num_threads")
def convert_text(
    src: Paths | Sequence[Paths] | Iterable[str] | Iterable[Mapping[str, Any]],
    dst: Paths,
    *,
    tokenizer: str | os.PathLike[str] | None = None,
    fields: Sequence[str] | None = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    messages: str | None = None,
    chat_template: str | os.PathLike[str] | None = None,
    train_on: str | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
    bos: bool = False,
    eos: bool = False,
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
    processes: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Convert text into a dataset of token ids.

    The same source and options give the same bytes, whatever ``num_threads`` and ``processes``. If the
    conversion is killed, the same call resumes it; when it has finished, the same call does nothing and
    returns the same counts, as with :func:`stoker.convert`. A record is a tf.train.Example with an
    int64_list of token ids for each field. The index has the number of tokens of each field in a column
    ``<field>_length`` (int32), so that lengths need not be read from the shards. A sample with a field
    without tokens is skipped.

    Args:
        src: A text file with one sample in each line, a file of JSON Lines (``.jsonl``), or a Parquet file;
            or several such files, which form one corpus in the order given. A name may be a pattern, such as
            ``part-*.jsonl.zst``. Each file may be compressed with gzip or zstd, and may be at a URL (s3, gs,
            http, ... as fsspec knows them), from which it is copied first. Or an iterable of texts, or of
            dicts with the fields, such as a dataset of Hugging Face; a list of strings names files.
        dst: Folder to write; made if missing. It may be such a URL, too.
        tokenizer: "bytes" (of UTF-8), or the path of a Hugging Face tokenizers JSON, which the dataset holds
            as ``tokenizer.json``. It or ``vocabulary`` must be given.
        fields: For JSON Lines, Parquet and dicts, the fields to convert, by default ``text``; for lines, the
            name of the field, by default ``tokens``; for parallel files, a name for each.
        label: For JSON Lines, Parquet and dicts, the name of the value that is the class of a sample. Labels
            that are texts are numbered in sorted order, and the dataset keeps their names; integers stay as
            they are. A sample without a label is skipped.
        columns: Names of further values, numbers or texts, that become columns of the index.
        classes: Names of the classes, that of label 0 first. None takes those in the source.
        messages: Name of the value with the messages of a chat, ``[{"role": ..., "content": ...}, ...]``, in
            place of ``fields``. A sample is then one sequence, which the chat template makes of them.
        chat_template: "chatml", or the path of a Jinja file. None takes the template of the tokenizer, which
            lies beside its file as ``chat_template.jinja`` or in ``tokenizer_config.json``.
        train_on: The part of a sample that a model is trained on. For messages: "assistant" (the default) for
            all messages of the assistant, "last" for its last message, "all" for everything. For several
            fields, the names of some, with commas between; all fields then form one sequence, "text", field
            after field. The column "labels" of loaders has -100 for all other tokens.
        vocabulary: Folder of a dataset whose tokenizer to use, in place of ``tokenizer``, so that validation
            data has the ids of training data.
        bos: Whether each sequence begins with the tokenizer's token for it, such as [BOS] or <s>.
        eos: Whether each sequence ends with the tokenizer's token for it, such as [EOS] or </s>.
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
        processes: Number of processes that make token ids, each on one core; 0 uses threads alone. Chat
            templates need the interpreter's lock. So None uses as many processes as threads for messages of
            at least 4 MB if ``multiprocessing`` forks processes. None uses threads alone otherwise.
        overwrite: Replace a dataset, or another unfinished conversion, in ``dst``.
        progress: Called about ten times a second.

    Raises:
        ConfigError: An option has a value that it cannot have.
        SourceError: The source cannot be used; or, with ``strict``, a line would be skipped.
        DatasetError: There is a dataset or another unfinished conversion in ``dst``.
        EngineError: A process died.
        LockedError: Another process is converting into ``dst``.
        MissingDependencyError: The tokenizer's file needs a package that is not installed.
        StorageError: A URL cannot be reached, read or written; the same call resumes.
        WriteError: The disk is full or refuses a write; the same call resumes.
    """
    check_progress(progress)
    paths = _paths_of(src)
    if paths is not None:
        paths = [file for path in paths for file in _matching(path)]
    check_named(target=dst)
    check_num_threads(num_threads)
    wanted = RowColumns.of(label, columns, classes or _class_names(src, label))
    report = progress or no_progress
    composer = find_composer(fields, messages, chat_template, train_on, tokenizer or "")
    if is_chat := messages is not None:
        fields = [str(messages)]
    scratch = Path(tempfile.gettempdir()) if is_url(dst) else _existing(Path(dst))
    options: dict[str, Any] = {
        "choice": TokenizerChoice(tokenizer, vocabulary, bos, eos),
        "shards": shard_options(format, seed, shard_size, shard_records, shards, val, test, strict=strict),
        "num_threads": num_threads,
        "overwrite": overwrite,
        "composer": composer,
        "processes": check_processes(processes),
        "report": report,
    }
    report(0, 0, 0, "listing")
    with os_errors(scratch):
        if paths is None:
            if parallel:
                raise ConfigError("parallel is for files of text; give dicts with a field for each language")
            items = cast("Iterable[Any]", src)
            with closing(spool_items(items, fields, scratch, wanted, messages=is_chat)) as spool:
                return convert_listing(read_row_columns(spool.listing(), wanted), dst, **options)
        with (
            local_copies(paths) as copies,
            open_text(
                copies, fields, scratch, parallel=parallel, columns=wanted, messages=is_chat
            ) as listing,
        ):
            return convert_listing(read_row_columns(listing, wanted), dst, **options)


def _paths_of(src: Any) -> list[Paths] | None:
    """The files that a source names; None if it yields texts."""
    if isinstance(src, (str, os.PathLike)):
        return [src]
    is_list = isinstance(src, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in src)
    return list(src) if is_list else None


def _matching(path: Paths) -> list[Paths]:
    """The files that match a pattern, in the order of their names; the path itself if it is no pattern."""
    check_named(source=path)
    text = os.fspath(path)
    if is_url(path):
        return list(expand(path)) if "*" in text else [path]
    if Path(path).exists() or not glob.has_magic(text):
        return [path]
    if not (matches := sorted(glob.glob(text, recursive=True))):  # noqa: PTH207 - patterns may be absolute
        hint = "check the spelling of the folder and of the pattern"
        raise SourceError("no file matches the pattern", path=path, hint=hint)
    return list(matches)


def _class_names(src: Any, label: str | None) -> tuple[str, ...] | None:
    """Names of the classes that a dataset of Hugging Face states for its labels; None if it states none."""
    features = getattr(src, "features", None)
    feature = features.get(label) if isinstance(features, Mapping) and label is not None else None
    names = getattr(feature, "names", None)
    return tuple(names) if names else None


def _existing(folder: Path) -> Path:
    """The folder, or the nearest folder above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
