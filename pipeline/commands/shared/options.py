"""Arguments and options that several commands have, each with one definition, as Typer reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoker.errors import ConfigError
from stoker.formats.containers.registry import writable

__all__ = [
    "TOKENIZERS",
    "Bos",
    "Classes",
    "Columns",
    "Container",
    "Dataset",
    "Eos",
    "JsonFile",
    "JsonOutput",
    "MaxSize",
    "MinCount",
    "MinSize",
    "MinVisible",
    "Overwrite",
    "ShardRecords",
    "ShardSize",
    "Shards",
    "Strict",
    "Target",
    "Test",
    "Threads",
    "Unlabelled",
    "Val",
    "Vocabulary",
    "parse_columns",
    "split_names",
]

Dataset = Annotated[
    str,
    typer.Argument(
        help="Folder of a dataset that convert, convert-text, index or stage wrote; FOLDER@3 is version 3."
    ),
]
Target = Annotated[
    str, typer.Argument(help="Folder or URL to write. With --val or --test it holds a folder for each split.")
]
Container = Annotated[str, typer.Option("--format", help=f"Format of the shards: {' or '.join(writable())}.")]
ShardSize = Annotated[
    str | None, typer.Option(help="Approximate size of a shard, such as 500MB; by default 256MB.")
]
ShardRecords = Annotated[
    int | None, typer.Option(help="Largest number of samples in a shard, instead of --shard-size.")
]
Shards = Annotated[int | None, typer.Option(help="Number of shards, instead of --shard-size.")]
Val = Annotated[
    str,
    typer.Option(help="Share of the samples held out for validation, such as 10%; the same of each class."),
]
TOKENIZERS = "whitespace, bytes, bpe, or a file of Hugging Face tokenizers (.json)"
Vocabulary = Annotated[str | None, typer.Option(help="Folder of a dataset whose tokenizer is taken.")]
MinCount = Annotated[
    int | None, typer.Option(help="Words that occur less often are unknown; of bpe, pairs stay apart.")
]
MaxSize = Annotated[
    int | None,
    typer.Option(help="Largest number of words of the vocabulary; of bpe, of token ids (30000)."),
]
MinVisible = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Share of an object's box, 0 to 1, that must be visible, as a loader's min_visible.",
    ),
]
MinSize = Annotated[
    float,
    typer.Option(min=0, help="Least width and height of an object's box, in pixels after transforms."),
]
Bos = Annotated[bool, typer.Option("--bos", help="Begin each sequence with its token.")]
Eos = Annotated[bool, typer.Option("--eos", help="End each sequence with its token.")]
Test = Annotated[str, typer.Option(help="Share of the samples held out for testing; the same of each class.")]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        "--labels",
        help="Names of the classes, label 0 first: names with commas between, a file with a name on each "
        "line, or the folder of a dataset. By default the source names them.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Further column of the index: its name, and the part of a record to take, such as "
        "caption=txt or width=json:width for a tar. May be given several times.",
    ),
]
Unlabelled = Annotated[
    bool,
    typer.Option(
        "--unlabelled",
        help="Take all images of a folder as samples without labels.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first sample that would be skipped.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the dataset that is in the target folder.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Number of threads; by default one for each core that this process may use."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all figures to this file as JSON, in addition.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def split_names(text: str | None) -> list[str] | None:
    """Return the names in a list with commas between them, or None for None."""
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_columns(given: list[str] | None) -> dict[str, str] | None:
    """Return the parts of records by the names of their columns, from options such as ``caption=txt``.

    Raises:
        ConfigError: An option is not of this form.
    """
    if given is None:
        return None
    columns = {}
    for option in given:
        name, equals, part = option.partition("=")
        if not (name and equals and part):
            raise ConfigError(f"--column must be a name and a part such as caption=txt, not {option!r}")
        columns[name] = part
    return columns
