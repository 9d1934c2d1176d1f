"""A dataset read without Stoker, as docs/guide/format.md describes."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.container import writable
from stoker.formats.dataset.index import IMAGE_COLUMNS, REQUIRED_COLUMNS
from stoker.formats.dataset.manifest import IndexFile, Manifest, Shard

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "format.md"


@pytest.mark.parametrize("container", writable())
def test_the_example_of_the_guide_runs(
    make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes], tmp_path: Path, container: str
) -> None:
    make_dataset(container, name="shards/train")
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert "stoker" not in example
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"k4 dog {len(make_jpeg(4))}{os.linesep}"


def test_the_guide_names_every_column_field_and_codec() -> None:
    text = GUIDE.read_text()
    for name in (*REQUIRED_COLUMNS, *IMAGE_COLUMNS, "label"):
        assert f"`{name}`" in text
    for part in (Manifest, Shard, IndexFile):
        for name, field in part.__dataclass_fields__.items():
            if "elsewhere" in field.metadata:
                continue  # not in dataset.json
            key = "kind" if name == "sample_type" else name  # as the file has it
            assert f"`{key}`" in text
    for codec in Codec:
        assert re.search(rf"\b{codec.value} (raw RGB|any other|{codec.name})", text, re.IGNORECASE), codec
