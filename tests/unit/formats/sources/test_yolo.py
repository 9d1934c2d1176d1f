"""Tests of YOLO's folders as a source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.datasets import converted
from helpers.options import convert_options
from PIL import Image

import stoker
from stoker.augment import CenterCrop, Pad
from stoker.errors import ConfigError, SourceError
from stoker.formats.sources.detection import is_yolo
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source, open_folder
from stoker.formats.sources.yolo import YoloNames, list_yolo, read_names

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two training images and one to validate, 80 wide and 40 high; one has no labels."""
    root = tmp_path / "set"
    for split, names in (("train", "ab"), ("val", "c")):
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True)
        for name in names:
            Image.new("RGB", (80, 40)).save(root / "images" / split / f"{name}.png")
    (root / "labels" / "train" / "a.txt").write_text("1 0.5 0.5 0.25 0.5\n\n0 0.1 0.2 0.1 0.1\n")
    (root / "labels" / "val" / "c.txt").write_text("0 0 0 0.5 0 0.5 0.5\n")
    (root / "data.yaml").write_text("path: ../set  # root\nnames:\n  0: person\n  1: 'traffic light'\n")
    return root


def convert(source: Path, out: Path, **options: Any) -> stoker.Dataset:
    return converted(source, out, allow_loss=1, source_format="yolo", **options)


def test_shares_of_an_image_become_pixels(root: Path, tmp_path: Path) -> None:
    dataset = convert(root, tmp_path / "out")
    assert dataset.keys(range(3)) == ["train/a.png", "train/b.png", "val/c.png"]
    assert dataset.classes == ("person", "traffic light")
    found = dataset.annotations(range(3))
    assert found.owner.tolist() == [0, 0, 2]
    assert found.labels.tolist() == [1, 0, 0]
    np.testing.assert_allclose(found.boxes, [[30, 10, 50, 30], [4, 6, 12, 10], [0, 0, 40, 20]], atol=1e-5)
    assert found.id.tolist() == [0, 2, 0]
    np.testing.assert_allclose(found.area, [400, 32, 400], rtol=1e-6)
    assert found.polygons is not None
    assert [len(some) for some in found.polygons] == [0, 0, 1]
    assert found.polygons[2][0].tolist() == [[0, 0], [40, 0], [40, 20]]
    assert stoker.verify(dataset.path).ok
    assert is_yolo(Source(root / "images" / "train"))
    dataset = convert(root / "images" / "train", tmp_path / "train")
    assert dataset.keys(range(2)) == ["a.png", "b.png"]
    assert dataset.classes == ("person", "traffic light")


def test_what_cannot_be_used_is_left_out_with_file_and_reason(root: Path) -> None:
    folder = root / "labels"
    (root / "data.yaml").write_text("kpt_shape: [2, 2]\nnames: [person]\n")
    lines = {  # test_malformed_annotations.py has more kinds of lines
        "0 0.5 0.5 0.5 0.5": None,
        "0 1e300 0.5 1e300 0.5": "coordinates that are not shares of the image",
        "0 0.5 0.5 0.5 0.5 1e300 0.5 0 0": "coordinates that are not shares of the image",
        "0 0.5 0.5 0.5 0.5 0.5 0.5": "line that is no object",
    }
    (folder / "train" / "a.txt").write_text("\n".join(lines))
    (folder / "train" / "b.txt").write_bytes(b"\xff\xfe")
    (folder / "val" / "c.txt").unlink()
    (root.parent / "elsewhere").write_text("0 0.5 0.5 0.5 0.5")
    (folder / "val" / "c.txt").symlink_to(root.parent / "elsewhere")
    (folder / "val" / "gone.txt").write_text("0 0.5 0.5 0.5 0.5")
    (folder / "classes.txt").write_text("a")
    expected = [("train/a.png", reason) for reason in lines.values() if reason]
    expected += [("train/b.png", "labels that cannot be read"), ("val/gone.txt", "labels without an image")]
    found = list_yolo(Source(root)).skipped
    assert sorted(skip[:2] for skip in found) == sorted(expected)
    assert any(skip.detail.startswith("line 2 of train/a.txt") for skip in found)
    found = list_yolo(Source(root, SourceOptions(follow_links=False))).skipped
    expected.append(("val/c.png", "labels that cannot be read"))
    assert sorted(skip[:2] for skip in found) == sorted(expected)


