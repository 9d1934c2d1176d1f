"""The command ``stoker index``, which makes a dataset of shards of other programs, or of image files."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stoker.errors import ConfigError
from stoker.formats.containers.container import CONTAINERS, external
from stoker.formats.containers.image_record import LABEL_TYPES, parse_shape

from .console import count, out, print_skipped, progress
from .options import Classes, Columns, Unlabelled, parse_columns


def index(
    shards: Annotated[
        list[str],
        typer.Argument(
            help=f"{', '.join(CONTAINERS[name].plural for name in external())}; or their URLs. Or one folder "
            "or one list of images."
        ),
    ],
    into: Annotated[str, typer.Option(help="Folder or URL for the index.")],
    container: Annotated[
        str,
        typer.Option(
            "--format", help=f"Format of the shards: {', '.join(external())}, or auto to detect it."
        ),
    ] = "auto",
    image: Annotated[
        str | None,
        typer.Option(
            help="Feature with the encoded image; or the suffixes of images in a tar, by default "
            "'jpg;jpeg;png;webp'."
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Images are raw pixels of 8 bits, grey or RGB, and not encoded.")
    ] = False,
    height: Annotated[
        str | None, typer.Option("--height-feature", help="Feature with the height of raw pixels.")
    ] = None,
    width: Annotated[
        str | None, typer.Option("--width-feature", help="Feature with the width of raw pixels.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Height, width and channels of all raw pixels, such as 32x32x3.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Feature with the label; or in a tar a suffix such as cls, or a field such as json:label."
        ),
    ] = None,
    label_type: Annotated[
        str | None,
        typer.Option(
            help=f"Form of the label: {', '.join(LABEL_TYPES)}. With float, the label is a number and not a "
            f"class."
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Feature, suffix or field with the name of the class; '' ignores names."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Feature or field with the name of the sample.")] = None,
    objects: Annotated[
        str | None,
        typer.Option(help="Prefix of the features of objects, such as image/object; '' reads no objects."),
    ] = None,
    column: Columns = None,
    classes: Classes = None,
    class_depth: Annotated[
        int | None,
        typer.Option(min=1, help="Directory levels that name the class of an image; by default all."),
    ] = None,
    unlabelled: Unlabelled = False,
    allow_loss: Annotated[
        str | None,
        typer.Option(
            help="Share of the records, such as 1%, that may be left out because they cannot be used, or "
            "lack the label that others have. By default an error names all of them."
        ),
    ] = None,
    checksums: Annotated[
        bool,
        typer.Option("--checksums", help="Read tar archives at URLs whole, for a checksum of every image."),
    ] = False,
) -> None:
    """Make a dataset of shards that other programs wrote, or of image files, without copying them.

    The command writes an index of the shards or images, and neither changes nor moves them. Names of shards
    may have lists in braces and patterns; a folder stands for the shards in it. In a folder of
    images, the path of an image's folder names its class, as in a conversion.

    Examples:
      stoker index photos/train --into shards/train
      stoker index imagenet/train-*.tfrecord --into shards/imagenet
      stoker index cifar.tfrecord --into shards/cifar --image img_raw --raw --shape 32x32x3
      stoker index caffe/train_lmdb --into shards/train --classes cat,dog
      stoker index 'laion/{00000..00099}.tar' --into shards/laion --column width=json:width
    """
    from stoker.formats.conversion.options import parse_loss
    from stoker.formats.in_place.images import index_images, is_image_source
    from stoker.formats.in_place.shards import index as run
    from stoker.formats.sources.classes import parse_class_names

    class_names = None if classes is None else parse_class_names(classes)
    if unlabelled or (container == "auto" and len(shards) == 1 and is_image_source(shards[0])):
        if len(shards) > 1:
            raise ConfigError(
                f"{len(shards)} sources of images are given, and stoker index takes one folder or list",
                hint="run it once for each",
            )
        with progress("reading headers", "images") as show:
            manifest = index_images(
                shards[0],
                into,
                classes=class_names,
                class_depth=class_depth,
                unlabelled=unlabelled,
                progress=show,
            )
        print_skipped(manifest.skipped)
        out.print(f"{count(manifest.index.rows, 'image')} in place: {into}")
        return
    columns = parse_columns(column)
    names: dict[str, Any] = {"encoded": image, "label": label, "text": text, "key": key, "columns": columns}
    names |= {"raw": raw or None, "shape": None if shape is None else parse_shape(shape)}
    names |= {"label_type": label_type, "height": height, "width": width, "objects": objects}
    with progress("indexing", "bytes") as show:
        manifest = run(
            shards,
            into,
            container=container,
            names={name: value for name, value in names.items() if value is not None},
            classes=class_names,
            checksums=checksums,
            allow_loss=None if allow_loss is None else parse_loss("allow_loss", allow_loss),
            progress=show,
        )
    print_skipped(manifest.skipped)
    wanted = manifest.options.get("label")  # absent for containers that need no names, '' for no label
    if wanted and not {"label", "object_labels"} & manifest.columns.keys():
        out.print(f"no labels: no record has {wanted!r} (--label names another)", style="yellow")
    for name in columns or ():
        if name not in manifest.columns:
            out.print(f"no column {name}: no record has a value for it", style="yellow")
    out.print(f"{count(manifest.index.rows, 'sample')} of {count(len(manifest.shards), 'shard')}: {into}")
