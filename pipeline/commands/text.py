"""The commands for text: ``stoker convert-text | buckets``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.errors import ConfigError

from .console import out, print_summary, progress, table
from .options import Container, ShardRecords, Shards, ShardSize  # noqa: TC001 - Typer reads them at run time

if TYPE_CHECKING:
    from rich.table import Table

    from stoker.bucketing import PlanReport

__all__ = ["buckets", "convert_text", "register"]


# Typer reads these annotations at run time.
Dataset = Annotated[str, typer.Argument(help="A dataset: the folder that convert-text made.")]

_BUCKETS_SHOWN = 32
_MEANING = """\
a sample: tokens of padding. bound: least padding with as many padded lengths, in percent.
ranks: useful work over slowest rank. alike: correlation of lengths within a batch.
next: correlation of successive batches. partners: samples that one may share a batch with, effectively."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("convert-text")(convert_text)
    app.command("buckets")(buckets)


def _names(fields: str | None) -> list[str] | None:
    return None if fields is None else [name.strip() for name in fields.split(",")]


def convert_text(  # noqa: PLR0917 - Typer makes an option of each argument
    sources: Annotated[
        list[str],
        typer.Argument(help="Text, one sample a line, or .jsonl; several files are parallel. Also .gz."),
    ],
    target: Annotated[
        str, typer.Argument(help="Folder to write; with --val or --test, a folder a split in it.")
    ],
    tokenizer: Annotated[
        str, typer.Option(help="whitespace, bytes, or a Hugging Face tokenizers JSON.")
    ] = "whitespace",
    fields: Annotated[
        str | None, typer.Option(help="By comma: fields of JSON lines, or names of parallel files.")
    ] = None,
    container: Container = "tfrecord",
    seed: Annotated[
        int | None, typer.Option(help="Shuffle by this seed; without it, lines keep their order.")
    ] = None,
    shard_size: ShardSize = None,
    shard_records: ShardRecords = None,
    shards: Shards = None,
    val: Annotated[str, typer.Option(help="Share held out for validation, such as 10%.")] = "0",
    test: Annotated[str, typer.Option(help="Share held out for testing.")] = "0",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line that would be skipped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what stands in the target.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; by default the cores allowed.")] = None,
) -> None:
    """Turn text into shards of token ids.

    Their lengths are columns of the index. Run again after it was stopped, the command goes on where it was;
    the same command always writes the same bytes.

    stoker convert-text gsm8k.jsonl shards/gsm8k --fields question,answer --seed 0

    stoker convert-text train.en train.de shards/pairs --tokenizer tokenizer.json
    """
    from stoker.formats.text.convert import convert_text as run

    options: dict[str, Any] = {  # any text here; convert_text() says what may stand there
        "format": container,
        "shard_size": shard_size,
        "shard_records": shard_records,
        "shards": shards,
    }
    with progress("converting", "samples", resumes=True) as show:
        summary = run(
            sources[0] if len(sources) == 1 else sources,
            target,
            tokenizer=tokenizer,
            fields=_names(fields),
            seed=seed,
            val=val,
            test=test,
            strict=strict,
            overwrite=overwrite,
            num_threads=threads,
            progress=lambda done, total, _bytes, _stage: show(done, total),
            **options,
        )
    print_summary(summary, "sample")


def buckets(  # noqa: PLR0917 - likewise
    dataset: Dataset,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples a batch on one rank.")] = 32,
    number: Annotated[int, typer.Option("--buckets", min=1, max=1000, help="Number of padded lengths.")] = 8,
    pad_multiple: Annotated[int, typer.Option(min=1, help="Padded lengths are multiples of this.")] = 1,
    pack: Annotated[int | None, typer.Option(min=1, help="Show packed rows of so many tokens, too.")] = None,
    ranks: Annotated[int, typer.Option(min=1, help="Number of ranks.")] = 1,
    fields: Annotated[str | None, typer.Option(help="Which fields, by comma; all by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is drawn.")] = 0,
    method: Annotated[
        str, typer.Option(help="Which line of the table to show by bucket, and in the picture.")
    ] = "optimal",
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file, too.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw lengths, boundaries and padding into this file.")
    ] = None,
) -> None:
    """Compare ways to batch text by length.

    By padding, shapes, ranks, and what each costs in randomness. Only the index is read.

    stoker buckets shards/gsm8k --fields answer --pack 256 --ranks 8 --png answer.png
    """
    from stoker.formats.open import open as open_dataset

    from ..text.bucket_comparison import Settings, compare_methods, text_lengths

    lengths = text_lengths(open_dataset(dataset), _names(fields))
    settings = Settings(batch_size, number, pad_multiple, pack, ranks, seed)
    reports = compare_methods(lengths, settings)
    if method not in reports:
        raise ConfigError(f"method must be one of {', '.join(reports)}, found {method!r}")
    out.print(_comparison(reports))
    out.print(f"{_MEANING}\n", style="dim")
    out.print(_by_bucket(reports[method], method))
    if json_out is not None:
        document = {name: report.as_dict() for name, report in reports.items()}
        json_out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    if png is not None:
        from stoker.bucketing.report.plot import plot_report

        plot_report(reports[method], lengths, png, title=f"{Path(dataset).name}: {method}")


def _comparison(reports: dict[str, PlanReport]) -> Table:
    made = table("method", "padding %", "a sample", "shapes", "bound %", "ranks", "alike", "next", "partners")
    for name, report in reports.items():
        made.add_row(
            name,
            f"{report.padding:.2f}",
            f"{report.padding_per_sample:.3f}",
            f"{report.shapes:,}",
            f"{report.lower_bound:.2f}",
            f"{report.efficiency_linear:.4f}",
            *(
                "-" if value is None else f"{value:{form}}"
                for value, form in (
                    (report.intraclass_correlation, ".3f"),
                    (report.lag1_autocorrelation, ".3f"),
                    (report.effective_partners, ",.0f"),
                )
            ),
        )
    return made


def _by_bucket(report: PlanReport, method: str) -> Table:
    made = table("padded to", "samples", "tokens", "padding %")
    made.title = method
    for bucket in report.buckets[:_BUCKETS_SHOWN]:
        length = " x ".join(map(str, bucket.length))
        made.add_row(length, f"{bucket.samples:,}", f"{bucket.tokens:,}", f"{bucket.padding:.2f}")
    if len(report.buckets) > _BUCKETS_SHOWN:
        made.add_row(f"and {len(report.buckets) - _BUCKETS_SHOWN:,} more", "", "", "")
    return made
