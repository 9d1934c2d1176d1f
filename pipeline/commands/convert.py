"""The command ``stoker convert``, which makes datasets of images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, get_args

import typer

from stoker.formats.containers.registry import DEFAULT_CONTAINER
from stoker.formats.sources.options import SOURCE_DESCRIPTIONS, SourceFormatName

from .console import out, print_summary, progress
from .options import (
    TOKENIZERS,
    Bos,
    Classes,
    Columns,
    Container,
    Eos,
    Images,
    Instances,
    Masks,
    Overwrite,
    ShardRecords,
    Shards,
    ShardSize,
    Strict,
    Suffix,
    Target,
    Test,
    Threads,
    Unlabelled,
    Val,
    Vocabulary,
    parse_columns,
)

_SPLIT = re.compile(r"(train|training|val|valid|validation|test|testing)([-_]?\d{4})?")  # val, val2017


def convert(
    source: Annotated[
        str, typer.Argument(help=f"Path or URL of the source: {'; '.join(SOURCE_DESCRIPTIONS.values())}.")
    ],
    target: Target,
    container: Container = DEFAULT_CONTAINER,
    seed: Annotated[
        int | None, typer.Option(help="Seed of a shuffle; without it, the samples are sorted.")
    ] = None,
    resize: Annotated[
        str | None,
        typer.Option(
            help="Reduce a side to N pixels (shorter=N, longer=N), or make all images HxW: scale each side "
            "(squash=HxW), crop the centre (crop=HxW) or pad with black (fill=HxW)."
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="How images are stored: keep, jpeg, png or raw (RGB bytes).")
    ] = "keep",
    quality: Annotated[
        int | None,
        typer.Option(
            help="Quality of the JPEGs that Stoker encodes, 1 to 100; by default 90. With --encoding jpeg, "
            "images that are JPEGs already are encoded again."
        ),
    ] = None,
    subsampling: Annotated[
        str | None, typer.Option(help="Chroma subsampling of these JPEGs: 444, 422 or 420; by default 420.")
    ] = None,
    restarts: Annotated[
        bool | None,
        typer.Option(
            "--restarts/--no-restarts",
            help="Give JPEGs restart markers, so that a loader decodes crops of them faster. Pixels stay the "
            "same. By default only resized JPEGs get them.",
            show_default=False,
        ),
    ] = None,
    shard_size: ShardSize = None,
    shard_records: ShardRecords = None,
    shards: Shards = None,
    val: Val = "0",
    test: Test = "0",
    class_depth: Annotated[
        int | None,
        typer.Option(help="Number of directory levels that name a class; by default all, as in animals/cat."),
    ] = None,
    unlabelled: Unlabelled = False,
    classes: Classes = None,
    allow_missing_classes: Annotated[
        bool,
        typer.Option(
            "--allow-missing-classes",
            help="Convert even if a class has no image, for instance because its folder is empty.",
        ),
    ] = False,
    follow_links: Annotated[
        bool,
        typer.Option(
            "--follow-links/--no-follow-links", help="Follow links in the source, wherever they lead."
        ),
    ] = True,
    source_format: Annotated[
        str | None,
        typer.Option(
            help=f"Format of the source: {', '.join(get_args(SourceFormatName))}; by default it is detected."
        ),
    ] = None,
    skip_other_classes: Annotated[
        bool,
        typer.Option(
            "--skip-other-classes",
            help="Leave out samples or objects of classes that --classes does not name. By default such a "
            "class is an error.",
        ),
    ] = False,
    min_per_class: Annotated[
        int | None, typer.Option(min=1, help="Leave out classes with fewer images.")
    ] = None,
    max_per_class: Annotated[
        int | None,
        typer.Option(min=1, help="Largest number of images of a class; --seed decides which ones stay."),
    ] = None,
    path_column: Annotated[
        str | None, typer.Option(help="Column of a list with the paths; by default path.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of a list with the labels; by default label.")
    ] = None,
    suffix: Suffix = None,
    images: Images = None,
    masks: Masks = None,
    instances: Instances = None,
    image: Annotated[
        str | None,
        typer.Option(
            help="Suffixes of the images in a tar, by default 'jpg;jpeg;png;webp'; or the column of the "
            "images in Parquet."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Member of a tar with the class, by default cls, or a field such as json:label; or the "
            "column of the labels in Parquet."
        ),
    ] = None,
    column: Columns = None,
    ignore_index: Annotated[int, typer.Option(help="Value of mask pixels that belong to no class.")] = 255,
    class_map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OLD:NEW",
            help="Rename a class; classes that get the same name are joined. Repeatable.",
        ),
    ] = None,
    mask_map: Annotated[
        str | None,
        typer.Option(
            help="Class of each value or colour in masks, such as 0:255,1:0 or #ff0000:1; or a name: ade20k "
            "(value 0 is ignored), cityscapes (labelIds become training classes), none."
        ),
    ] = None,
    caption_column: Annotated[
        str | None,
        typer.Option(
            help="Column of a list or table, or member of a tar (txt, json:captions), with the captions of "
            "an image, which become token ids. The images of a list then need no labels."
        ),
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help=f"Tokenizer of captions: {TOKENIZERS}.")] = None,
    vocabulary: Vocabulary = None,
    bos: Bos = False,
    eos: Eos = False,
    allow_loss: Annotated[
        str | None,
        typer.Option(
            help="Largest share of images and objects that may be left out, such as 10%. The default is 1% "
            "for a source with objects or masks, and no limit for others."
        ),
    ] = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
    engine: Annotated[
        str,
        typer.Option(help="What makes the shards: threads of this process (local) or a Ray cluster (ray)."),
    ] = "local",
    max_pixels: Annotated[
        int | None,
        typer.Option(
            help="Skip images with more pixels than this; 178,956,970 is the default and the largest value."
        ),
    ] = None,
    threads: Threads = None,
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
    options = dict(locals())  # first, so that they are the arguments; most have the same names there
    from stoker.formats.conversion.convert import convert as run
    from stoker.formats.sources.classes import parse_class_names

    options |= {"src": options.pop("source"), "dst": options.pop("target")}
    options |= {"format": options.pop("container"), "num_threads": options.pop("threads")}
    for name in ("image", "label", "column"):
        del options[name]
    given = {"image": image, "label": label, **(parse_columns(column) or {})}
    options["fields"] = {part: name for name, part in given.items() if part is not None} or None
    if classes is not None:
        options["classes"] = parse_class_names(classes)
    if max_pixels is None:
        del options["max_pixels"]
    with progress("converting", "images", resumes=True) as show:
        summary = run(progress=lambda done, total, _bytes, _stage: show(done, total), **options)
    print_summary(summary, "image")
    _warn_of_splits(next(iter(summary.datasets.values())))


def _warn_of_splits(dataset: Path | str) -> None:
    """Print a warning where folders of splits, such as train and val, have become classes."""
    from stoker.formats.dataset.manifest import Manifest
    from stoker.urls import is_url

    if is_url(dataset):
        return
    folders = {name.split("/")[0] for name in Manifest.load(dataset).classes}
    if len(folders) > 1 and all(map(_SPLIT.fullmatch, folders)):
        several = " and ".join(sorted(folders))
        out.print(f"{several} are in the names of the classes: convert each by itself", style="yellow")
