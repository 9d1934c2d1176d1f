"""The command ``stoker advise``, which says what a training step needs of data and machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stoker.errors import ConfigError

from ..shared.console import human_bytes, out, print_json, table
from ..shared.options import Dataset, JsonOutput

if TYPE_CHECKING:
    from .demand import Advice, Demand


def advise(
    dataset: Dataset,
    step_ms: Annotated[
        float, typer.Option(min=0.01, help="Milliseconds that a training step takes when it need not wait.")
    ],
    batch_size: Annotated[int, typer.Option(min=1, help="Images in a batch of one rank.")] = 64,
    ranks: Annotated[int, typer.Option(min=1, help="Ranks on the machine that trains.")] = 1,
    size: Annotated[int, typer.Option(min=1, help="Side of the random crops, in pixels.")] = 224,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="Cores of the machine that trains; by default those of this machine."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(help="Bytes a second from the storage of the machine that trains, such as 150MB."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="Bytes a second of the link to a Ray cluster, such as 1.25GB for 10 Gbit/s."),
    ] = None,
    images: Annotated[int, typer.Option(min=32, help="Images to measure.")] = 192,
    as_json: JsonOutput = False,
) -> None:
    """Say whether a training step would wait for images, and what to convert them to.

    The command converts some images to several encodings in a temporary folder. It measures how many random
    crops a second the native engine makes of each, flipped and normalised, with the bytes in memory. This
    takes some seconds. Threads and memory are those of a rank. For another number of cores it multiplies the
    rate of one core of this machine. With --network it also says how many cores of a Ray cluster would make
    the missing images, and how many images the link carries.

    Examples:
      stoker advise shards/train --step-ms 180 --batch-size 256
      stoker advise shards/train --step-ms 180 --batch-size 256 --ranks 8 --cores 96 --bandwidth 1.2GB
      stoker advise shards/train --step-ms 180 --batch-size 256 --ranks 8 --cores 32 --network 1.25GB
    """
    from stoker.formats.files import parse_byte_size
    from stoker.formats.open import open as open_dataset

    from ..description.conversion_gain import measure_gain
    from .demand import TRAINING_FORMS, Demand, advise_on, cluster_demand

    opened = open_dataset(dataset)
    if opened.manifest.sample_type != "image" or not len(opened):
        raise ConfigError("advise is for datasets of images that are not empty", path=opened.path)
    local_cores = len(os.sched_getaffinity(0))
    demand = Demand(
        images_per_second=ranks * batch_size / step_ms * 1e3,
        cores=cores or local_cores,
        measured_cores=local_cores,
        bandwidth=None if bandwidth is None else parse_byte_size("bandwidth", bandwidth),
        ranks=ranks,
        batch_bytes=batch_size * 3 * size * size * 4,
    )
    gains = measure_gain(opened, images, forms=TRAINING_FORMS, size=size)
    advice = advise_on(gains, demand, len(opened))
    cluster = None
    if network is not None:
        first = advice[0]  # as they are
        link = parse_byte_size("network", network)
        cluster = cluster_demand(first, demand, 3 * size * size, first.bytes / len(opened), link)
    if as_json:
        forms = [{**asdict(one), "memory": one.memory.total} for one in advice]
        found = {"demand": asdict(demand), "forms": forms}
        print_json(found | ({"cluster": asdict(cluster)} if cluster else {}))
        return
    out.print(f"The step needs {demand.images_per_second:,.0f} images/s on {demand.cores} cores.")
    out.print(_table(advice))
    out.print(_conclusion(advice, demand))
    for sentence in cluster.sentences if cluster else ():
        out.print(sentence)


def _table(advice: list[Advice]) -> Table:
    titles = ("images/s", "cores needed", "threads", "memory", "from storage", "the step waits", "all images")
    rows = table("form", *titles)
    for form_advice in advice:
        rows.add_row(
            form_advice.form,
            f"{form_advice.images_per_second:,.0f}",
            f"{form_advice.cores_needed:,.1f}",
            str(form_advice.threads),
            human_bytes(form_advice.memory.total),
            f"{human_bytes(form_advice.bytes_per_second)}/s",
            f"{form_advice.waits:.0%}" if form_advice.waits else "no",
            human_bytes(form_advice.bytes),
        )
    return rows


def _conclusion(advice: list[Advice], demand: Demand) -> str:
    """Return the first form that is fast enough, or the fastest with what is missing; and its memory."""
    enough = next((form_advice for form_advice in advice if not form_advice.waits), None)
    if enough:
        verdict = f"Convert them: {enough.form} is fast enough"
        verdict = "The images are fast enough as they are" if enough is advice[0] else verdict
        return f"{verdict}, with num_threads={enough.threads}. {enough.memory.sentence}"
    best = min(advice, key=lambda form_advice: form_advice.waits)
    lacks = [f"{best.cores_needed:,.1f} cores"] if best.cores_needed > demand.cores else []
    if demand.bandwidth is not None and best.bytes_per_second > demand.bandwidth:
        lacks.append(f"{human_bytes(best.bytes_per_second)} a second from the storage")
    return (
        f"No form is fast enough. {best.form} waits least, {best.waits:.0%} of the time, and needs "
        f"{' and '.join(lacks)}. {best.memory.sentence}"
    )
