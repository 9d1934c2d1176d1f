"""``stoker.convert_text``, which converts files of text into published shards of token ids."""

from __future__ import annotations

import errno
import glob
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from stoker._native import encode_token_records
from stoker.arguments import check_progress, named_arguments
from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url

from ..containers.container import DEFAULT_CONTAINER
from ..containers.shard_names import check_complete, check_named_files, expand, files_in
from ..conversion.execution import execute
from ..conversion.options import Progress, Share, Storage, resolve_shards
from ..conversion.plan import EncodedRecord, plan_conversion
from ..conversion.publishing import Summary
from ..conversion.samples import check_samples
from ..dataset.columns import ListColumn
from ..dataset.manifest import MANIFEST_NAME, TOKENIZER_NAME
from ..files import check_named, os_errors, read_errors
from ..remote.store import local_copies
from ..sources.listing import NO_TOKENS, Skip
from ..sources.tables import saved_files
from ..splits import check_one_split
from ..threads import check_threads
from ..token_columns import length_column, trained_column
from ..tokenization import Ids, Lengths, Tokenizer, tokenizer_options
from ..worker_processes import can_fork, worker_processes
from .chats import ChatComposer, TemplateError, TextComposer, find_composer, trained_runs
from .listing import (
    LineFormat,
    RowColumns,
    SampleLines,
    TextListing,
    open_text,
    read_row_columns,
    spool_items,
)
from .options import TextArguments, TextOptions, Training

Paths = str | os.PathLike[str]


