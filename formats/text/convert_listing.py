"""The conversion of a listing of texts to published shards of token ids, for files and for written texts."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..conversion.execution import Summary, check_num_threads, execute
from ..conversion.options import ShardOptions
from ..conversion.plan import plan_conversion
from ..conversion.run import Progress, no_progress
from ..sources.listing import Skip
from ..tokenization.choice import SourceTexts, TokenizerChoice, make_tokenizer, tokenizer_options
from .encoder import TextEncoder
from .listing.text_listing import TextListing
from .record_processes import choose_processes, record_maker
from .records import IDS_FEATURE, TextRecords
from .training.chat_template import TemplateError
from .training.text_composer import TextComposer

_RECORD_OVERHEAD = 80  # bytes: framing, the names of the features
_LATER_OPTIONS = {"train_on", "joined", "chat_template", "template_digest", "bos", "eos"}


@dataclass(frozen=True)
class TextOptions(ShardOptions):
    """How text becomes shards."""

    made_by: ClassVar[str] = "convert-text"
    most_records: ClassVar[int] = 1 << 18

    fields: str = "tokens"  # Names of the sequences of a sample, with commas between
    tokenizer: str = "whitespace"  # whitespace, bytes, or the name of the tokenizer's file
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
    texts = SourceTexts(len(listing), partial(_texts, listing, composer))
    tokenizer = make_tokenizer(choice, texts, threads)
    values: dict[str, Any] = {**vars(shards), **tokenizer_options(tokenizer, choice)}
    values |= {} if composer is None else composer.options
    options = TextOptions(fields=",".join(fields), **values)
    records = TextRecords(listing.format, tokenizer, options.dtype, composer)
    with record_maker(records, workers) as make:
        plan = plan_conversion(listing, options, TextEncoder(listing, records, make))
        return execute(plan, dst, max(threads, workers), overwrite=overwrite, report=report)


def _texts(listing: TextListing, composer: TextComposer | None, rows: range) -> list[str]:
    """All texts of some lines, without those that the conversion skips."""
    samples = [values for values in listing.texts(np.asarray(rows)) if not isinstance(values, Skip)]
    if composer is None:
        return [text for values in samples for text in values]
    composed = []
    for values in samples:
        with suppress(TemplateError):
            composed.append(composer.compose(values).text)
    return composed


def check_fields(fields: tuple[str, ...]) -> None:
    """Raise ConfigError for a field whose name records use themselves."""
    if IDS_FEATURE in fields:
        raise ConfigError(
            f"a field cannot have the name {IDS_FEATURE!r}, which records use for the token ids"
        )