def test_keypoints_have_visibilities_and_swaps(root: Path, tmp_path: Path) -> None:
    (root / "data.yaml").write_text("kpt_shape: [2, 3]\nflip_idx: [1, 0]\nnames: [person]\n")
    line = "0 0.5 0.5 0.5 0.5 0.25 0.5 2 0.5 0.75 1\n0 0.5 0.5 1 1\n"
    (root / "labels" / "train" / "a.txt").write_text(line)
    dataset = convert(root, tmp_path / "out")
    keypoints = dataset.annotations([0]).keypoints
    assert keypoints is not None
    assert keypoints.tolist() == [[[20, 20, 2], [40, 30, 1]], [[0, 0, 0], [0, 0, 0]]]
    assert dataset.manifest.annotations.swap == (1, 0)
    assert "keypoints" in dataset.tasks
    # Without visibilities, a point is labelled unless it is at 0.
    (root / "data.yaml").write_text("kpt_shape: [2, 2]\nnames: [person]\n")
    (root / "labels" / "train" / "a.txt").write_text("0 0.5 0.5 0.5 0.5 0.25 0.5 0 0\n")
    keypoints = convert(root, tmp_path / "2").annotations([0]).keypoints
    assert keypoints is not None
    assert keypoints.tolist() == [[[20, 20, 2], [0, 0, 0]]]


@pytest.mark.parametrize(
    ("pairs", "swap"),
    [("0:2", (2, 1, 0)), (["0:1", "2:3"], (1, 0, 3, 2)), ({"0": "1"}, (1, 0, 2, 3)), ("none", (0, 1, 2, 3))],
)
def test_an_option_names_the_keypoints_of_both_sides(
    root: Path, tmp_path: Path, pairs: Any, swap: tuple[int, ...]
) -> None:
    line = "0 0.5 0.5 1 1" + " 0.25 0.5 2" * len(swap)
    (root / "data.yaml").write_text(f"kpt_shape: [{len(swap)}, 3]\nnames: [person]\n")
    (root / "labels" / "train" / "a.txt").write_text(line)
    dataset = convert(root, tmp_path / "out", keypoint_pairs=pairs)
    assert dataset.manifest.annotations.swap == swap
    flags = [f"--keypoint-pairs={pair}" for pair in (pairs if isinstance(pairs, list) else [pairs])]
    if not isinstance(pairs, dict):
        run("convert", root, tmp_path / "flags", "--source-format=yolo", "--allow-loss=1", *flags)
        assert stoker.open(tmp_path / "flags").manifest.annotations.swap == swap


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("0:5", r"must name different keypoints of the source, found 0:5"),
        (["0:1", "1:0"], "must name different keypoints"),
        ("0", "keypoint_pairs must be pairs of keypoints, such as left_eye:right_eye or 1:2, or none"),
        ([("0", "1", "0")], "must be pairs"),
    ],
)
def test_pairs_that_are_not_among_the_keypoints_are_refused(
    root: Path, tmp_path: Path, pairs: Any, message: str
) -> None:
    (root / "data.yaml").write_text("kpt_shape: [2, 3]\nnames: [person]\n")
    (root / "labels" / "train" / "a.txt").write_text("0 0.5 0.5 1 1 0.2 0.2 2 0.3 0.3 2")
    with pytest.raises(ConfigError, match=message):
        convert(root, tmp_path / "out", keypoint_pairs=pairs)


