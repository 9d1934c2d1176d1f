"""The command ``stoker convert-text``, which makes datasets of token ids."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from stoker.formats.containers.registry import DEFAULT_CONTAINER

from .console import print_summary, progress
from .options import (
    TOKENIZERS,
    Bos,
    Classes,
    Container,
    Eos,
    Overwrite,
    Parallel,
    ShardRecords,
    Shards,
    ShardSize,
    Strict,
    Target,
    Test,
    Threads,
    Val,
    Vocabulary,
    split_names,
)


def convert_text(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Text files with a sample on each line, .jsonl or .parquet files; also .gz, .zst, patterns "
            "and URLs. Several files form one corpus. - reads standard input."
        ),
    ],
    target: Target,
    tokenizer: Annotated[str | None, typer.Option(help=f"{TOKENIZERS}.")] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            "--text",
            help="Fields of the JSON lines, or names for parallel files, with commas between.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Value of the JSON lines that is the class of a sample.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Further values of the JSON lines that become columns of the index, with commas between."
        ),
    ] = None,
    classes: Classes = None,
    messages: Annotated[
        str | None,
        typer.Option(help="Value of the JSON lines with the messages of a chat, instead of --fields."),
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="chatml, or a Jinja file; by default that of the tokenizer.")
    ] = None,
    train_on: Annotated[
        str | None,
        typer.Option(
            help="What a model is trained on. For chats: assistant (default), last or all. For fields: some "
            "of them, with commas between; all fields then form one sequence."
        ),
    ] = None,
    vocabulary: Vocabulary = None,
    bos: Bos = False,
    eos: Eos = False,
    parallel: Parallel = False,
    container: Container = DEFAULT_CONTAINER,
    seed: Annotated[
        int | None, typer.Option(help="Seed of a shuffle; without it, the lines keep their order.")
    ] = None,
    shard_size: ShardSize = None,
    shard_records: ShardRecords = None,
    shards: Shards = None,
    val: Val = "0",
    test: Test = "0",
    strict: Strict = False,
    overwrite: Overwrite = False,
    threads: Threads = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of processes that make token ids; 0 uses threads. By default chats of 4 MB or more "
            "have one process for each thread, and other texts have none.",
        ),
    ] = None,
) -> None:
    """Convert text into shards of token ids.

    The lengths of the sequences become columns of the index. If the command is stopped, the same command
    continues where it stopped. The same command always writes the same bytes.

    Examples:
      stoker convert-text gsm8k.jsonl shards/gsm8k --fields question,answer --seed 0
      stoker convert-text part-*.txt shards/corpus --tokenizer tokenizer.json
      stoker convert-text 'data/train-*.parquet' shards/corpus --fields text
      stoker convert-text reviews.jsonl shards/reviews --text review --label stars --columns score
      stoker convert-text chats.jsonl shards/chats --messages messages --tokenizer tokenizer.json
      stoker convert-text gsm8k.jsonl shards/sft --fields question,answer --train-on answer
      stoker convert-text val.txt shards/val --vocabulary shards/train --eos
      stoker convert-text - shards/web < web.jsonl
      stoker convert-text train.en train.de shards/pairs --parallel
    """
    options = dict(locals())  # first, so that they are the arguments; most have the same names there
    from stoker.formats.sources.classes import parse_class_names
    from stoker.formats.text.convert import convert_text as run

    options |= {"dst": options.pop("target"), "format": options.pop("container")}
    options |= {"num_threads": options.pop("threads")}
    options |= {"fields": split_names(fields), "columns": split_names(columns)}
    if classes is not None:
        options["classes"] = parse_class_names(classes)
    del options["sources"]
    with (
        tempfile.TemporaryDirectory(prefix="stoker-text-") as scratch,
        progress("converting", "samples", resumes="-" not in sources) as show,
    ):
        files = [_standard_input(Path(scratch)) if source == "-" else source for source in sources]
        options["src"] = files[0] if len(files) == 1 else files
        summary = run(progress=lambda done, total, _bytes, _stage: show(done, total), **options)
    print_summary(summary, "sample")


def _standard_input(folder: Path) -> str:
    """Copy standard input to a file in a folder; its name says JSON Lines if the first character is {."""
    stream = sys.stdin.buffer
    start = stream.read(1)
    file = folder / ("stdin.jsonl" if start == b"{" else "stdin.txt")
    with file.open("wb") as out:
        out.write(start)
        shutil.copyfileobj(stream, out)
    return str(file)