@named_arguments
def convert_text(
    source: Paths | Sequence[Paths] | Iterable[str] | Iterable[Mapping[str, Any]],
    target: Paths,
    *,
    tokenizer: str | os.PathLike[str] | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
    bos: bool = False,
    eos: bool = False,
    fields: Sequence[str] | None = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    parallel: bool = False,
    container: str = DEFAULT_CONTAINER,
    seed: int | None = None,
    shard_size: str | int | None = None,
    val: Share = 0,
    test: Share = 0,
    classes: Sequence[str] | None = None,
    strict: bool = False,
    allow_loss: Fraction | float | str | None = None,
    overwrite: bool = False,
    num_threads: int | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    training: Training | None = None,
    storage: Storage | None = None,
) -> Summary:
    """Convert text into a dataset of token ids.

    The same source and options give the same bytes, whatever ``num_threads`` and ``processes``. If the
    conversion is killed, the same call resumes it, as with :func:`stoker.convert`. A record is a
    tf.train.Example with an int64_list of token ids for each field. The index has the number of tokens of
    each field in a column ``<field>_length`` (int32). A sample with a field without tokens is skipped.

    Args:
        source: A text file with one sample in each line, a file of JSON Lines or with a JSON array of
            objects, or a table (Parquet, Arrow, ``.csv``, ``.tsv``), also of Hugging Face's ``save_to_disk``;
            or several such files, which form one corpus in the order given. A name may be a pattern, such as
            ``part-*.jsonl.zst``. Each file but Parquet may be compressed with gzip or zstd; such files, and
            tables, are unpacked beside the target as they are read, with a ``seed`` all of them. It may be
            at a URL (s3, gs, http, ... as fsspec knows them), from which it is copied first. Or an iterable
            of texts, or of dicts with the fields, such as a dataset of Hugging Face; a list of strings names
            files.
        target: Folder to write; made if missing. It may be such a URL, too.
        tokenizer: "bytes" (of UTF-8), or the path of a Hugging Face tokenizers JSON or of its folder. The
            dataset holds the JSON as ``tokenizer.json``, and the special tokens and the chat template that
            lie beside it. It or ``vocabulary`` must be given.
        fields: For JSON Lines, tables and dicts, the fields to convert, by default ``text``; that of an
            object in them is ``translation.en``. For lines, the name of the field, by default ``tokens``; for
            parallel files, a name for each.
        label: For JSON Lines, tables and dicts, the name of the value that is the class of a sample. Labels
            that are texts are numbered in sorted order, and the dataset keeps their names; integers stay as
            they are. A sample without a label is skipped.
        columns: Names of further values, numbers or texts, that become columns of the index.
        classes: Names of the classes, that of label 0 first. None takes those in the source.
        vocabulary: Folder of a dataset whose tokenizer to use, in place of ``tokenizer``, so that validation
            data has the ids of training data.
        bos: Whether each sequence begins with the tokenizer's token for it, such as [BOS] or <s>.
        eos: Whether each sequence ends with the tokenizer's token for it, such as [EOS] or </s>.
        container: Container of the shards: ``tfrecord`` or ``lmdb``.
        seed: Seed of a global shuffle; None keeps the order of the lines.
        shard_size: Approximate bytes of a shard, such as ``256MB``, which is the default.
        val: Share of the samples that becomes a validation dataset: ``0.1`` or ``10%``. Only the samples'
            keys decide which samples these are.
        test: Share that becomes a test dataset, chosen in the same way.
        parallel: Whether the text files are parallel, as translations are: their lines of one number form a
            sample, with a field for each file.
        strict: Stop at the first line that would be skipped. Blank lines of JSON Lines are still skipped.
        allow_loss: Largest share of the samples that may be left out, such as ``0.1`` or ``10%``. The default
            is 1%, or ten samples if they are at most half of all. Texts without tokens do not count. If it is
            given, files that cannot be read may be left out, too, up to this share of the files.
        num_threads: By default the number of cores that this process may use.
        processes: Number of processes that make token ids, each on one core; 0 uses threads alone. None uses
            as many processes as threads for messages of at least 4 MB, as chat templates need the
            interpreter's lock, if ``multiprocessing`` forks processes, and threads alone otherwise.
        overwrite: Replace a dataset, or another unfinished conversion, in ``target``.
        progress: Called about ten times a second.
        training: Chats, and the part of each sample that a model is trained on, see :class:`stoker.Training`.
        storage: Further options of shards, see :class:`stoker.Storage`.

    Raises:
        ConfigError: An option has a value that it cannot have.
        SourceError: The source cannot be used, or more of it is left out than ``allow_loss``; or, with
            ``strict``, a line would be skipped.
        DatasetError: There is a dataset or another unfinished conversion in ``target``.
        EngineError: A process died.
        LockedError: Another process is converting into ``target``.
        MissingDependencyError: The tokenizer's file needs a package that is not installed.
        StorageError: A URL cannot be reached, read or written; the same call resumes.
        WriteError: The disk is full or refuses a write; the same call resumes.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    given.pop("source", None)
    given.pop("target", None)
    check_progress(given.pop("progress", None))
    arguments = TextArguments(**given)
    check_named(target=target)
    with read_errors(target):
        files = _paths_of(source)
    # 1. The samples: the lines of files, or texts of a program, which are kept on the disk.
    wanted = RowColumns(label, columns or (), arguments.classes or _class_names(source, label))
    messages = arguments.training.messages
    made = arguments.make()
    composer = find_composer(fields, arguments.training, made)
    fields = fields if messages is None else tuple(messages)
    form: dict[str, Any] = {"columns": wanted, "messages": messages is not None}
    folders = (Path(target).absolute(), *Path(target).absolute().parents)
    scratch = Path(tempfile.gettempdir()) if is_url(target) else next(filter(Path.is_dir, folders))
    if progress is not None:
        progress(0, 0, 0, "listing")
    with ExitStack() as stack:
        if files is not None:
            stack.enter_context(os_errors(scratch))
            copies = stack.enter_context(local_copies(files))
            listing = open_text(
                copies,
                fields,
                scratch,
                parallel=parallel,
                shuffled=seed is not None,
                allow_loss=None if strict else cast("Fraction | None", arguments.allow_loss),
                **form,
            )
        else:
            if parallel:
                raise ConfigError("parallel is for files of text; give dicts with a field for each language")
            check_samples(source)
            items = cast("Iterable[Any]", source)
            spool = stack.enter_context(closing(spool_items(items, fields, scratch, **form)))
            stack.enter_context(os_errors(scratch))
            listing = spool.listing()
        # 2. Labels and columns; then tokenizer, plan, shards, index and manifest.
        listing = read_row_columns(listing, wanted)
        return convert_listing(listing, target, arguments, made, composer, progress=progress)


def _paths_of(source: Any) -> list[Paths] | None:
    """The files that a source names, those of a pattern by their names; None if it yields texts."""
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    is_list = isinstance(paths, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in paths)
    if not is_list:
        return None
    check_named_files(paths)
    return [file for path in paths for file in _matching(path)]


def _matching(path: Paths) -> list[Paths]:
    check_named(source=path)
    text = os.fspath(path)
    if is_url(path):
        if "*" not in text:
            return [path]
        check_one_split([path], matches := expand(path), "convert-text")
        return list(matches)
    if os.path.isdir(text):  # noqa: PTH112 - a text may be no path
        if (saved := saved_files(text.rstrip("/"), "convert-text")) is not None:
            return list(saved)
        if files := files_in(text, ".parquet"):  # as Spark and Dask write a table
            check_one_split([path], files, "convert-text")
            check_complete(files)
            return list(files)
        if (Path(text) / MANIFEST_NAME).exists():
            message = "the source is a dataset, whose samples are token ids"
            raise SourceError(message, path=path, hint="Convert its source again.")
        counts = Counter("".join(file.suffixes[-2:]) for file in Path(text).iterdir() if file.is_file())
        likely = counts.most_common(1)[0][0] if counts else ".jsonl"
        raise SourceError(
            "a source of text is a file, and this is a folder",
            path=path,
            hint=f"Name the files in it: '{text.rstrip('/')}/*{likely}'.",
        )
    if _may_exist(text):
        return [path]
    if not glob.has_magic(text):
        hint = "Check the spelling. A string names a file; to convert texts in a list, give iter(texts)."
        raise SourceError("the text cannot be read: No such file or directory", path=path, hint=hint)
    if not (matches := sorted(glob.glob(text, recursive=True))):  # noqa: PTH207 - patterns may be absolute
        hint = "Check the spelling of the folder and of the pattern; give texts in a list as iter(texts)."
        raise SourceError("no file matches the pattern", path=path, hint=hint)
    check_one_split([path], matches, "convert-text")
    check_complete(matches, os.path.basename(text))  # noqa: PTH119 - a pattern
    return list(matches)


def _may_exist(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - a text may be no path
    except (FileNotFoundError, ValueError):
        return False
    except OSError as error:  # opening the file says what is wrong
        return error.errno != errno.ENAMETOOLONG
    return True


def _class_names(source: Any, label: str | None) -> tuple[str, ...] | None:
    """Names of the classes that a dataset of Hugging Face states for its labels; None if it states none."""
    features = getattr(source, "features", None)
    feature = features.get(label) if isinstance(features, Mapping) and label is not None else None
    return tuple(getattr(feature, "names", None) or ()) or None


def convert_listing(
    listing: TextListing,
    target: str | os.PathLike[str],
    arguments: TextArguments,
    tokenizer: Tokenizer,
    composer: TextComposer | None = None,
    *,
    progress: Progress | None = None,
) -> Summary:
    """Tokenize the texts of a listing and publish their datasets; ``composer`` makes one text of a sample."""
    fields = listing.format.fields if composer is None else composer.fields
    check_fields(fields)
    threads = check_threads(arguments.num_threads)
    if (arguments.bos or arguments.eos) and composer is not None and not composer.adds_special_tokens:
        raise ConfigError("bos and eos are for texts, and a chat template has such tokens itself")
    template = composer.template.source if isinstance(composer, ChatComposer) else None
    options = TextOptions(
        **resolve_shards(arguments, arguments.storage),
        fields=",".join(fields),
        **tokenizer_options(tokenizer, arguments, template),
        **cast("dict[str, Any]", {} if composer is None else composer.options),
    )
    records = TextRecords(listing.format, tokenizer, options.dtype, composer)
    workers = choose_processes(arguments.processes, composer, int(listing.sizes.sum()), threads)
    allow_loss = cast("Fraction | None", arguments.allow_loss)  # the check has parsed it
    with record_maker(records, workers) as make:
        plan = plan_conversion(listing, options, TextEncoder(listing, records, make))
        return execute(
            plan,
            target,
            max(threads, workers),
            overwrite=arguments.overwrite,
            report=progress,
            allow_loss=allow_loss,
        )


def check_fields(fields: tuple[str, ...]) -> None:
    """Raise ConfigError for a field whose name records use themselves."""
    if IDS_FEATURE in fields:
        raise ConfigError(
            f"a field cannot have the name {IDS_FEATURE!r}, which records use for the token ids"
        )


Make = Callable[[list[SampleLines]], list[EncodedRecord | Skip]]

_LEAST_BYTES = 4 << 20  # of a source: for less, the start of processes takes a large part of the time


def choose_processes(requested: int | None, composer: TextComposer | None, size: int, threads: int) -> int:
    """Return the number of processes that make records; 0 for the threads of this process."""
    # By default there are as many as threads if the composer holds the interpreter's lock, the source is
    # large enough, and processes can be forked.
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
    texts = {"work": "makes records", "sent": "the tokenizer", "fewer": "processes=0"}
    with worker_processes(records.encode, processes, **texts) as submit:
        yield lambda samples: submit(samples).result()


IDS_FEATURE = "stoker/ids"


@dataclass(frozen=True)
class TextRecords:
    """An encoder of samples that any process can use.

    A record is a tf.train.Example. It has an int64_list for each field, which any reader of TensorFlow's
    format parses, and a bytes feature ``stoker/ids`` with all ids again, as little-endian numbers of one
    width. This feature is the payload: the index locates it, its checksum covers it, and NumPy decodes it
    without parsing varints (docs/decisions/0005).
    """

    format: LineFormat  # The format of the lines of a sample
    tokenizer: Tokenizer  # Makes token ids of texts
    dtype: str  # Type of the payload: uint16 or int32
    # Makes one text from the values of a sample; None if each field is a sequence
    composer: TextComposer | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the sequences of a sample."""
        return self.format.fields if self.composer is None else self.composer.fields

    def encode(self, samples: list[SampleLines]) -> list[EncodedRecord | Skip]:
        """Return the records of samples, with a skip in place of each sample that is left out."""
        results = [self._composed(sample) for sample in samples]
        kept = [index for index, result in enumerate(results) if not isinstance(result, Skip)]
        columns, runs = self._tokenize([results[index] for index in kept])
        fields = [(field, *column) for field, column in zip(self.fields, columns, strict=True)]
        encoded = encode_token_records(fields, IDS_FEATURE, np.dtype(self.dtype).itemsize)
        lengths = np.stack([field_lengths for _, field_lengths in columns], axis=1).tolist()
        for number, (index, (prefix, payload)) in enumerate(zip(kept, encoded, strict=True)):
            key = samples[index].key
            if 0 in lengths[number]:
                results[index] = Skip(key, NO_TOKENS, self.fields[lengths[number].index(0)])
            elif runs is not None and not runs[number]:
                results[index] = Skip(key, "no trained tokens")
            else:
                trained = None if runs is None else runs[number]
                results[index] = EncodedRecord(key, prefix, payload, b"", tuple(lengths[number]), (), trained)
        return results

    def _composed(self, sample: SampleLines) -> Any:
        """The texts of a sample: one for each sequence. A skip if there is none."""
        values = self.format.values(sample)
        if self.composer is None or isinstance(values, Skip):
            return values
        try:
            return self.composer.compose(values)
        except TemplateError as error:
            return Skip(sample.key, "refused by the chat template", str(error))
        except RecursionError:
            return Skip(sample.key, "nested too deep")

    def _tokenize(self, texts: Sequence[Any]) -> tuple[list[tuple[Ids, Lengths]], list[list[int]] | None]:
        """Ids and lengths of each field, and the runs of trained tokens of each sample (None: all tokens)."""
        if self.composer is None:
            fields = range(len(self.fields))
            return [self.tokenizer.encode([text[field] for text in texts]) for field in fields], None
        encoded = [
            self.tokenizer.encode_with_offsets(
                [composed[field].text for composed in texts], special=self.composer.adds_special_tokens
            )
            for field in range(len(self.fields))
        ]
        if self.composer.trains_all:
            return [(ids, lengths) for ids, lengths, *_ in encoded], None
        ((ids, lengths, starts, ends),) = encoded
        bounds = np.concatenate(([0], np.cumsum(lengths))).tolist()
        runs = [
            trained_runs(composed.spans, len(composed.text), starts[a:b], ends[a:b])
            for (composed,), (a, b) in zip(texts, pairwise(bounds), strict=True)
        ]
        return [(ids, lengths)], runs


