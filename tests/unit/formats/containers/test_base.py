"""Containers by name: the same verbs in every module."""

from pathlib import Path

import pytest

from stoker.errors import ConfigError
from stoker.formats.containers.base import CONTAINERS, container


@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_container_has_the_verbs(kind: str, tmp_path: Path) -> None:
    module = container(kind)
    path = tmp_path / f"shard{module.SUFFIX}"
    with module.Writer(path) as writer:
        writer.write(b"name", b"pre", b"payload", b"post")
        shard = writer.finish()
    assert shard.files[0] == module.data_file(path)
    assert all(file.is_file() for file in shard.files)
    (record,) = module.scan(shard.files[0])
    assert bytes(record.view) == b"prepayloadpost"
    assert (record.position, record.offset + 3) == (0, shard.offset[0])


@pytest.mark.parametrize("kind", ["zip", "", "../os", "files"])
def test_no_other_module_is_a_container(kind: str) -> None:
    with pytest.raises(ConfigError, match="format must be one of tfrecord, lmdb"):
        container(kind)
