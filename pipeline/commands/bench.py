"""The command ``stoker bench``, which compares loaders on a dataset of the user's."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from stoker.errors import ConfigError

from .shared.console import out, table
from .shared.options import Dataset, JsonFile, MinSize, MinVisible, Threads

_AGAINST = "torch,tfdata,dali"


def bench(
    dataset: Dataset,
    against: Annotated[
        str | None,
        typer.Option(
            help="Loaders, with commas between: torch, tfdata, tfdata-plain, dali, ffcv, spdl, ray-data, "
            "tfdata-service. The word all stands for those that are installed. By default "
            f"{_AGAINST}, and on a GPU all.",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(help="Where batches are handed out: cpu, cuda or cuda:N. On a GPU both engines run."),
    ] = "cpu",
    rounds: Annotated[
        int, typer.Option(min=1, help="Measurements of each loader; the medians are printed.")
    ] = 5,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Images in a batch: 64, or 16 with a recipe.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Height and width of the images, in pixels: 224, or what a recipe makes."),
    ] = None,
    transforms: Annotated[
        str | None,
        typer.Option(
            help="Name or file of a recipe: for images with boxes, where coco-hflip is the default, and for "
            "--ablate."
        ),
    ] = None,
    views: Annotated[
        str | None, typer.Option(help="Name or file of a recipe of views, for --ablate.")
    ] = None,
    min_visible: MinVisible = 0.0,
    min_size: MinSize = 0.0,
    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate",
            help="Instead, measure Stoker without reading, without decoding and without augmentation.",
        ),
    ] = False,
    workers: Annotated[
        str | None, typer.Option(help="ray: also measure Stoker with a Ray worker on this machine.")
    ] = None,
    threads: Threads = None,
    json_out: JsonFile = None,
) -> None:
    """Measure images per second of Stoker and of other loaders.

    All loaders do the same work on the same cores: random resized crop, horizontal flip, normalisation,
    float32 (N, C, H, W). Each runs in a separate process, and they take turns. On a GPU, PyTorch copies the
    batches of loaders that leave them on the CPU.

    With --workers ray the command also measures Stoker with one Ray worker on this machine, which has all
    cores. This shows the cost of Ray. Compare it with tfdata-service and ray-data.

    With --ablate the command measures only Stoker: as it is, and without reading, decoding or augmentation,
    in turns after a warm-up. It runs random crops, or the recipe of --transforms. The command says which of
    them is the limit, and what would help. Later verdicts of loaders on this machine with the same dataset
    and transforms say so, too. stoker.augment.save_recipe writes your transforms to a file.

    On a dataset with boxes, the loaders run a recipe, such as coco-ssd or yolo-train, and also hand out boxes
    and their classes. torch runs torchvision's reference pipeline, if the recipe follows one; other loaders
    are left out. --min-visible and --min-size drop objects as a loader with these arguments does.

    Examples:
      stoker bench shards/train
      stoker bench shards/train --against torch,ffcv --batch-size 256 --json result.json
      stoker bench shards/train --device cuda
      stoker bench shards/coco --transforms coco-ssd --batch-size 16
      stoker bench shards/coco --transforms yolo-train --min-visible 0.1 --min-size 2
      stoker bench shards/train --ablate --transforms imagenet-train
      stoker bench shards/train --workers ray --against tfdata-service,ray-data
    """
    if workers not in (None, "ray"):
        raise ConfigError(f"--workers must be ray, found {workers!r}")
    if ablate:
        _refuse({"--against": against is not None, "--device": device != "cpu", "--workers": bool(workers)})
        objects = {"min_visible": min_visible, "min_size": min_size}
        options = {"batch_size": batch_size or 32, "num_threads": threads, **objects}
        _ablate(dataset, (transforms, views, size), options, rounds, json_out)
        return
    if views is not None:
        raise ConfigError("--views is for --ablate: other loaders make no views")
    from stoker.benchmarks.comparison.bench import run_bench
    from stoker.benchmarks.report.table import show

    chosen = against if against is not None else _AGAINST if device == "cpu" else "all"
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    engines = ["stoker", *["stoker-ray"] * bool(workers), *["stoker-dali"] * (device != "cpu")]
    comparison = run_bench(
        dataset,
        names,
        json_out,
        rounds=rounds,
        batch_size=batch_size,
        num_threads=threads,
        size=size,
        device=device,
        transforms=transforms,
        min_visible=min_visible,
        min_size=min_size,
        engines=engines,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    show(comparison, out)


def _refuse(options: Mapping[str, bool]) -> None:
    """Raise ConfigError for options of the comparison that the user has given."""
    refused = [name for name, is_given in options.items() if is_given]
    if refused:
        raise ConfigError(f"--ablate measures Stoker alone, on the CPU, and takes no {', '.join(refused)}")


def _ablate(
    dataset: str,
    work: tuple[str | None, str | None, int | None],
    options: Mapping[str, Any],
    rounds: int,
    json_out: Path | None,
) -> None:
    from stoker.formats.open import open as open_dataset

    from ..images.loader import ImageLoader
    from .shared.loader_arguments import recipe_columns, recipe_transforms

    opened = open_dataset(dataset)
    if opened.manifest.sample_type != "image" or not len(opened):
        raise ConfigError("--ablate is for datasets of images that are not empty", path=opened.path)
    chosen_transforms = recipe_transforms(*work)
    columns = recipe_columns(opened, chosen_transforms) if any(work[:2]) else ("image",)
    with ImageLoader(opened, transforms=chosen_transforms, columns=columns, **options) as loader:
        ablation = loader.ablate(rounds=rounds)
    rows = table("left out", "images/s", "factor")
    for name, rate in ablation.images_per_second.items():
        factor = ablation.factors.get(name)
        rows.add_row(name if factor else "nothing", f"{rate:,.0f}", f"{factor or 1:.2f}")
    out.print(rows)
    out.print(ablation.verdict)
    if json_out is not None:
        measured = {**asdict(ablation), "factors": ablation.factors, "verdict": ablation.verdict}
        json_out.write_text(json.dumps(measured), "utf-8")
