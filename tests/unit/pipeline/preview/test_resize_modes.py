"""The page that shows resize modes before a conversion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.command_line import run

import stoker
from stoker.errors import ConfigError
from stoker.formats.codecs.decode import decode_rgb
from stoker.pipeline.preview.page import Page
from stoker.pipeline.preview.resize_modes import resize_page

Picture = Callable[..., bytes]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def photos(encode_picture: Picture, tmp_path: Path) -> Path:
    for i in range(5):
        file = tmp_path / "photos" / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode_picture(i, "PNG"))
    return tmp_path / "photos"


def page_of(source: Path, *modes: str, **options: object) -> Page:
    return resize_page(source, modes, **{"samples": 9, "positions": None, "side": 100, **options})


def test_images_are_those_that_a_conversion_stores(photos: Path, tmp_path: Path) -> None:
    page = page_of(photos, "12x20", "longer=16")
    assert page.headings == ("original", "squash=12x20", "crop=12x20", "fill=12x20", "longer=16")
    assert len(page.rows) == 5
    for number, mode in enumerate(page.headings[1:], 1):
        stoker.convert(photos, tmp_path / mode, resize=mode)
        dataset = stoker.open(tmp_path / mode)
        facts = [dataset.column(name).tolist() for name in ("codec", "height", "width")]
        for i, (row, *fact) in enumerate(zip(page.rows, *facts, strict=True)):
            np.testing.assert_array_equal(row[number].pixels, decode_rgb(dataset.read(i), *fact))


def test_lists_tables_datasets_and_flat_folders_are_sources(photos: Path, tmp_path: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    (photos / "list.csv").write_text("path,label\n" + "".join(f"{file},x\n" for file in files))
    pq.write_table(pa.table({"image": [file.read_bytes() for file in files]}), tmp_path / "a.parquet")
    stoker.convert(photos, tmp_path / "shards")
    expected = [row[1].pixels for row in page_of(photos, "crop=8x8", positions=[4, 0]).rows]
    (tmp_path / "flat").mkdir()
    for number, file in enumerate(files):
        (tmp_path / "flat" / f"{number}.png").write_bytes(file.read_bytes())
    for source in (photos / "list.csv", tmp_path / "a.parquet", tmp_path / "shards", tmp_path / "flat"):
        page = page_of(source, "crop=8x8", positions=[4, 0])
        np.testing.assert_array_equal([row[1].pixels for row in page.rows], expected)


def test_broken_images_are_named_and_left_out(photos: Path) -> None:
    (photos / "a" / "0.png").write_bytes((photos / "a" / "0.png").read_bytes()[:-20])
    page = page_of(photos, "crop=8x8")
    assert len(page.rows) == 4
    assert "left out: 1 x broken image" in page.lines[1]
    with pytest.raises(ConfigError, match="positions go from 0 to 4"):
        page_of(photos, "crop=8x8", positions=[5])


def test_the_command_shows_resize_modes(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    arguments = ["preview", photos, "--resize", "8x8", "--out", out]
    run(*arguments)
    assert out.read_text().count("<figure") == 20
    with pytest.raises(ConfigError, match="transforms, views or resize modes"):
        run(*arguments, "--transforms", "imagenet-train")
