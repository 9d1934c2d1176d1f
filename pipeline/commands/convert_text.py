"""The command ``stoker convert-text``, which makes datasets of token ids."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from stoker.formats.options import gather_options
from stoker.formats.text.convert import convert_text as run
from stoker.formats.text.options import TextArguments

from .console import print_summary, progress
from .options import Target, takes_options


@takes_options(TextArguments)
def convert_text(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Text files with a sample on each line, .jsonl or .parquet files; also .gz, .zst, patterns "
            "and URLs. Several files form one corpus. - reads standard input."
        ),
    ],
    target: Target,
    *,
    options: dict[str, Any],
) -> None:
    """Convert text into shards of token ids.

    The lengths of the sequences become columns of the index. If the command is stopped, the same command
    continues where it stopped. The same command always writes the same bytes.

    Examples:
      stoker convert-text gsm8k.jsonl shards/gsm8k --tokenizer bytes --fields question,answer --seed 0
      stoker convert-text part-*.txt shards/corpus --tokenizer tokenizer.json
      stoker convert-text 'data/train-*.parquet' shards/corpus --tokenizer bytes --fields text
      stoker convert-text reviews.jsonl shards/reviews --tokenizer bytes --fields review --label stars
      stoker convert-text chats.jsonl shards/chats --messages messages --tokenizer tokenizer.json
      stoker convert-text gsm8k.jsonl shards/sft --tokenizer bytes --fields question,answer --train-on answer
      stoker convert-text val.txt shards/val --vocabulary shards/train --eos
      stoker convert-text - shards/web --tokenizer bytes < web.jsonl
      stoker convert-text train.en train.de shards/pairs --tokenizer bytes --parallel
    """
    arguments = gather_options(TextArguments, options)
    with (
        tempfile.TemporaryDirectory(prefix="stoker-text-") as scratch,
        progress("converting", "samples", resumes="-" not in sources) as show,
    ):
        files = [_standard_input(Path(scratch)) if source == "-" else source for source in sources]
        summary = run(files[0] if len(files) == 1 else files, target, progress=show, **arguments)
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
