"""Tests of broken COCO files: some are refused, and others lose parts with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.data.annotations.coco_files import CATEGORIES, NAMES, convert, document, left_out, write

import stoker
from stoker.errors import DecodeError, SourceError
from stoker.formats.sources.annotated.coco.coco import list_coco_file

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.mark.parametrize("skeleton", [[[0, 1]], [[1, 4]], [[1]], [1], [["a", "b"]]])
def test_a_broken_skeleton_is_refused(folder: Path, skeleton: Any) -> None:
    content = document()
    content["categories"] = [{"id": 3, "name": "ape", "keypoints": NAMES, "skeleton": skeleton}]
    with pytest.raises(SourceError, match="the skeleton of category 3 is wrong"):
        list_coco_file(write(folder, content), folder / "images")


# A change of an annotation for each reason; test_malformed_annotations.py has all kinds of changes.
BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"image_id": 4, "category_id": 3}, "instances.json", "object of an unknown image"),
    ({"image_id": None, "category_id": 3}, "instances.json", "annotation without an image"),
    ({"category_id": 4}, "a.png", "object of an unknown category"),
    ({"bbox": [1, 1, 2, -3]}, "a.png", "object without an area"),
    ({"bbox": [1e300, 1, 1e300, 3]}, "a.png", "object without a box"),
    ({"iscrowd": "no"}, "a.png", "object with an iscrowd that is no number"),
    ({"bbox": [1, -9, 3, 9]}, "a.png", "object outside its image"),
    ({"segmentation": {"size": [20, 30], "counts": "0"}}, "a.png", "broken run lengths"),
    ({"segmentation": {"size": [20, 30], "counts": [500, -1]}}, "a.png", "broken run lengths"),
    ({"segmentation": {"counts": [600]}}, "a.png", "run lengths without a size"),
    ({"segmentation": {"size": [30, 20], "counts": [600]}}, "a.png", "run lengths of another size"),
    ({"segments_info": []}, "a.png", "panoptic annotation"),
    ({"segmentation": [[1, 1, 2, 2]]}, "a.png", "polygon of less than three points"),
    ({"segmentation": [[1, 1, 5, 1, 5, 5, 3]]}, "a.png", "polygon whose last point has no y"),
    ({"segmentation": [[1, 1, 2, 2, 3, float("nan")]]}, "a.png", "polygon with values that are no numbers"),
    ({"keypoints": [1, 2, 2, 900, 1, 2, 0, 0, 0]}, "a.png", "keypoint far outside its image"),
    ({"keypoints": [1, 2, 2]}, "a.png", "keypoints of another number"),
]


@pytest.mark.parametrize(("change", "key", "reason"), BROKEN)
def test_a_broken_annotation_is_left_out_with_key_and_reason(
    folder: Path, change: dict[str, Any], key: str, reason: str
) -> None:
    content = document()
    content["annotations"].append(
        {"id": 500, "image_id": 5, "category_id": 3, "bbox": [1, 1, 3, 3], **change}
    )
    dataset = convert(folder, content)
    ((skipped_key, skipped_reason, detail),) = left_out(dataset)
    assert (skipped_key, skipped_reason[: len(reason)]) == (key, reason)
    assert "annotation 500 of instances.json" in detail
    assert dataset.manifest.skipped == {skipped_reason: 1}
    # If one part of an object is broken, the rest is kept.
    whole = not reason.startswith(("polygon", "keypoint"))
    assert len(dataset.annotations(range(4))) == 5 - whole
    with pytest.raises((SourceError, DecodeError), match=reason) as caught:
        convert(folder, content, "strict", strict=True)
    assert caught.value.key == key
    assert not (folder / "strict" / "dataset.json").exists()


def test_a_keypoint_far_outside_becomes_unlabelled(folder: Path) -> None:
    content = document()
    content["annotations"][0]["keypoints"] = [4, 5, 2, 61, 5, 2, -30, -1, 1]
    found = convert(folder, content).annotations([1]).keypoints
    assert found is not None
    assert found[0].tolist() == [[4.5, 5.5, 2], [0, 0, 0], [-29.5, -0.5, 1]]


def test_objects_of_an_image_that_is_listed_twice_are_counted(folder: Path) -> None:
    content = document()
    content["images"].append({"id": 40, "file_name": "./a.png"})
    content["annotations"].append({"id": 500, "image_id": 40, "category_id": 3, "bbox": [1, 1, 3, 3]})
    assert left_out(convert(folder, content)) == {
        ("a.png", "listed twice", ""),
        ("./a.png", "object of an image that is listed twice", "annotation 500 of instances.json"),
    }


def test_links_that_are_not_followed_are_not_called_missing(folder: Path) -> None:
    (folder / "images").rename(folder / "real")
    (folder / "images").mkdir()
    for image in document()["images"]:
        (folder / "images" / image["file_name"]).symlink_to(folder / "real" / image["file_name"])
    assert len(convert(folder, document())) == 4
    with pytest.raises(SourceError, match="left out: 4 x link, such as") as caught:
        convert(folder, document(), "strict", follow_links=False)
    assert "leave out --no-follow-links" in str(caught.value)


def test_a_height_of_four_hundred_digits_counts_as_unknown(folder: Path) -> None:
    content = document()
    expected = convert(folder, content).annotations(range(4)).id.tolist()
    content["images"][0]["height"] = 10**400
    assert convert(folder, content, "huge").annotations(range(4)).id.tolist() == expected


def test_broken_and_missing_images_are_left_out_with_a_reason(folder: Path) -> None:
    content = document()
    content["images"] += [
        {"id": 11, "file_name": "gone.png"},
        {"id": 12, "file_name": "../instances.json"},
        {"id": 14, "file_name": "\ud800.png"},
        {"id": 5, "file_name": "again.png"},
        {"id": 13},
        {"file_name": "a.png"},
    ]
    content["images"][3]["height"] = 21
    reasons = {(key, reason) for key, reason, _ in left_out(convert(folder, content))}
    assert reasons == {
        ("gone.png", "unreadable"),
        ("../instances.json", "path that leaves the source"),
        ("\\ud800.png", "name is not UTF-8"),
        ("again.png", "image whose id another one has"),
        ("instances.json", "image without an id or a file_name"),
        ("empty.png", "image of another size than its annotations say"),
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"images": [}', "no JSON object"),
        ('{"path": "a.png"}', "names no images: it has path"),
        ("{}", "names no images: it has nothing"),
        (
            '{"images": [{"id": 1, "file_name": "nowhere.png"}]}',
            "not one of 1 images is in .*; left out: 1 x unreadable: No such file.*, such as nowhere.png",
        ),
        ('{"images": [{"id": 5, "file_name": "a.png"}], "categories": [{"name": "x"}]}', "no id"),
        (
            '[{"image_id": 5, "bbox": [1, 1, 2, 2]}]',
            "entry 1 is an annotation, such as those in COCO's results",
        ),
    ],
)
def test_a_file_that_is_no_coco_is_refused(folder: Path, content: str, says: str) -> None:
    (folder / "x.json").write_text(content)
    with pytest.raises(SourceError, match=says):
        stoker.convert(folder / "x.json", folder / "out", images=folder / "images")


def test_a_panoptic_file_is_refused(folder: Path) -> None:
    content = document()
    content["annotations"] = [{"image_id": 5, "file_name": "a.png", "segments_info": [{"id": 1}]}]
    with pytest.raises(SourceError, match="no object: of 1 annotations, panoptic") as caught:
        list_coco_file(write(folder, content), folder / "images")
    assert "--masks" in str(caught.value)


def test_a_file_whose_objects_are_all_of_unknown_categories_is_refused(folder: Path) -> None:
    content = document()
    del content["categories"]
    with pytest.raises(SourceError, match=r"no object: of .* annotations, .*object of an unknown category"):
        list_coco_file(write(folder, content), folder / "images")


def test_an_id_of_two_categories_is_refused(folder: Path) -> None:
    content = document()
    content["categories"] = [*CATEGORIES, CATEGORIES[0]]
    list_coco_file(write(folder, content), folder / "images")
    content["categories"].append({"id": CATEGORIES[0]["id"], "name": "another"})
    with pytest.raises(SourceError, match="two categories have the id"):
        list_coco_file(write(folder, content), folder / "images")


def test_a_conversion_goes_on_after_a_shard_of_broken_images_alone(folder: Path) -> None:
    (folder / "images" / "a.png").write_bytes((folder / "images" / "a.png").read_bytes()[:40])
    dataset = convert(folder, document(), shard_records=1)
    assert dataset.keys(range(3)) == ["b.png", "empty.png", "tiny.png"]
    assert dataset.annotations(range(3)).id.tolist() == [21, 7, 99]


def test_an_object_with_countless_keypoints_is_left_without_them(folder: Path) -> None:
    """Every object has room for the keypoints of each: a short file could take gigabytes."""
    file = folder / "many.json"
    content = document()
    content["annotations"][0]["keypoints"] = [1, 2, 2] * 501
    file.write_text(json.dumps(content))
    listing = list_coco_file(file, folder / "images")
    assert listing.objects is not None
    assert "object_keypoints" not in listing.objects.columns
    assert "more than 500 keypoints" in {skip.reason for skip in listing.skipped}
