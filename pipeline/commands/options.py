"""Arguments and options that several commands share, in the form that Typer reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoker.errors import ConfigError
from stoker.formats.containers.registry import writable

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
    str, typer.Option(help="Share of the samples of each class to hold out for validation, such as 10%.")
]
TOKENIZERS = "bytes, or a file of Hugging Face tokenizers (.json)"
Vocabulary = Annotated[str | None, typer.Option(help="Folder of another dataset, whose tokenizer to use.")]
MinVisible = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Least share of an object's box, 0 to 1, that must be visible; a loader's min_visible.",
    ),
]
MinSize = Annotated[
    float,
    typer.Option(
        min=0,
        help="Least width and height of an object's box, in pixels after transforms; a loader's min_size.",
    ),
]
Bos = Annotated[
    bool, typer.Option("--bos", help="Begin each sequence with the tokenizer's special token for it.")
]
Eos = Annotated[
    bool, typer.Option("--eos", help="End each sequence with the tokenizer's special token for it.")
]
Test = Annotated[str, typer.Option(help="Share of the samples of each class to hold out for testing.")]
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
        help="Further column of the index: its name, and the part of a record that it holds, such as "
        "caption=txt or width=json:width for a tar. Repeatable.",
    ),
]
Unlabelled = Annotated[
    bool, typer.Option("--unlabelled", help="Take all images of a folder as samples without labels.")
]
Suffix = Annotated[str | None, typer.Option(help="Text to append to every path of a list, such as .jpg.")]
Images = Annotated[
    str | None,
    typer.Option(
        help="Folder or URL of the images that a list or a file of annotations names; by default the "
        "folder of that file."
    ),
]
Masks = Annotated[
    str | None,
    typer.Option(help="Folder or URL with a mask of class numbers for each image, under the same name."),
]
Instances = Annotated[
    str | None,
    typer.Option(
        help="Folder or URL with a mask for each image. Its values number the objects: class * 1000 + n "
        "as in Cityscapes, or plain numbers if --masks has the classes. For Open Images, the folder with "
        "a mask for each object."
    ),
]
Parallel = Annotated[
    bool,
    typer.Option(
        "--parallel", help="The text files are parallel: the lines with the same number form one sample."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first sample that would be skipped.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a dataset in the target folder.")]
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


def parse_columns(options: list[str] | None) -> dict[str, str] | None:
    """Return the parts of records by the names of their columns, from options such as ``caption=txt``."""
    if options is None:
        return None
    columns = {}
    for option in options:
        name, equals, part = option.partition("=")
        if not (name and equals and part):
            raise ConfigError(f"--column must be a name and a part such as caption=txt, not {option!r}")
        columns[name] = part
    return columns