@pytest.mark.parametrize(
    ("shape", "line", "message"),
    [
        (
            "[3, 3]",
            "0.5 0.5 0.4 0.6 0.3 0.3 2 0.4 0.6 1",
            "11 numbers, and with kpt_shape .3, 3. a line has 14",
        ),
        (
            "[2, 2]",
            "0.5 0.5 0.4 0.6 0.3 0.3 1 0.4 0.6 1",
            "11 numbers, and with kpt_shape .2, 2. a line has 9",
        ),
        ("[2, 3]", "0.2 0.2 0.8 0.2 0.5 0.9", "7 numbers, and with kpt_shape .2, 3. a line has 11"),
        ("[1, 3]", "0.5 0.5 0.4 0.6 0.3 0.3 7", "visibility is not 0, 1 or 2"),
        ("[1, 3]", "0.5 0.5 0.4 0.6 30 20 2", "30 is not between 0 and 1"),
        ("[]", "0.5 0.5 0.4 0.6 0.3 0.3 2 0.4 0.6 2", "2 is not between 0 and 1; keypoints need kpt_shape"),
    ],
)
def test_a_line_is_not_fitted_to_a_format_that_it_does_not_have(
    root: Path, tmp_path: Path, shape: str, line: str, message: str
) -> None:
    (root / "data.yaml").write_text(f"kpt_shape: {shape}\nnames: [person]\n")
    for name in ("train/a", "train/b", "val/c"):
        (root / "labels" / f"{name}.txt").write_text(f"0 {line}\n")
    with pytest.raises(SourceError, match=message):
        stoker.convert(root, tmp_path / "out", **convert_options({"source_format": "yolo"}))


@pytest.mark.usefixtures("every_event")
def test_objects_without_an_outline_among_others_are_counted_and_ignored(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "labels" / "val" / "c.txt").write_text("1 0.25 0.5 0.5 1\n0 0.25 0 1 0 1 1 0.25 1\n")
    dataset = convert(root, tmp_path / "out")
    assert "3 of 4 objects have no outline" in caplog.text
    outlined = dataset.select(objects="has_mask and area > 0")
    assert outlined.annotations(range(3)).owner.tolist() == [2]
    for at, pad in ((0, []), (4, [Pad(4, padding_mode="reflect")])):
        transforms = [CenterCrop((40, 80)), *pad]
        options: dict[str, Any] = {"transforms": transforms, "columns": ("image", "segmentation")}
        masks = [
            next(iter(stoker.ImageLoader(one.select([2]), batch_size=1, **options))).segmentation[0]
            for one in (dataset, outlined)
        ]
        assert [mask[at, at + np.array([0, 19, 20, 39, 40, 79])].tolist() for mask in masks] == [
            [255, 255, 255, 255, 1, 1],
            [0, 0, 1, 1, 1, 1],
        ]


def test_lines_beyond_the_edge_have_the_area_inside_and_equal_lines_are_one_object(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outline = "0 0 0 0.5 0 0.5 0.5"
    lines = ["1 0.9 0.5 0.4 0.5", outline, "1 0.9 0.5 0.40 0.5", "0 0.9 0.5 0.4 0.5", outline]
    (root / "labels" / "train" / "a.txt").write_text("\n".join(lines))
    found = convert(root, tmp_path / "out", strict=True).annotations([0])
    np.testing.assert_allclose(found.area, [24 * 20, 400, 24 * 20], rtol=1e-6)
    assert (found.labels.tolist(), found.id.tolist()) == ([1, 0, 0], [0, 1, 3])
    assert "2 lines are equal to another of their file, and become one object with it" in caplog.text


def test_a_text_file_names_the_classes_or_numbers_are_their_names(root: Path, tmp_path: Path) -> None:
    (root / "data.yaml").unlink()
    (root / "labels" / "train" / "b.txt").write_text("2147483647 0.5 0.5 0.5 0.5\n")
    listing = list_yolo(Source(root))
    assert listing.classes == ("0", "1")
    assert listing.skipped[0][:2] == ("train/b.png", "object of an unknown category")
    (root / "labels" / "classes.txt").write_text("x\ny\n")
    assert list_yolo(Source(root)).classes == ("x", "y")
    (tmp_path / "none").mkdir()
    assert not is_yolo(Source(tmp_path / "none"))
    with pytest.raises(SourceError, match="the source is not YOLO"):
        list_yolo(Source(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("names: [a, 'b c', \"d, e\"]\nnc: 3\n", ("a", "b c", "d, e")),
        ("nc: 2\nnames:\n- a\n- b # the second\ntrain: x\n", ("a", "b")),
        ("names:\n  - a\n\n  - b\n", ("a", "b")),
        ("names: {0: a, 1: b}", ("a", "b")),
        ("names: [a,\n  b]", ("a", "b")),
        ("names: []", ()),
        ("names:\n", ()),
        ("names: [no, 1, null, 1.0]\n", ("no", "1", "null", "1.0")),
        ("names:\n  0: it's\n  1: 'it''s'\n", ("it's", "it's")),
        ("# a comment\n", ()),
        ("train: x", ()),
    ],
)
def test_yaml_names_the_classes(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    (tmp_path / "data.yaml").write_text(text)
    assert read_names([open_folder(tmp_path / "nowhere"), open_folder(tmp_path)]) == YoloNames(names)


# Each list has the list before nine times: 9^8 names in 400 bytes.
LISTS_OF_LISTS = "a0: &a0 [x]\n"
LISTS_OF_LISTS += (
    "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(8)) + "names: *a8\n"
)


READ = "the file cannot be read"
DEEP = "nests more than 16 lists"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names: a", READ),
        ("names: [a, [b]]", READ),
        ("names: [a", READ),
        ("names: &names [a, *names]", READ),
        ("- a", READ),
        ("nc: 3\nnames: [a, b]", READ),
        ("nc: two\nnames: [a, b]", READ),
        ("names: [a] #" + (1 << 20) * " ", READ),
        ("names:\n 1: a\n", READ),
        ("kpt_shape: [2]", READ),
        ("kpt_shape: [2, 4]", READ),
        ("kpt_shape: [-2, 3]", READ),
        ("kpt_shape: [2, 3]\nflip_idx: [0, 0]", READ),
        ("kpt_shape: [1000000, 3]", "1000000 keypoints, more than 500"),
        ("names: " + "[" * 900, DEEP),
        ("names: " + "[" * 2000, f"{DEEP}|maximum nesting depth"),  # libyaml 0.2.6 has a limit
        ("names: " + "{a: [" * 2000, DEEP),
        ("? " * 300_000, DEEP),
        (LISTS_OF_LISTS, "names must be a list of names or numbers, found one of other values"),
    ],
    ids=lambda value: value[:20],
)
def test_yaml_of_another_form_or_that_would_cost_much_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(SourceError, match=message):
        read_names([open_folder(tmp_path)])


