"""The command line; ``stoker --help`` lists its commands.

Commands are thin: each reads its options, calls one public function and prints what it returns. What a
command needs is imported when it runs, so that ``stoker --help`` is instant.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.errors import StokerError

from . import convert as cli_convert
from . import preview as cli_preview
from . import stage as cli_stage
from . import text as cli_text
from .console import count, human_bytes, out, plain, print_error, print_json, print_rows, progress

if TYPE_CHECKING:
    from stoker.formats.dataset.dataset import Dataset as StokerDataset
    from stoker.formats.dataset.pixel_statistics import PixelStatistics
    from stoker.formats.verification.verify import Report

__all__ = ["app", "main"]

app = typer.Typer(
    name="stoker",
    help="Keeps the training step fed: shards from images and text, and batches from shards.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer reads these annotations at run time.
Dataset = Annotated[str, typer.Argument(help="A dataset: the folder that convert or index made.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; by default the cores allowed.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result to this file, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def main() -> None:
    """Run the command line; an error of ours or of the operating system ends it with exit status 1."""
    if isinstance(sys.stdout, TextIOWrapper):  # names may have letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (StokerError, OSError) as error:
        print_error(error)
        sys.exit(1)


def _show_version(asked: bool) -> None:
    if asked:
        from stoker import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


cli_convert.register(app)


@app.command()
def verify(
    dataset: Dataset,
    decode: Annotated[
        bool, typer.Option("--decode", help="Decode every image as well; takes far longer.")
    ] = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Check every byte of a dataset.

    Exit status 1 if anything is wrong.
    """
    from stoker.formats.verification.verify import verify as run

    from .describe_json import report_json

    with progress("verifying", "samples") as show:
        report = run(dataset, decode=decode, num_threads=threads, progress=show)
    if as_json:
        print_json(report_json(report))
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _print_report(report: Report) -> None:
    for problem in report.problems:
        out.print(plain(str(problem)), style="red")
    checked = f"{count(report.samples, 'sample')}, {human_bytes(report.bytes)}"
    if report.ok:
        out.print(f"good: {checked}{', all decoded' if report.decoded else ''}", style="green")
    else:
        out.print(f"{count(report.found, 'problem')} in {checked}", style="bold red")


@app.command()
def info(
    dataset: Dataset,
    pixels: Annotated[
        bool, typer.Option("--pixels", help="Decode all images: channel means, deviations.")
    ] = False,
    mean_image: Annotated[
        Path | None,
        typer.Option(help="Write the mean image, 256x256, to this .png or .npy; --pixels is implied."),
    ] = None,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Say what a dataset holds.

    With --pixels, also what Normalize wants.
    """
    from stoker.formats.open import open as open_dataset

    from .describe import class_table, facts
    from .describe_json import dataset_json

    opened = open_dataset(dataset)
    if not as_json:
        print_rows(facts(opened))
        if opened.num_classes:
            out.print(class_table(opened))
    found = _pixels(opened, mean_image, threads) if pixels or mean_image is not None else None
    if as_json:
        more = {} if found is None else {"mean": found.mean, "std": found.std}
        print_json({**dataset_json(opened), **more})
    elif found is not None:
        mean, std = (tuple(round(value, 4) for value in values) for values in (found.mean, found.std))
        out.print(f"Normalize(mean={mean}, std={std})")
        if mean_image is not None:
            out.print(f"mean image, {found.mean_image.shape[0]}x{found.mean_image.shape[1]}: {mean_image}")


@app.command()
def bench(
    dataset: Dataset,
    against: Annotated[
        str, typer.Option(help="By comma: torch, tfdata, tfdata-plain, dali, ffcv, spdl.")
    ] = "torch,tfdata,dali",
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; medians are printed.")] = 5,
    batch_size: Annotated[int, typer.Option(min=1, help="Images a batch.")] = 64,
    size: Annotated[int, typer.Option(min=1, help="Height and width of the output, pixels.")] = 224,
    threads: Threads = None,
    json_out: Json = None,
) -> None:
    """Measure images a second beside other loaders.

    All on the same cores, each in a process of its own, in turns: random resized crop, flip, normalise,
    float32 NCHW.
    """
    from stoker.benchmarks.bench import run_bench
    from stoker.benchmarks.table import show

    names = [name.strip() for name in against.split(",") if name.strip()]
    comparison = run_bench(
        dataset,
        names,
        json_out,
        rounds=rounds,
        batch_size=batch_size,
        num_threads=threads,
        size=size,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    show(comparison, out)


@app.command()
def doctor() -> None:
    """Say what is installed and which engine would run."""
    from .doctor import examine

    findings = examine()
    print_rows([(finding.subject, finding.found) for finding in findings])
    for finding in findings:
        if finding.advice:
            out.print(f"{finding.subject}: {finding.advice}", style="yellow")


def _pixels(opened: StokerDataset, mean_image: Path | None, threads: int | None) -> PixelStatistics:
    """Statistics of all pixels; the mean image goes to its file."""
    from stoker.formats.dataset.pixel_statistics import check_mean_image, pixel_statistics, save_mean_image

    if mean_image is not None:
        check_mean_image(mean_image)
    with progress("decoding", "images") as show:
        found = pixel_statistics(opened, num_threads=threads, progress=show)
    if mean_image is not None:
        save_mean_image(mean_image, found.mean_image)
    return found


cli_preview.register(app)
cli_stage.register(app)
cli_text.register(app)
