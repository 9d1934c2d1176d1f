"""``stoker.TextWriter``: a dataset of texts that a program writes one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stoker.arguments import list_of_names
from stoker.errors import ConfigError, DatasetError
from stoker.urls import is_url

from ..containers.container import DEFAULT_CONTAINER
from ..conversion.options import ShardOptions, Share, Storage, resolve_shards
from ..conversion.publishing import Summary
from ..conversion.writer import WriterContext
from ..dataset.manifest import MANIFEST_NAME
from ..files import check_named, check_target, folder_lock, os_errors
from .convert import check_fields, convert_listing
from .listing import RowColumns, TextSpool, read_row_columns
from .options import TextArguments

_LABEL = " label"  # of a sample in the spool; no field has a name with a space in front


class TextWriter(WriterContext):
    """Writes texts into a dataset of token ids.

    The texts are tokenized in :meth:`close`, or at the end of a ``with`` block, as
    :func:`stoker.convert_text` does it. Until then, and if the block raises or the process is killed, the
    folder holds no dataset. A writer may be used from several threads.

    Args:
        target: Folder to write; made if missing.
        tokenizer: "bytes", or the path of a Hugging Face tokenizers JSON; this and the next three as for
            :func:`stoker.convert_text`.
        vocabulary: Folder of a dataset whose tokenizer is taken.
        bos: Begin each sequence with the tokenizer's token for it.
        eos: End each sequence with the tokenizer's token for it.
        fields: Names of the sequences of a sample, such as ("source", "target") for translations.
        classes: Names of the classes, that of label 0 first. None takes the sorted names of the labels that
            are written.
        container: Container of the shards: ``tfrecord`` or ``lmdb``.
        seed: Seed of a global shuffle; None keeps the order of the calls.
        shard_size: Approximate bytes of a shard, such as ``256MB``, which is the default.
        val: Share of the samples that becomes a validation dataset: ``0.1`` or ``10%``.
        test: Share that becomes a test dataset.
        strict: Whether a text without tokens is an error; else it is left out and counted.
        num_threads: Threads that tokenize; by default the cores that this process may use.
        overwrite: Replace a dataset, or an unfinished conversion, in ``target``.
        storage: Further options of shards, see :class:`stoker.Storage`.

    Raises:
        ConfigError: An option has a value that it cannot have.
        DatasetError: There is a dataset in ``target``.
        LockedError: Another writer or conversion writes into ``target``.
        WriteError: The disk is full or refuses a write.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        vocabulary: str | os.PathLike[str] | None = None,
        bos: bool = False,
        eos: bool = False,
        fields: Sequence[str] = ("text",),
        classes: Sequence[str] | None = None,
        container: str = DEFAULT_CONTAINER,
        seed: int | None = None,
        shard_size: str | int | None = None,
        val: Share = 0,
        test: Share = 0,
        strict: bool = False,
        num_threads: int | None = None,
        overwrite: bool = False,
        storage: Storage | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if value is not None}
        del given["self"], given["target"]
        check_named(target=target)
        if is_url(target):
            raise ConfigError(
                "a writer writes into a folder of this machine, and the target is a URL",
                path=target,
                hint="Write into a folder, then copy it to the URL.",
            )
        self._fields = list_of_names("fields", fields)
        check_fields(self._fields)
        self._arguments = TextArguments(**given, processes=0)
        ShardOptions(**resolve_shards(self._arguments, self._arguments.storage))  # checked before any text
        self._labelled: bool | None = None
        self._folder = Path(target)
        self._held = ExitStack()
        check_target(self._folder)
        with os_errors(self._folder, resumes=False):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(folder_lock(self._folder))
            self._refuse_dataset(overwrite=overwrite)
            self._spool = TextSpool(self._fields, self._folder)
        self._begin(self._folder, _abandon, self._spool, self._held)

    def _refuse_dataset(self, *, overwrite: bool) -> None:
        for folder in (self._folder, self._folder / "train"):
            if (folder / MANIFEST_NAME).exists() and not overwrite:
                self._held.close()
                raise DatasetError(
                    "there is a dataset in the folder already",
                    path=folder,
                    hint="Name another folder, or replace it with overwrite=True.",
                )

    def __len__(self) -> int:
        """Number of samples that were written so far."""
        return len(self._spool)

    def write(
        self,
        text: str | None = None,
        label: int | str | None = None,
        *,
        key: str | None = None,
        **columns: Any,
    ) -> None:
        """Write a sample.

        Args:
            text: The text, where samples have one field.
            label: The name or the number of its class, in every sample or in none.
            key: Name of the sample; by default its number, from ``00000000``.
            columns: A text for each field, where it is not ``text``; any other name is a column of the index,
                a number or a text in every sample.

        Raises:
            ConfigError: A field has no text, or a column or the label does not fit the first sample; names
                key and column.
            LockedError: The process was forked from the one that made the writer.
            WriteError: The disk is full or refuses a write.
        """
        self._check_usable()
        with self._lock, os_errors(self._folder, resumes=False):
            name = f"{len(self._spool):08d}" if key is None else key
            if not isinstance(name, str) or not name:
                raise ConfigError(f"key must be a text that is not empty, found {name!r}")
            texts = {field: columns[field] for field in self._fields if field in columns}
            if text is not None:
                texts[self._fields[0]] = text
            values = {field: value for field, value in columns.items() if field not in texts}
            self._check_label(label, name)
            self._spool.check(name, texts)
            self._spool.add(name, texts, values, {} if label is None else {_LABEL: label})
            self._labelled = label is not None

    def _publish(self) -> Summary:
        wanted = RowColumns(_LABEL if self._labelled else None, (), self._arguments.classes)
        listing = read_row_columns(self._spool.listing(), wanted)
        self._held.close()  # the conversion takes the lock itself
        return convert_listing(listing, self._folder, self._arguments, self._arguments.make())

    def _check_label(self, label: int | str | None, key: str) -> None:
        is_negative = isinstance(label, int) and label < 0
        if label is not None and (isinstance(label, (bool, float)) or label == "" or is_negative):
            raise ConfigError(f"label must be the name or the number of a class, found {label!r}", key=key)
        if self._labelled is not None and self._labelled != (label is not None):
            raise ConfigError(
                "the sample and the first one do not both have a label",
                key=key,
                hint="Write a label with every sample, or with none.",
            )


def _abandon(spool: TextSpool, held: ExitStack) -> None:
    spool.close()
    held.close()
