"""The commands ``stoker convert`` and ``stoker index``, which make datasets of images."""

from __future__ import annotations

import re
from pathlib import Path  # noqa: TC003 - Typer reads it at run time
from typing import Annotated, Any

import typer

from stoker.formats.remote.store import is_url

from .console import count, out, print_skipped, print_summary, progress
from .options import Container, ShardRecords, Shards, ShardSize  # noqa: TC001 - Typer reads them at run time

__all__ = ["convert", "index", "register"]

_SPLIT = re.compile(r"(train|training|val|valid|validation|test|testing)([-_]?\d{4})?")  # val, val2017


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("convert")(convert)
    app.command("index")(index)


def convert(  # noqa: PLR0917 - Typer makes an option of each argument
    source: Annotated[
        str,
        typer.Argument(
            help="A folder or URL, one class a directory; a .csv, .json or .jsonl list; COCO's JSON; a "
            "folder of Pascal VOC or YOLO; or, with --masks, a folder of images."
        ),
    ],
    target: Annotated[
        str, typer.Argument(help="Folder or URL to write; with --val or --test, a folder a split in it.")
    ],
    container: Container = "tfrecord",
    seed: Annotated[
        int | None, typer.Option(help="Shuffle by this seed; without it, samples are sorted.")
    ] = None,
    resize: Annotated[
        str | None, typer.Option(help="shorter=N, longer=N, squash=HxW, crop=HxW or fill=HxW, in pixels.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="keep, jpeg, png, or raw RGB bytes.")] = "keep",
    quality: Annotated[
        int | None,
        typer.Option(
            help="JPEG quality of what is encoded anew, 1 to 100; by default 90. With --encoding jpeg, JPEGs "
            "are, too, where it is given."
        ),
    ] = None,
    subsampling: Annotated[
        str | None, typer.Option(help="JPEG chroma subsampling likewise: 444, 422 or, by default, 420.")
    ] = None,
    shard_size: ShardSize = None,
    shard_records: ShardRecords = None,
    shards: Shards = None,
    val: Annotated[str, typer.Option(help="Share of each class held out for validation, such as 10%.")] = "0",
    test: Annotated[str, typer.Option(help="Share of each class held out for testing.")] = "0",
    class_depth: Annotated[
        int | None,
        typer.Option(help="Directory levels that name a class; by default all, as in animals/cat."),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Names of classes, that of label 0 first: by comma, a file with a name a line, or a "
            "dataset. By default those of the source."
        ),
    ] = None,
    source_format: Annotated[
        str | None,
        typer.Option(help="folder, list, coco, voc, yolo or pairs; without it, the source is looked at."),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(help="Folder of the images of a COCO JSON, or its URL; by default that of the file."),
    ] = None,
    masks: Annotated[
        str | None,
        typer.Option(help="Folder with a mask of classes for each image, of the same name, or its URL."),
    ] = None,
    ignore_index: Annotated[int, typer.Option(help="Value in masks of what belongs to no class.")] = 255,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first image or object that would be skipped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what stands in the target.")
    ] = False,
    engine: Annotated[
        str, typer.Option(help="local, or ray: the shards are tasks of a Ray cluster.")
    ] = "local",
    max_pixels: Annotated[
        int | None,
        typer.Option(help="Skip images of more pixels; by default 178,956,970, which is the most."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; by default the cores allowed, 32 or more from a URL.")
    ] = None,
) -> None:
    """Turn images and what is known of them into shards.

    Labels, objects and masks come along.
    Bytes are kept as they are unless --resize or --encoding says otherwise. What is no image, or a broken
    one, is skipped with a reason. Run again after it was stopped, the command goes on where it was; the same
    command always writes the same bytes.

    stoker convert photos/train shards/train --seed 0

    stoker convert photos/train shards/small --format lmdb --resize shorter=256 --quality 90

    stoker convert photos shards/split --val 10% --test 5%

    stoker convert photos/val shards/val --classes shards/train

    stoker convert s3://bucket/photos s3://bucket/shards --engine ray
    """
    from stoker.formats.conversion.convert import convert as run
    from stoker.formats.sources.class_names import parse_class_names

    options: dict[str, Any] = {  # any text here; convert() says what may stand there
        "format": container,
        "encoding": encoding,
        "engine": engine,
        "source_format": source_format,
        "shard_size": shard_size,
        "shard_records": shard_records,
        "shards": shards,
    }
    if max_pixels is not None:
        options["max_pixels"] = max_pixels
    with progress("converting", "images", resumes=True) as show:
        summary = run(
            source,
            target,
            seed=seed,
            resize=resize,
            quality=quality,
            subsampling=subsampling,
            val=val,
            test=test,
            class_depth=class_depth,
            classes=None if classes is None else parse_class_names(classes),
            images=images,
            masks=masks,
            ignore_index=ignore_index,
            strict=strict,
            overwrite=overwrite,
            num_threads=threads,
            progress=lambda done, total, _bytes, _stage: show(done, total),
            **options,
        )
    print_summary(summary, "image")
    _say_of_splits(next(iter(summary.datasets.values())))


def _say_of_splits(dataset: Path | str) -> None:
    """Say so where the folders of splits have become part of the names of classes."""
    from stoker.formats.dataset.manifest import Manifest

    if is_url(dataset):
        return
    folders = {name.split("/")[0] for name in Manifest.load(dataset).classes}
    if len(folders) > 1 and all(map(_SPLIT.fullmatch, folders)):
        several = " and ".join(sorted(folders))
        out.print(f"{several} are in the names of the classes: convert each by itself", style="yellow")


def index(  # noqa: PLR0917 - likewise
    shards: Annotated[
        list[str],
        typer.Argument(help="TFRecord files of tf.train.Example, or LMDB folders; or URLs, also with *."),
    ],
    into: Annotated[str, typer.Option(help="Folder for the index; the shards stay where they are.")],
    container: Annotated[str, typer.Option("--format", help="tfrecord, lmdb, or auto to look.")] = "auto",
    image: Annotated[str, typer.Option(help="Feature that holds the encoded image.")] = "image/encoded",
    label: Annotated[str, typer.Option(help="Feature that holds the label.")] = "image/class/label",
    text: Annotated[str, typer.Option(help="Feature that holds the name of the class.")] = "image/class/text",
    key: Annotated[str, typer.Option(help="Feature that names the sample.")] = "image/filename",
    classes: Annotated[
        str | None,
        typer.Option(
            help="Names of classes, that of label 0 first: by comma, a file with a name a line, or a "
            "dataset. By default those in the records."
        ),
    ] = None,
) -> None:
    """Make a dataset of shards that others wrote.

    The shards stay as they are.

    stoker index imagenet/train-*.tfrecord --into shards/imagenet

    stoker index caffe/train_lmdb --into shards/train --classes cat,dog
    """
    from stoker.formats.external.external_index import FeatureNames
    from stoker.formats.external.external_index import index as run
    from stoker.formats.sources.class_names import parse_class_names

    names = FeatureNames(encoded=image, label=label, text=text, key=key)
    with progress("indexing", "bytes") as show:
        manifest = run(
            shards,
            into,
            container=container,
            names=names,
            classes=None if classes is None else parse_class_names(classes),
            progress=show,
        )
    print_skipped(manifest.skipped)
    if manifest.container == "tfrecord" and "label" not in manifest.columns:
        out.print(f"no labels: no record has the feature {label!r} (--label names another)", style="yellow")
    out.print(f"{count(manifest.index.rows, 'sample')} of {count(len(manifest.shards), 'shard')}: {into}")
