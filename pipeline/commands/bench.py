"""The command ``stoker bench``, which compares loaders on a dataset of the user's."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stoker.errors import ConfigError

from .console import out
from .options import Dataset, JsonFile, MinSize, MinVisible, Threads

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
        typer.Option(
            help="Where batches lie: cpu, cuda or cuda:N. On a GPU both engines run, and the "
            "report says which to name.",
        ),
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
        typer.Option(help="Name or file of a recipe for images with boxes, by default coco-hflip."),
    ] = None,
    min_visible: MinVisible = 0.0,
    min_size: MinSize = 0.0,
    workers: Annotated[
        str | None, typer.Option(help="ray: also measure Stoker with a Ray worker on this machine.")
    ] = None,
    threads: Threads = None,
    json_out: JsonFile = None,
) -> None:
    """Measure images per second of Stoker and of other loaders.

    All loaders do the same work on the same cores: random resized crop, horizontal flip, normalisation,
    float32 (N, C, H, W). Each runs in a separate process, and they take turns. On a GPU, PyTorch copies the
    batches of loaders that leave them on the CPU, and the report says which of Stoker's engines to name.

    With --workers ray the command also measures Stoker with one Ray worker on this machine, which has all
    cores. This shows the cost of Ray. Compare it with tfdata-service and ray-data.

    On a dataset with boxes, the loaders run a recipe, such as coco-ssd or yolo-train, and also hand out boxes
    and their classes. torch runs torchvision's reference pipeline, if the recipe follows one; other loaders
    are left out. --min-visible and --min-size drop objects as a loader with these arguments does.

    Examples:
      stoker bench shards/train
      stoker bench shards/train --against torch,ffcv --batch-size 256 --json result.json
      stoker bench shards/train --device cuda
      stoker bench shards/coco --transforms coco-ssd --batch-size 16
      stoker bench shards/coco --transforms yolo-train --min-visible 0.1 --min-size 2
      stoker bench shards/train --workers ray --against tfdata-service,ray-data
    """
    if workers not in (None, "ray"):
        raise ConfigError(f"--workers must be ray, found {workers!r}")
    from stoker.benchmarks.comparison.bench import run_bench
    from stoker.benchmarks.comparison.results import show

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
