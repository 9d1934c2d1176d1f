"""Tests of Pascal VOC's folders as a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import converted
from PIL import Image

import stoker
from stoker.errors import DecodeError, SourceError
from stoker.formats.sources.registry import find_format
from stoker.formats.sources.source import Source
from stoker.formats.sources.voc import list_voc

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

BOMB = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>
<annotation><filename>&b;</filename></annotation>"""


def thing(name: str, box: tuple[Any, ...], **flags: int) -> str:
    sides = "".join(
        f"<{side}>{value}</{side}>" for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    more = "".join(f"<{flag}>{value}</{flag}>" for flag, value in flags.items())
    part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
    return f"<object><name>{name}</name>{more}<bndbox>{sides}</bndbox>{part}</object>"


def annotation(filename: str, *things: str, width: int = 40, height: int = 30) -> str:
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation><filename>{filename}</filename>{size}{''.join(things)}</annotation>"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three images with annotations."""
    root = tmp_path / "VOC2012"
    for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (root / name).mkdir(parents=True)
    for i in range(3):
        Image.new("RGB", (40, 30), (i, 0, 0)).save(root / "JPEGImages" / f"{i}.jpg")
    write(
        root, "0", annotation("0.jpg", thing("dog", (1, 1, 40, 30), difficult=1), thing("cat", (5, 6, 5, 6)))
    )
    write(root, "1", annotation("1.jpg", thing("ant", (2.5, 3, 10, 20), truncated=1, difficult=0)))
    write(root, "2", annotation("renamed.jpg"))
    (root / "ImageSets" / "Main" / "train.txt").write_text("1\n0\n")
    (root / "ImageSets" / "Main" / "dog_val.txt").write_text("2 -1\n0  1\n")
    return root


def write(root: Path, stem: str, text: str) -> None:
    (root / "Annotations" / f"{stem}.xml").write_text(text)


def test_boxes_are_counted_from_0_and_end_after_the_last_pixel(root: Path, tmp_path: Path) -> None:
    dataset = converted(root, tmp_path / "out", allow_loss=1)
    assert dataset.classes == ("ant", "cat", "dog")
    assert dataset.keys(range(3)) == [f"JPEGImages/{i}.jpg" for i in range(3)]
    found = dataset.annotations(range(3))
    assert found.owner.tolist() == [0, 0, 1]
    assert found.labels.tolist() == [2, 1, 0]
    assert found.boxes.tolist() == [[0, 0, 40, 30], [4, 5, 5, 6], [1.5, 2, 10, 20]]
    assert found.extra["difficult"].tolist() == [1, 0, 0]
    assert found.extra["truncated"].tolist() == [0, 0, 1]
    assert dataset.columns[-2:] == ("object_difficult", "object_truncated")
    assert stoker.verify(dataset.path).ok


def test_boxes_that_cvat_turned_become_the_upright_boxes_around_them(root: Path) -> None:
    turn = "<attributes><attribute><name>rotation</name><value>{}</value></attribute></attributes></object>"
    turned = [
        thing("ant", (11, 11, 20, 14)).replace("</object>", turn.format(by)) for by in ("90.0", "0.0", "up")
    ]
    write(
        root,
        "1",
        annotation("1.jpg", *turned, thing("ant", (9, 9, 5, 5)).replace("</object>", turn.format(9))),
    )
    listing = list_voc(Source(root))
    assert listing.objects is not None
    boxes = listing.objects.columns["object_boxes"][1].as_py()
    assert boxes == pytest.approx([13, 7, 17, 17, 10, 10, 20, 14, 10, 10, 20, 14])
    assert [skip.reason for skip in listing.skipped] == ["object without an area"]


def test_images_may_lie_in_images_and_have_other_suffixes_than_their_annotations_say(root: Path) -> None:
    (root / "JPEGImages").rename(root / "images")
    Image.new("RGB", (40, 30)).save(root / "images" / "1.png")
    (root / "images" / "1.jpg").unlink()
    write(root, "2", annotation("2"))
    for name in ("1.jpg", "1", ""):
        write(root, "1", annotation(name, thing("ant", (2, 3, 10, 20))))
        listing = list_voc(Source(root))
        assert list(listing.names()) == ["images/0.jpg", "images/1.png", "images/2.jpg"]
        assert listing.skipped == ()


def test_objects_stay_with_their_images(root: Path, tmp_path: Path) -> None:
    (root / "JPEGImages" / "0.jpg").unlink()
    (root / "Annotations" / "2.xml").unlink()
    write(root, "1", annotation("1.jpg", thing("ant", (2.5, 3, 10, 20)), width=0, height=0))  # not known
    dataset = converted(root, tmp_path / "out", allow_loss=1)
    assert dataset.keys([0]) == ["JPEGImages/1.jpg"]
    found = dataset.annotations([0])
    assert (found.owner.tolist(), found.boxes.tolist()) == ([0], [[1.5, 2, 10, 20]])
    assert [skip[:2] for skip in list_voc(Source(root)).skipped] == [
        ("JPEGImages/0.jpg", "unreadable"),
        ("JPEGImages/2.jpg", "image without an annotation"),
    ]


@pytest.mark.parametrize(("name", "numbers"), [("train", [0, 1]), ("dog_val", [0, 2])])
def test_a_list_of_images_is_a_source(root: Path, tmp_path: Path, name: str, numbers: list[int]) -> None:
    source = root / "ImageSets" / "Main" / f"{name}.txt"
    assert find_format(Source(source)).name == "voc"
    dataset = converted(source, tmp_path / "out", allow_loss=1)
    assert dataset.keys(range(2)) == [f"JPEGImages/{i}.jpg" for i in numbers]
    (root.parent / "1.xml").write_text(annotation("1.jpg"))
    source.write_text("0\n../../1\n")
    listing = list_voc(Source(source))
    assert list(listing.names()) == ["JPEGImages/0.jpg"]
    assert [skip.reason for skip in listing.skipped] == ["broken annotation"]
    assert "leaves the source" in listing.skipped[0].detail
    source.unlink()
    with pytest.raises(SourceError, match="no such list of images"):
        list_voc(Source(source))


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("<annotation><object>", "Annotations/1.xml", "broken annotation"),
        (BOMB, "Annotations/1.xml", "broken annotation"),
        ("", "Annotations/1.xml", "broken annotation"),
        ('<?xml version="1.0" encoding="none"?><annotation/>', "Annotations/1.xml", "broken annotation"),
        (annotation("1.jpg", thing("", (1, 2, 3, 4))), "JPEGImages/1.jpg", "object of an unknown category"),
        (annotation("1.jpg", thing("a", (90, 2, 93, 4))), "JPEGImages/1.jpg", "object outside its image"),
        (annotation("1.jpg", width=41), "JPEGImages/1.jpg", "image of another size"),
    ],
)
def test_a_broken_annotation_is_left_out_with_key_and_reason(
    root: Path, tmp_path: Path, text: str, key: str, reason: str
) -> None:
    write(root, "1", text)
    dataset = converted(root, tmp_path / "out", allow_loss=1)
    lines = (dataset.path / "skipped.jsonl").read_text().splitlines()
    reason_of = {skip["key"]: skip["reason"] for skip in map(json.loads, lines)}
    assert reason_of.pop(key).startswith(reason)
    # An image with a broken annotation counts as one without.
    assert set(reason_of.values()) <= {"image without an annotation"}
    assert len(dataset.annotations(range(len(dataset)))) == 2
    with pytest.raises((SourceError, DecodeError), match=reason):
        stoker.convert(root, tmp_path / "strict", strict=True)


def test_a_folder_without_annotations_or_images_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the source is not Pascal VOC"):
        list_voc(Source(tmp_path))
    for path in (root / "JPEGImages").iterdir():
        path.unlink()
    with pytest.raises(SourceError, match="not one of the 3 images that Annotations names"):
        list_voc(Source(root))


@pytest.mark.parametrize("name", ["x" * 300 + ".jpg", "a/" * 3000])
def test_a_file_name_that_no_file_can_have_costs_no_image(root: Path, name: str) -> None:
    expected = list(list_voc(Source(root)).names())
    file = root / "Annotations" / "0.xml"
    text = file.read_text()
    start, end = text.index("<filename>"), text.index("</filename>")
    file.write_text(f"{text[:start]}<filename>{name}{text[end:]}")
    assert list(list_voc(Source(root)).names()) == expected
