"""The command ``stoker index``, which makes a dataset of shards that other programs wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from stoker.formats.containers.registry import CONTAINERS, find_container

from .shared.console import count, out, print_skipped
from .shared.options import Classes
from .shared.progress import progress

__all__ = ["index"]


def index(
    shards: Annotated[
        list[str],
        typer.Argument(
            help=f"{', '.join(row.plural for row in CONTAINERS.values())}; or URLs, which may have *."
        ),
    ],
    into: Annotated[str, typer.Option(help="Folder or URL for the index.")],
    container: Annotated[
        str,
        typer.Option(
            "--format", help=f"Format of the shards: {', '.join(CONTAINERS)}, or auto to detect it."
        ),
    ] = "auto",
    image: Annotated[str, typer.Option(help="Feature with the encoded image.")] = "image/encoded",
    label: Annotated[str, typer.Option(help="Feature with the label.")] = "image/class/label",
    text: Annotated[str, typer.Option(help="Feature with the name of the class.")] = "image/class/text",
    key: Annotated[str, typer.Option(help="Feature with the name of the sample.")] = "image/filename",
    classes: Classes = None,
) -> None:
    """Make a dataset of shards that other programs wrote.

    The shards stay as they are and where they are: the command writes an index of them.

    Examples:
      stoker index imagenet/train-*.tfrecord --into shards/imagenet
      stoker index caffe/train_lmdb --into shards/train --classes cat,dog
    """
    from stoker.formats.external.external_index import FeatureNames
    from stoker.formats.external.external_index import index as run
    from stoker.formats.sources.classes import parse_class_names

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
    if find_container(manifest.container).has_feature_names and "label" not in manifest.columns:
        out.print(f"no labels: no record has the feature {label!r} (--label names another)", style="yellow")
    out.print(f"{count(manifest.index.rows, 'sample')} of {count(len(manifest.shards), 'shard')}: {into}")