NAMES = "names: [person, car]\n"


def _images(folder: Path, names: str, labels: Path | None = None) -> None:
    """Write an image for each letter of ``names``, with an object of class 0 and class 1 in turn."""
    labels = labels or Path(str(folder).replace("images", "labels"))
    for number, name in enumerate(names):
        for directory in (folder, labels):
            directory.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(folder / f"{name}.png")
        (labels / f"{name}.txt").write_text(f"{number % 2} 0.5 0.5 0.5 0.5\n")


def _convert(file: Path, **options: Any) -> dict[str, list[str]]:
    """Convert a source, check that each image of each split has its object, and return the keys by split."""
    summary = stoker.convert(file, file.parent / "shards", **convert_options(options))
    found = {}
    for split, folder in summary.datasets.items():
        assert folder == file.parent / "shards" / split
        dataset = stoker.open(folder)
        assert dataset.classes == ("person", "car")
        assert len(dataset.annotations(range(len(dataset)))) == len(dataset)
        found[split] = dataset.keys(range(len(dataset)))
    assert summary.written == sum(map(len, found.values()))
    return found


def test_paths_of_roboflow_start_at_a_folder_below_the_file(tmp_path: Path) -> None:
    for split, names in (("train", "ab"), ("valid", "c"), ("test", "d")):
        _images(tmp_path / split / "images", names)
    (tmp_path / "data.yaml").write_text(
        f"train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 2\n{NAMES}"
    )
    found = {
        "train": ["train/images/a.png", "train/images/b.png"],
        "val": ["valid/images/c.png"],
        "test": ["test/images/d.png"],
    }
    assert _convert(tmp_path / "data.yaml") == found


def test_a_split_may_be_several_folders_or_a_list_below_path(tmp_path: Path) -> None:
    _images(tmp_path / "set" / "images" / "one", "ab")
    _images(tmp_path / "set" / "images" / "two", "c")
    _images(tmp_path / "elsewhere", "d", tmp_path / "elsewhere")
    (tmp_path / "set" / "val.txt").write_text("./images/one/b.png\n\nimages/two/c.png\n")
    (tmp_path / "coco8.yml").write_text(
        f"path: set\ntrain: [images/one, images/two]\nval: val.txt\ntest: {tmp_path}/elsewhere\n{NAMES}"
    )
    assert _convert(tmp_path / "coco8.yml") == {
        "train": ["set/images/one/a.png", "set/images/one/b.png", "set/images/two/c.png"],
        "val": ["set/images/one/b.png", "set/images/two/c.png"],
        "test": ["elsewhere/d.png"],
    }


