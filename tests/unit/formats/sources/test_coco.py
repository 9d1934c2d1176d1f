"""Tests of COCO's JSON as a source: the dataset has the annotations of the file."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.annotations import CATEGORIES, NAMES, convert, document, left_out, write
from helpers.datasets import converted

import stoker
from stoker.errors import DecodeError, SourceError
from stoker.formats.sources.coco import list_coco
from stoker.formats.sources.objects import swap_of
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_annotations_are_those_of_the_file(folder: Path, container: str) -> None:
    dataset = convert(folder, document(), format=container)
    assert dataset.keys(range(4)) == ["a.png", "b.png", "empty.png", "tiny.png"]
    assert dataset.classes == ("ape", "mouse", "zebra")
    assert dataset.tasks == {"boxes", "keypoints", "instances"}
    assert dataset.column("image_id").tolist() == [5, 8, 2, 1]
    found = dataset.annotations(range(4))
    assert found.owner.tolist() == [0, 1, 1, 3]
    assert found.id.tolist() == [20, 21, 7, 99]
    assert found.labels.tolist() == [2, 0, 1, 1]
    assert found.boxes.tolist() == [[1.5, 1, 6.5, 4], [2, 3, 12, 13], [10, 4, 13, 9], [0, 0, 3, 4]]
    assert found.crowd.tolist() == [False, False, True, False]
    assert found.area.tolist() == [12.25, 100, 15, 4]
    assert found.polygons is not None
    assert [[part.tolist() for part in some] for some in found.polygons] == [
        [[[1.5, 1], [6.5, 1], [6.5, 4], [1.5, 4]], [[0, 0], [1, 0], [0, 1]]],
        [],
        [],
        [],
    ]
    assert found.runs is not None
    crowd = document()["annotations"][2]["segmentation"]["counts"]
    assert [runs.tolist() for runs in found.runs] == [[], [], crowd, [4, 4, 4]]
    assert found.keypoints is not None
    assert found.keypoints[1].tolist() == [[4.5, 5.5, 2], [6.5, 5.5, 1], [0, 0, 0]]
    assert not found.keypoints[[0, 2, 3]].any()
    info = dataset.manifest.annotations
    assert (info.keypoints, info.swap, info.skeleton) == (tuple(NAMES), (0, 2, 1), ((0, 1), (0, 2)))
    assert stoker.verify(dataset.path, decode=True).ok


@pytest.mark.usefixtures("every_event")
def test_categories_of_one_name_stay_two_classes(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    changed = document()
    changed["categories"] = [{**category, "name": "animal"} for category in CATEGORIES]
    dataset = convert(folder, changed)
    assert dataset.classes == ("animal", "animal (2)", "animal (3)")
    assert dataset.annotations(range(4)).labels.tolist() == [2, 0, 1, 1]
    assert "become animal (2), animal (3), and class_map" in caplog.text
    some = dataset.select(classes=["animal (3)"], renumber=True)
    assert (some.category_ids, len(some.annotations(range(len(some))))) == (dataset.category_ids[2:], 1)
    with pytest.raises(SourceError, match=r"classes that are not among the 1 given: animal \(2\)"):
        convert(folder, changed, "refused", classes=["animal"])
    names = {f"animal ({number})": "animal" for number in (2, 3)}
    joined = convert(folder, changed, "joined", class_map=names)
    assert (joined.classes, joined.annotations(range(4)).labels.tolist()) == (("animal",), [0] * 4)


@pytest.mark.usefixtures("every_event")
def test_boxes_that_are_turned_become_the_upright_boxes_around_them(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = document()
    turns = {20: 90.0, 21: "45", 7: 360.0, 99: "left"}
    for one in changed["annotations"]:
        one |= {"attributes": {"rotation": turns[one["id"]]}, "bbox": [5, 6, 8, 4], "segmentation": {}}
    changed["annotations"][0].pop("area", None)
    changed["images"][2] |= {"file_name": "a.png", "id": 5, "height": 20, "width": 30}
    found = convert(folder, changed).annotations(range(3))
    boxes = dict(zip(found.id.tolist(), found.boxes.tolist(), strict=True))
    assert boxes[20] == pytest.approx([7, 4, 11, 12])
    assert boxes[21] == pytest.approx([9 - 18**0.5, 8 - 18**0.5, 9 + 18**0.5, 8 + 18**0.5])
    assert boxes[7] == [5, 6, 13, 10]
    assert found.area[found.id.tolist().index(21)] == 32
    assert found.corners is not None
    corners = dict(zip(found.id.tolist(), found.corners.reshape(-1, 8).tolist(), strict=True))
    assert corners[20] == pytest.approx([11, 4, 11, 12, 7, 12, 7, 4])
    assert corners[7] == [5, 6, 13, 6, 13, 10, 5, 10]
    assert "2 boxes are turned in the source" in caplog.text


@pytest.mark.parametrize("skeleton", [[[0, 1]], [[1]], [1], [["a", "b"]]])
@pytest.mark.usefixtures("every_event")
def test_ids_may_be_floats_and_what_only_draws_may_be_wrong(
    folder: Path, caplog: pytest.LogCaptureFixture, skeleton: Any
) -> None:
    changed = document()
    whole = convert(folder, changed)
    for part in ("images", "annotations", "categories"):
        changed[part] = [
            {name: float(value) if name.endswith("id") else value for name, value in one.items()}
            for one in changed[part]
        ]
    for category in changed["categories"]:
        category["skeleton"] = skeleton
    dataset = convert(folder, changed, "floats")
    assert (dataset.column("image_id").tolist(), dataset.category_ids) == ([5, 8, 2, 1], whole.category_ids)
    assert dataset.annotations(range(4)).id.tolist() == whole.annotations(range(4)).id.tolist()
    assert dataset.manifest.annotations.skeleton == ()
    assert "is left out, as it counts from 1" in caplog.text
    for image in changed["images"]:
        image["id"] = str(image["id"])
    with pytest.raises(SourceError, match="ids of images are text, and image_id of annotations are numbers"):
        convert(folder, changed, "text")


def test_an_object_keeps_its_box_where_its_run_lengths_are_broken(folder: Path) -> None:
    changed = document()
    changed["annotations"][2]["segmentation"]["counts"] = [1]
    dataset = convert(folder, changed)
    assert dataset.annotations(range(4)).has_mask.tolist() == [True, False, False, True]


def test_keypoints_with_left_and_right_in_their_names_are_swapped() -> None:
    assert swap_of(("left_hip", "right_hip", "head", "left_ear")) == (1, 0, 2, 3)
    for pair in (
        "eye left|eye right",
        "Left Eye|Right Eye",
        "l_eye|r_eye",
        "Eye.L|Eye.R",
        "LEye|REye",
        "eyer|eyel",
    ):
        assert swap_of((*pair.split("|"), "lip")) == (1, 0, 2)
    assert swap_of(("lear", "nose", "rear")) == (2, 1, 0)
    corners = ("l_eye_left", "l_eye_right", "r_eye_left", "r_eye_right")
    assert swap_of(corners) == (3, 2, 1, 0)
    # Without a pair, which sides several keypoints have is not known.
    assert [swap_of(names) for names in (("a", "b"), ("left", "LEFT"), ("left", "l"))] == [(), (), ()]
    assert (swap_of(("left",)), swap_of(())) == ((0,), ())


def test_ids_may_be_text(folder: Path) -> None:
    content = document()
    for image in content["images"]:
        image["id"] = f"image {image['id']}"
    for one in content["annotations"]:
        one["image_id"], one["category_id"] = f"image {one['image_id']}", f"category {one['category_id']}"
    content["categories"] = [{"id": f"category {one['id']}"} for one in CATEGORIES]
    dataset = convert(folder, content)
    assert dataset.classes == ("category category 3", "category category 7", "category category 90")
    assert dataset.index.arrow("image_id").to_pylist() == ["image 5", "image 8", "image 2", "image 1"]
    assert dataset.annotations(range(4)).labels.tolist() == [2, 0, 1, 1]
    content["categories"].append({"id": 1})
    with pytest.raises(SourceError, match="some are text"):
        convert(folder, content, "other")


def test_names_with_half_of_a_surrogate_pair_are_written_with_escapes(folder: Path) -> None:
    """JSON can spell such text, and UTF-8 cannot."""
    content = copy.deepcopy(document())
    content["images"][3]["id"], *names = "\ud800", "\ud801", "\ud802"
    person = next(category for category in content["categories"] if "keypoints" in category)
    person["name"], person["keypoints"][0] = names
    dataset = convert(folder, content)
    assert "\\ud801" in dataset.classes
    assert "\\ud800" in dataset.strings("image_id", range(len(dataset)))
    assert "\\ud802" in dataset.manifest.annotations.keypoints


def test_the_order_of_members_and_objects_changes_nothing(folder: Path) -> None:
    content = document()
    one, other = convert(folder, content), convert(folder, dict(reversed(content.items())), "other")
    assert one.fingerprint == other.fingerprint
    for image in content["images"]:
        del image["height"], image["width"]
    wrong = {**content["annotations"][2], "segmentation": {"size": [4, 3], "counts": "444"}}
    dataset = convert(folder, {**content, "annotations": [*content["annotations"][:2], wrong]}, "size")
    assert dataset.manifest.skipped == {"run lengths of another size than the image": 1}
    first, second = content["annotations"][2:]
    content["annotations"][2:] = [{**first, "iscrowd": "x"}, {**second, "segmentation": []}]
    for name in ("crowd", "reversed"):
        dataset = convert(folder, content, name)
        assert dataset.annotations(range(4)).id.tolist() == [20, 21, 99]
        assert dataset.manifest.skipped == {"object with an iscrowd that is not a number": 1}
        content["annotations"].reverse()


@pytest.mark.parametrize("name", ["a{b}.json", "{}.json", "a{0.json"])
def test_the_name_of_the_file_may_hold_braces(folder: Path, name: str) -> None:
    content = document()
    content["annotations"][0]["bbox"] = [100, 100, 5, 5]
    path = write(folder, content).rename(folder / name)
    ((_, _, message),) = left_out(converted(path, folder / "out", images=folder / "images", allow_loss=1))
    assert message.startswith(f"annotation 21 of {name}: box ")


def test_splits_have_the_objects_of_their_images(folder: Path) -> None:
    options = stoker.SourceOptions(images=folder / "images")
    stoker.convert(write(folder, document()), folder / "split", val="50%", source_options=options)
    train, val = (stoker.open(folder / "split" / name) for name in ("train", "val"))
    assert len(train) + len(val) == 4
    assert sorted([*train.annotations(range(2)).id, *val.annotations(range(2)).id]) == [7, 20, 21, 99]


@pytest.mark.parametrize("name", ["instances.json.gz", "instances.json"])
def test_a_file_may_be_packed_by_gzip(folder: Path, name: str) -> None:
    expected = convert(folder, document()).annotations(range(4)).id.tolist()
    file = folder / name
    file.write_bytes(gzip.compress(json.dumps(document()).encode()))
    converted(file, folder / "packed", images=folder / "images")
    assert stoker.open(folder / "packed").annotations(range(4)).id.tolist() == expected
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(SourceError, match="the file is not gzip, or not a whole one"):
        converted(file, folder / "short", images=folder / "images")


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
    assert "follow_links=False" in str(caught.value)


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


def test_a_conversion_goes_on_after_a_shard_of_broken_images_alone(folder: Path) -> None:
    (folder / "images" / "a.png").write_bytes((folder / "images" / "a.png").read_bytes()[:40])
    dataset = convert(folder, document(), shard_records=1)
    assert dataset.keys(range(3)) == ["b.png", "empty.png", "tiny.png"]
    assert dataset.annotations(range(3)).id.tolist() == [21, 7, 99]


def test_a_changed_annotation_changes_the_fingerprint(folder: Path) -> None:
    def fingerprint(content: dict[str, Any]) -> str:
        options = SourceOptions(images=folder / "images")
        return list_coco(Source(write(folder, content), options)).fingerprint()

    content = document()
    before = fingerprint(content)
    content["annotations"][0]["bbox"][0] += 0.25
    assert fingerprint(content) != before


def test_unusual_values_are_read(folder: Path) -> None:
    content = document()
    first, one = content["annotations"][:2]
    first["segmentation"] = [[1, 1, 2, 1, 2, 2], [3, 3, 4, 3, 4, 4]]
    first["keypoints"] = [4, 5, 2, 61, 5, 2, -30, -1, 1]
    one["bbox"] = [-2, 1.5, 50, 4]
    for number, odd in enumerate([{"iscrowd": "0"}, {"iscrowd": "1"}, {"iscrowd": None}, {"area": -5}]):
        content["annotations"].append({**one, "id": 500 + number, "bbox": [1, 1, 3, 3], **odd})
    content["annotations"].append({**first, "id": 600, "segmentation": [[5, 5, 6, 5, 6, 6]]})
    content["images"][0]["height"] = 10**400  # counts as unknown
    content["categories"].append(CATEGORIES[0])
    found = convert(folder, content).annotations(range(4))
    row_of = {number: row for row, number in enumerate(found.id.tolist())}
    rows = [row_of[500 + number] for number in range(4)]
    assert found.crowd[rows].tolist() == [False, True, False, False]
    assert found.area[rows[3]] == 9
    assert found.boxes[row_of[20]].tolist() == [0, 1.5, 30, 5.5], "it is clipped at the edges"
    assert found.keypoints is not None
    assert found.keypoints[row_of[21]].tolist() == [[4.5, 5.5, 2], [0, 0, 0], [-29.5, -0.5, 1]]
    assert found.polygons is not None
    starts = {key: [int(part[0, 0]) for part in found.polygons[row_of[key]]] for key in (20, 21, 600)}
    assert starts == {20: [1, 0], 21: [1, 3], 600: [5]}
    dataset = convert(folder, {"images": content["images"]}, "without annotations")
    assert (len(dataset.annotations(range(4))), dataset.tasks) == (0, {"boxes"})


@pytest.mark.parametrize("inside", ["", "train2017"])
def test_images_of_lvis_are_found_by_the_end_of_their_url(folder: Path, inside: str) -> None:
    """LVIS v1 has no file_name: https://www.lvisdataset.org/dataset."""
    content = document()
    for image in content["images"]:
        image["coco_url"] = f"http://images.cocodataset.org/train2017/{image.pop('file_name')}"
        image |= {"not_exhaustive_category_ids": [], "neg_category_ids": [3]}
    (folder / "images").rename(folder / (inside or "set"))
    images = folder if inside else folder / "set"
    dataset = converted(write(folder, content), folder / "out", images=images)
    names = ("a.png", "b.png", "empty.png", "tiny.png")
    assert dataset.keys(range(4)) == [f"{inside}/{name}".lstrip("/") for name in names]


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "majority"])
def test_an_object_with_too_many_keypoints_does_not_cost_others_theirs(folder: Path, declared: bool) -> None:
    objects = [
        {"id": at, "image_id": 5, "category_id": 3, "bbox": [1, 1, 3, 3], "keypoints": [4, 5, 2] * number}
        for at, number in enumerate([5, 3, 0, 5] if declared else [5, 3, 0, 3])
    ]
    categories = CATEGORIES if declared else [{"id": 3, "name": "ape"}]
    dataset = convert(folder, {**document(), "annotations": objects, "categories": categories})
    found = dataset.annotations(range(4)).keypoints
    assert found is not None
    given = [4.5, 5.5, 2]
    assert found[:, 0].tolist() == [[0, 0, 0], given, [0, 0, 0], [0, 0, 0] if declared else given]
    expected = "categories declare" if declared else "most objects have"
    ((key, reason, detail), *_) = sorted(left_out(dataset))
    assert (key, reason) == ("a.png", f"keypoints of another number than {expected}")
    assert detail == "annotation 0 of instances.json: 5, not 3"


