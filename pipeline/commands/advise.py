"""The command ``stoker advise``, which says what a training step needs of data and machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.table import Table

from stoker.errors import ConfigError
from stoker.formats.conversion.options import ImageStorage
from stoker.formats.files import parse_byte_size
from stoker.formats.open import open as open_dataset
from stoker.formats.threads import available_cores

from .console import count, human_bytes, out, print_json, table
from .conversion_gain import Gain, measure_gain
from .options import Dataset, JsonOutput


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
    opened = open_dataset(dataset)
    if opened.manifest.sample_type != "image" or not len(opened):
        raise ConfigError("advise is for datasets of images that are not empty", path=opened.path)
    local_cores = available_cores()
    demand = Demand(
        images_per_second=ranks * batch_size / step_ms * 1e3,
        cores=cores or local_cores,
        measured_cores=local_cores,
        bandwidth=None if bandwidth is None else parse_byte_size("bandwidth", bandwidth),
        ranks=ranks,
        batch_bytes=batch_size * 3 * size * size * 4,
    )
    gains = measure_gain(opened, images, forms=TRAINING_FORMS, size=size)
    advice = [advise_on(gain, demand, len(opened)) for gain in gains]
    cluster = None
    if network is not None:
        link = parse_byte_size("network", network)
        cluster = demand_of_cluster(advice[0], demand, 3 * size * size, advice[0].bytes / len(opened), link)
    if as_json:
        found = {"demand": asdict(demand), "forms": list(map(asdict, advice))}
        print_json(found | ({"cluster": asdict(cluster)} if cluster else {}))
        return
    out.print(f"The step needs {demand.images_per_second:,.0f} images/s on {demand.cores} cores.")
    out.print(_table(advice))
    out.print(_conclusion(advice, demand))
    for sentence in cluster_sentences(cluster) if cluster else ():
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
            human_bytes(form_advice.memory),
            f"{human_bytes(form_advice.bytes_per_second)}/s",
            f"{form_advice.waits:.0%}" if form_advice.waits else "no",
            human_bytes(form_advice.bytes),
        )
    return rows


def _conclusion(advice: list[Advice], demand: Demand) -> str:
    """The first form that is fast enough, or the fastest with what is missing; and its memory."""
    enough = next((form_advice for form_advice in advice if not form_advice.waits), None)
    best = enough or min(advice, key=lambda form_advice: form_advice.waits)
    batches = _BATCHES * demand.batch_bytes
    decoders = best.memory - batches - LIBRARY_BYTES
    memory = (
        f"A rank needs up to {human_bytes(best.memory)} of memory: {human_bytes(batches)} for {_BATCHES} "
        f"batches of {human_bytes(demand.batch_bytes)} each, as float32, {human_bytes(decoders)} for the "
        f"decoders of {count(best.threads, 'thread')}, and {human_bytes(LIBRARY_BYTES)} for libraries."
    )
    if enough:
        verdict = f"Convert them: {enough.form} is fast enough"
        verdict = "The images are fast enough as they are" if enough is advice[0] else verdict
        return f"{verdict}, with num_threads={enough.threads}. {memory}"
    lacks = [f"{best.cores_needed:,.1f} cores"] if best.cores_needed > demand.cores else []
    if demand.bandwidth is not None and best.bytes_per_second > demand.bandwidth:
        lacks.append(f"{human_bytes(best.bytes_per_second)} a second from the storage")
    return (
        f"No form is fast enough. {best.form} waits least, {best.waits:.0%} of the time, and needs "
        f"{' and '.join(lacks)}. {memory}"
    )


TRAINING_FORMS: Mapping[str, Mapping[str, Any]] = {
    "stoker convert --restarts": {"storage": ImageStorage(restarts=True)},
    "stoker convert --resize shorter=256": {"resize": "shorter=256"},
    "stoker convert --resize shorter=256 --encoding raw": {"resize": "shorter=256", "encoding": "raw"},
}
"""Options of a conversion by the command, from the one that changes images least."""

_BATCHES = 4 + 2  # made ahead by default; and one in the loop, one whose memory is used next
_OF_A_THREAD = 1 << 20
LIBRARY_BYTES = 40 << 20  # PyArrow, and the C++ module


def memory_of_rank(batch_bytes: int, decoder_bytes: int, threads: int) -> int:
    """The most memory in bytes that a rank needs, besides the program that trains.

    Shards and index are mapped: the operating system keeps their bytes while it has room, and they do not
    count. ``decoder_bytes`` is the most that decoding an image takes.
    """
    return _BATCHES * batch_bytes + threads * (_OF_A_THREAD + decoder_bytes) + LIBRARY_BYTES


@dataclass(frozen=True)
class Demand:
    """What the steps of all ranks of a machine need."""

    images_per_second: float  # Images that the steps take if they never wait
    cores: int  # Cores of the machine
    measured_cores: int  # Cores with which rates were measured
    bandwidth: int | None = None  # Bytes a second from the storage; None for no limit
    ranks: int = 1
    batch_bytes: int = 0  # Bytes of a batch of one rank


@dataclass(frozen=True)
class Advice:
    """A form of the images, and how it meets a :class:`Demand`."""

    form: str  # The command that makes the form
    images_per_second: float  # Rate of all cores of the machine: their number times the rate of one core
    cores_needed: float  # Cores that together reach the rate of the demand
    bytes_per_second: float  # Bytes from the storage at the rate that the step needs
    waits: float  # Share of the time for which the step waits, 0 to 1
    bytes: int  # Bytes of all images in this form
    threads: int  # Threads of a rank with which its step does not wait; at most its share of the cores
    memory: int  # Bytes that a rank needs with these threads


def advise_on(gain: Gain, demand: Demand, images: int) -> Advice:
    """Return how a measured form of ``images`` images meets the demand."""
    of_a_core, bytes_per_image = gain.images_per_second / demand.measured_cores, gain.bytes / images
    rate, needed = of_a_core * demand.cores, demand.images_per_second / of_a_core
    threads = max(1, min(math.ceil(needed / demand.ranks), demand.cores // demand.ranks))
    from_storage = math.inf if demand.bandwidth is None else demand.bandwidth / bytes_per_image
    return Advice(
        form=gain.form,
        images_per_second=rate,
        cores_needed=needed,
        bytes_per_second=demand.images_per_second * bytes_per_image,
        waits=max(0.0, 1 - min(rate, from_storage) / demand.images_per_second),
        bytes=gain.bytes,
        threads=threads,
        memory=memory_of_rank(demand.batch_bytes, gain.decoder_bytes, threads),
    )


@dataclass(frozen=True)
class ClusterDemand:
    """What :class:`stoker.RayWorkers` need beside the machine that trains."""

    form: str  # Form of the images whose rate counts
    cores: float  # Cores that workers must have, if they are as fast as those of this machine
    workers_rate: float  # Images a second that workers make
    pixel_bytes: int  # Bytes of an image as uint8
    payload_bytes: float  # Bytes of an image in its form
    network: int  # Bytes a second of the link


def demand_of_cluster(
    best: Advice, demand: Demand, pixel_bytes: int, payload_bytes: float, network: int
) -> ClusterDemand:
    """What a cluster must add."""
    cores = max(0.0, best.cores_needed - demand.cores)
    rate = max(0.0, demand.images_per_second - best.images_per_second)
    return ClusterDemand(best.form, cores, rate, pixel_bytes, payload_bytes, network)


def cluster_sentences(cluster: ClusterDemand) -> Iterator[str]:
    """What the numbers mean."""
    if not cluster.cores:
        yield "The cores of this machine are enough, so workers on a cluster would not help."
        return
    carried = cluster.network / cluster.pixel_bytes
    yield (
        f"With workers on a cluster ({cluster.form}): {cluster.cores:,.1f} more cores such as these make "
        f"{cluster.workers_rate:,.0f} images/s. A link of {human_bytes(cluster.network)}/s carries "
        f"{carried:,.0f} images/s of uint8, as workers send them ({human_bytes(cluster.pixel_bytes)} each)."
    )
    if carried < cluster.workers_rate:
        share = carried / cluster.workers_rate
        yield f"The link is too slow: it carries {share:.0%} of what the workers would make."
    if cluster.payload_bytes < cluster.pixel_bytes:
        yield (
            f"An encoded image takes {human_bytes(cluster.payload_bytes)} of the link, less than its "
            "pixels: if the machine that trains has the cores, let it read the shards over the link."
        )