@pytest.mark.parametrize("labels", ["txt", "images/../Labels"])
@pytest.mark.parametrize("split", ["train", "val"])
def test_a_split_without_one_label_is_refused(tmp_path: Path, split: str, labels: str) -> None:
    for name in ("train", "val"):
        _images(tmp_path / name / "images", "ab", tmp_path / name / (labels if name == split else "labels"))
    (tmp_path / "data.yaml").write_text(f"train: train/images\nval: val/images\ntest: null\n{NAMES}")
    message = f"not one of 2 images of {split} has labels: there is no {split}/labels/a.txt"
    with pytest.raises(SourceError, match=message):
        _convert(tmp_path / "data.yaml", allow_loss=1)
    (tmp_path / split / "labels").mkdir()
    with pytest.raises(SourceError, match="not one of 2 images has labels: there is no a"):
        _convert(tmp_path / split, source_format="yolo", allow_loss=1)
    (tmp_path / split / "labels" / "b.txt").touch()  # an image that shows no object
    assert stoker.convert(tmp_path / "data.yaml", tmp_path / "out").written == 4


@pytest.mark.usefixtures("every_event")
def test_a_split_to_test_may_lack_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _images(tmp_path / "train" / "images", "ab")
    _images(tmp_path / "test" / "images", "c", tmp_path / "txt")
    (tmp_path / "data.yaml").write_text(f"train: train/images\ntest: test/images\n{NAMES}")
    datasets = stoker.convert(tmp_path / "data.yaml", tmp_path / "out").datasets
    assert [len(stoker.open(datasets[split]).annotations([0])) for split in ("train", "test")] == [1, 0]
    assert "not one of 1 images of test has labels: its images have no objects" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"train: gone\n{NAMES}", "train names 'gone', which is not there"),
        ("train: images\n", "no names of classes and no nc"),
        ("train: images\nnc: 10000000\n", "nc is 10000000, more than"),
        (NAMES, "it names no images"),
        (f"train: {{a: b}}\n{NAMES}", "the numbers of train must count from 0"),
        (f'train: "a\\0b"\n{NAMES}', "must be paths"),
        (f"train: {'x' * 5000}\n{NAMES}", "which is not there"),
        (f"train: empty\n{NAMES}", "train holds no image"),
    ],
)
def test_a_data_yaml_that_cannot_be_used_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    _images(tmp_path / "images", "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.yaml").write_text(content)
    with pytest.raises(SourceError, match=message):
        _convert(tmp_path / "data.yaml")


def test_options_that_do_not_fit_splits_are_refused(tmp_path: Path) -> None:
    _images(tmp_path / "images", "ab")
    (tmp_path / "labels" / "gone.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (tmp_path / "data.yaml").write_text(f"train: images\ntest:\n{NAMES}")
    with pytest.raises(SourceError, match="labels without an image"):
        _convert(tmp_path / "data.yaml")
    assert _convert(tmp_path / "data.yaml", allow_loss=1) == {"train": ["images/a.png", "images/b.png"]}
    shutil.rmtree(tmp_path / "shards")
    (tmp_path / "labels" / "gone.txt").unlink()
    with pytest.raises(SourceError, match="this is a URL"):
        stoker.convert("memory://bucket/data.yaml", tmp_path / "out")
    with pytest.raises(ConfigError, match="val and test divide a source"):
        _convert(tmp_path / "data.yaml", val=0.5)
    for folder in ("images", "labels"):
        shutil.copytree(tmp_path / folder, tmp_path / "train", dirs_exist_ok=True)
    (tmp_path / "among.yaml").write_text(f"train: train\n{NAMES}")
    with pytest.raises(ConfigError, match="images of the source lie in the target"):
        stoker.convert(tmp_path / "among.yaml", tmp_path)
    _convert(tmp_path / "data.yaml")
    with pytest.raises(ConfigError, match="append adds one source"):
        stoker.append(tmp_path / "shards" / "train", tmp_path / "data.yaml")
