"""Tests of HEIC photographs, with pillow-heif and without it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stoker
from stoker.augment import CenterCrop
from stoker.errors import DecodeError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_rgb
from stoker.formats.codecs.header import read_header

START = b"\0\0\0\x1cftypheic\0\0\0\0mif1heic"
PIXELS = np.kron(np.arange(0, 192, dtype=np.uint8).reshape(8, 8, 3), np.ones((8, 8, 1), np.uint8))


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the import of pillow-heif fail."""
    monkeypatch.setitem(sys.modules, "pillow_heif", None)


@pytest.fixture(scope="module")
def heic() -> bytes:
    """A photograph of 64 x 48 pixels; skips the test without pillow-heif."""
    package = pytest.importorskip("pillow_heif", reason="HEIC needs pillow-heif: pip install pillow-heif")
    stream = io.BytesIO()
    package.from_pillow(Image.fromarray(PIXELS[:, :48])).save(stream, quality=95)
    return stream.getvalue()


@pytest.mark.usefixtures("not_installed")
def test_without_pillow_heif_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="pip install pillow-heif"):
        read_header(START)
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "phone.heic").write_bytes(START)
    Image.fromarray(PIXELS).save(tmp_path / "photos" / "a" / "camera.jpg")
    summary = stoker.convert(tmp_path / "photos", tmp_path / "shards")
    assert summary.written == 1
    assert summary.skipped == {"broken image": 1}
    assert "pip install pillow-heif" in (tmp_path / "shards" / "skipped.jsonl").read_text()


def test_a_heic_photograph_is_read(heic: bytes) -> None:
    header = read_header(heic)
    assert (header.codec, header.height, header.width, header.orientation) == (Codec.OTHER, 64, 48, 1)
    decoded = decode_rgb(heic, header.codec, 64, 48)
    assert np.abs(decoded.astype(int) - PIXELS[:, :48]).mean() < 6


def test_a_loader_reads_a_folder_of_heic(heic: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "phone.heic").write_bytes(heic)
    with stoker.ImageLoader(tmp_path, batch_size=1, transforms=[CenterCrop(32)]) as loader:
        image = next(iter(loader)).image[0].transpose(1, 2, 0)
    assert np.abs(image.astype(int) - PIXELS[16:48, 8:40]).mean() < 6