HEAD = {"bbox": [0, 0, 9, 9], "keypoints": [3, 4, 2, 5, 6, 2]}


@pytest.mark.parametrize(
    ("names", "swap", "says"),
    [
        (["left_ear", "right_ear"], (), "categories declare different keypoints"),  # the ape's nose is first
        (["nose", "left_eye"], (), "names and skeleton are those of category 3"),
        (["nose", "left_eye", "right_eye"], (0, 2, 1), ""),
    ],
)
@pytest.mark.usefixtures("every_event")
def test_objects_of_several_skeletons_are_padded_and_mirrored_only_where_sides_agree(
    folder: Path, names: list[str], swap: tuple[int, ...], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    changed = document()
    changed["categories"] = [CATEGORIES[1], {"id": 7, "name": "mouse", "keypoints": names}]
    head = {**HEAD, "keypoints": (HEAD["keypoints"] * 2)[: 3 * len(names)]}
    changed["annotations"] = [changed["annotations"][0], {"id": 2, "image_id": 8, "category_id": 7, **head}]
    dataset = convert(folder, changed, allow_loss=0)
    found = dataset.annotations(range(4)).keypoints
    assert found is not None
    third = [3.5, 4.5, 2] if len(names) == 3 else [0, 0, 0]
    assert found[1].tolist() == [[3.5, 4.5, 2], [5.5, 6.5, 2], third]
    info = dataset.manifest.annotations
    assert (info.keypoints, info.swap) == (tuple(NAMES), swap)
    assert says in caplog.text if says else not caplog.records


def test_names_of_categories_may_be_numbers(folder: Path) -> None:
    changed = document()
    changed["categories"] = [{"id": 3, "name": 7}, {"id": 7, "name": 1.5}, {"id": 90, "name": None}]
    dataset = convert(folder, changed, classes=["7", "category 90", "1.5"])
    assert dataset.annotations(range(4)).labels.tolist() == [1, 0, 2, 2]


@pytest.mark.usefixtures("every_event")
def test_a_file_of_crowds_is_reported_and_may_be_read_as_objects(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = document()
    convert(folder, changed, "some")
    assert "are crowds" not in caplog.text
    changed["annotations"] = [{**one, "iscrowd": 1} for one in changed["annotations"]]
    assert convert(folder, changed).annotations(range(4)).crowd.all()
    assert "4 of 4 objects are crowds" in caplog.text
    objects = convert(folder, changed, "objects", crowds_as_objects=True).annotations(range(4))
    assert (objects.crowd.any(), objects.has_mask.sum()) == (False, 3)


@pytest.mark.parametrize(
    ("change", "key", "reason", "objects"),
    [  # test_malformed_annotations.py has all reasons
        ({"image_id": 4}, "instances.json", "object of an unknown image", 4),
        ({"segmentation": [[1, 1, 2, 2]]}, "a.png", "polygon of less than three points", 5),
        ({"keypoints": [1, 2, 2, 900, 1, 2, 0, 0, 0]}, "a.png", "keypoint far outside its image", 5),
    ],
)
def test_a_broken_annotation_or_part_is_left_out_with_key_and_reason(
    folder: Path, change: dict[str, Any], key: str, reason: str, objects: int
) -> None:
    content = document()
    content["annotations"].append(
        {"id": 500, "image_id": 5, "category_id": 3, "bbox": [1, 1, 3, 3], **change}
    )
    dataset = convert(folder, content)
    ((skipped_key, skipped_reason, detail),) = left_out(dataset)
    assert (skipped_key, skipped_reason) == (key, reason)
    assert "annotation 500 of instances.json" in detail
    assert dataset.manifest.skipped == {reason: 1}
    assert len(dataset.annotations(range(4))) == objects
    with pytest.raises((SourceError, DecodeError), match=reason) as caught:
        convert(folder, content, "strict", strict=True)
    assert caught.value.key == key
    assert not (folder / "strict" / "dataset.json").exists()


APE = {"id": 3, "name": "ape", "keypoints": NAMES}
REFUSED: list[tuple[Any, str]] = [
    ('{"images": [}', "not a JSON object"),
    ({"path": "a.png"}, "names no images: it has path"),
    ({}, "names no images: it has nothing"),
    (
        {"images": [{"id": 1, "file_name": "nowhere.png"}]},
        "not one of 1 images is in .*; left out: 1 x unreadable: No such file.*, such as nowhere.png",
    ),
    ({"images": [{"id": 5, "file_name": "a.png"}], "categories": [{"name": "x"}]}, "no id"),
    ([{"image_id": 5, "bbox": [1, 1, 2, 2]}], "entry 1 is an annotation, such as those in COCO's results"),
    (
        {**document(), "categories": []},
        r"(?s)no object: of .*object of an unknown category.*Each category_id needs a category",
    ),
    (
        {**document(), "annotations": [{"image_id": "5", "category_id": 3, "bbox": [1, 1, 2, 2]}]},
        r"\(ids of images are numbers, and image_id of annotations are text\)",
    ),
    (
        {**document(), "annotations": [{"image_id": 5, "category_id": 3, "keypoints": [1, 1, 2]}]},
        "(?s)object without a box.*Give each annotation a bbox of left, top, width and height",
    ),
    (
        {**document(), "categories": [*CATEGORIES, {"id": 3, "name": "gnu"}]},
        "two categories have the id 3",
    ),
    (
        {**document(), "annotations": [{"image_id": 5, "segments_info": [{"id": 1}]}]},
        r"(?s)no object: of 1 annotations, panoptic.*masks names",
    ),
]


@pytest.mark.parametrize(
    ("segmentation", "box"),
    [
        ([[2, 1, 6, 1, 6, 4], [1, 2, 3, 2, 3, 3]], [1, 1, 6, 4]),
        ({"counts": [7, 2, 4, 3, 14], "size": [6, 5]}, [1, 1, 3, 4]),
        ({"counts": [11, 2, 17], "size": [6, 5]}, [1, 0, 3, 6]),
    ],
)
def test_a_box_that_is_missing_follows_from_the_outline(
    folder: Path, segmentation: Any, box: list[int]
) -> None:
    one = {"id": 1, "image_id": 5, "category_id": 3, "segmentation": segmentation}
    images = [{"id": 5, "file_name": "a.png"}]
    for bare in (one, {**one, "bbox": None}, {**one, "bbox": []}):
        document_of = {**document(), "images": images, "annotations": [bare]}
        (folder / "x.json").write_text(json.dumps(document_of))
        listing = list_coco(Source(folder / "x.json", SourceOptions(images=folder / "images")))
        assert listing.objects is not None
        assert listing.objects.columns["object_boxes"][0].as_py() == box
        assert listing.skipped == ()


@pytest.mark.parametrize(("content", "says"), REFUSED)
def test_a_file_that_cannot_be_used_is_refused(folder: Path, content: Any, says: str) -> None:
    (folder / "x.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(SourceError, match=says):
        converted(folder / "x.json", folder / "out", images=folder / "images")
