"""The commands ``stoker convert`` and ``convert-text``, which make datasets of images and of token ids."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from stoker.formats.conversion.convert import convert as run_images
from stoker.formats.conversion.options import ConvertArguments
from stoker.formats.files import temporary_folder
from stoker.formats.options import gather_options
from stoker.formats.sources.options import SOURCE_DESCRIPTIONS
from stoker.formats.text.convert import convert_text as run_text
from stoker.formats.text.options import TextArguments

from .console import print_summary, progress
from .options import Columns, Target, parse_columns, takes_options


@takes_options(ConvertArguments)
def convert(
    source: Annotated[
        str, typer.Argument(help=f"Path or URL of the source: {'; '.join(SOURCE_DESCRIPTIONS.values())}.")
    ],
    target: Target,
    column: Columns = None,
    *,
    options: dict[str, Any],
) -> None:
    """Convert images and their annotations into shards.

    Annotations are labels, objects and masks. The bytes of the images stay as they are, unless --resize or
    --encoding changes them. Files that are not intact images are skipped, and the reasons are printed. If the
    command is stopped, the same command continues where it stopped. The same command always writes the same
    bytes. A source at a URL is read by at least 32 threads by default.

    Examples:
      stoker convert photos/train shards/train --seed 0
      stoker convert photos/train shards/train --seed 0 --restarts
      stoker convert photos/val shards/val --classes shards/train
      stoker convert photos shards/split --val 10% --test 5%
      stoker convert photos shards/small --format lmdb --resize shorter=256
      stoker convert dogs.csv shards/dogs --path-column id --suffix .jpg --label-column breed
      stoker convert train.txt shards/train --images photos --labels labels.txt
      stoker convert instances.json shards/coco --images train2017
      stoker convert data.yaml shards/yolo
      stoker convert train-annotations-bbox.csv shards/openimages --images train
      stoker convert train-annotations-object-segmentation.csv shards/masks --images train --instances masks
      stoker convert leftImg8bit/train shards/cityscapes --instances gtFine/train
      stoker convert 'laion/{00000..00099}.tar' shards/laion --column caption=json:caption
      stoker convert 'data/train-*.parquet' shards/train
      stoker convert captions.jsonl shards/coco --images train2017 --caption-column captions
      stoker convert s3://bucket/photos s3://bucket/shards --engine ray
    """
    if columns := parse_columns(column):
        options["fields"] = {part: name for name, part in columns.items()}
    arguments = gather_options(ConvertArguments, options)
    with progress("converting", "images", resumes=True) as show:
        summary = run_images(source, target, progress=show, **arguments)
    print_summary(summary, "image")


@takes_options(TextArguments)
def convert_text(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Text files with a sample on each line, JSON Lines, .parquet, .arrow, .csv or .tsv; also "
            ".gz, .zst, patterns and URLs. Several files form one corpus. - reads standard input."
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
        temporary_folder("stoker-text-") as scratch,
        progress("converting", "samples", resumes="-" not in sources) as show,
    ):
        files = [_standard_input(Path(scratch)) if source == "-" else source for source in sources]
        summary = run_text(files[0] if len(files) == 1 else files, target, progress=show, **arguments)
    print_summary(summary, "sample")


def _standard_input(folder: Path) -> str:
    """Copy standard input to a file in a folder."""
    file = folder / "stdin"
    with file.open("wb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out)
    return str(file)