@dataclass(frozen=True)
class TextEncoder:
    """Encodes the samples of a text listing."""

    listing: TextListing  # The text
    records: TextRecords  # Makes records of lines
    # Calls ``records.encode`` in this process or in another; several threads use it at once
    make: Callable[[list[SampleLines]], list[EncodedRecord | Skip]]

    sample_type: ClassVar[str] = "text"
    chunk_samples: ClassVar[int] = 1024  # so many that the overhead of a tokenizer's call is small
    arrays: ClassVar[Mapping[str, str]] = {}

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        return {length_column(field): np.int32 for field in self.records.fields}

    @property
    def files(self) -> Mapping[str, bytes]:
        return {} if self.records.tokenizer.file is None else {TOKENIZER_NAME: self.records.tokenizer.file}

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        yield from self.make(self.listing.read(rows))

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[Any], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        columns = {name: array.take(rows) for name, array in self.listing.labelled_columns.items()}
        composer = self.records.composer
        if composer is not None and not composer.trains_all:
            bounds = np.array([bound for runs in details for bound in runs], np.int32)
            lists = ListColumn.of_counts([len(runs) for runs in details], bounds)
            columns[trained_column(composer.fields[0])] = lists.to_arrow()
        return columns

    def strict_error(self, skip: Skip) -> SourceError:
        return SourceError(
            skip.message,
            path=self.listing.path_of(skip.key),
            key=skip.key,
            hint="Repair or remove the line, or convert without strict to skip it.",
        )
