"""Options that several commands have, as Typer reads them."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Container", "ShardRecords", "ShardSize", "Shards"]

Container = Annotated[str, typer.Option("--format", help="tfrecord or lmdb.")]
ShardSize = Annotated[str | None, typer.Option(help="Bytes of a shard, about, such as 256MB (the default).")]
ShardRecords = Annotated[int | None, typer.Option(help="Most samples a shard, instead.")]
Shards = Annotated[int | None, typer.Option(help="Number of shards, instead.")]
