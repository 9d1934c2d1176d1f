"""Tests of folders that hold splits, annotations or one inner folder, at every door that takes a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.command_line import run
from helpers.shards import write_members

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.containers.shard_names import expand
from stoker.formats.in_place.images import index_images
from stoker.formats.in_place.shards import index
from stoker.formats.remote.store import Store
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import find_format
from stoker.formats.sources.source import Source

Tree = Callable[..., Path]

DOORS: dict[str, Callable[[Any, Path], Any]] = {
    "convert": stoker.convert,
    "index": index_images,
    "open": lambda source, _: stoker.open(source),
    "loader": lambda source, _: stoker.ImageLoader(source, batch_size=2),
}

pytestmark = pytest.mark.usefixtures("cache")


def refusal(door: str, source: Any, target: Path) -> str:
    with pytest.raises(SourceError) as caught:
        DOORS[door](source, target)
    assert not target.exists()
    return str(caught.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("folders", "inner"),
    [
        (["train", "val"], ["train", "val"]),
        (["Training", "Testing"], ["Training", "Testing"]),
        (["TRAIN2017", "Val2017", "other"], ["TRAIN2017", "Val2017"]),
        (["trainset", "holdout"], ["trainset", "holdout"]),
        (["images/train", "images/dev"], ["images/train", "images/dev"]),
        (["birds/photos/train", "birds/photos/valid"], ["birds/photos/train", "birds/photos/valid"]),
        (["seg_train/seg_train", "seg_test/seg_test"], ["seg_train/seg_train", "seg_test/seg_test"]),
    ],
    ids=["usual", "capitals", "years", "sets", "images-layer", "two-levels", "doubled"],
)
def test_splits_do_not_become_classes(
    tree: Tree, tmp_path: Path, door: str, folders: list[str], inner: list[str]
) -> None:
    root = tree(*(f"{folder}/{name}/1.jpg" for folder in folders for name in ("owl", "jay")))
    message = refusal(door, root, tmp_path / "target")
    assert "the folder holds the splits" in message
    calls = {"convert": "stoker convert {} TARGET/", "index": "stoker index {} --into TARGET/"}
    for one in inner:
        assert calls.get(door, "stoker.open('{}')").format(root / one) in message
    assert "class_depth=1" in message or "--class-depth 1" in message


@pytest.mark.parametrize("command", ["convert", "index"])
def test_the_commands_for_the_splits_give_one_numbering(tree: Tree, tmp_path: Path, command: str) -> None:
    root = tree("train/jay/1.jpg", "train/owl/1.jpg", "val/owl/1.jpg", "test/1.jpg")
    into = ["--into"] if command == "index" else []
    with pytest.raises(SourceError) as caught:
        run(command, root, *into, tmp_path / "refused")
    hint = str(caught.value.hint).removeprefix("Take each by itself: ")
    for line in hint.split("; ")[:3]:
        run(*line.replace("TARGET", str(tmp_path)).split()[1:])
    made = [stoker.open(tmp_path / split) for split in ("train", "val", "test")]
    assert [one.classes for one in made] == [("jay", "owl"), ("jay", "owl"), ()]
    assert made[1].labels.tolist() == [1]


def test_a_class_may_have_the_name_of_a_split(tree: Tree) -> None:
    assert stoker.open(tree("train/1.jpg", "bus/1.jpg", "test-tube/1.jpg")).num_classes == 3


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["owl/train/1.jpg", "owl/val/1.jpg", "jay/train/1.jpg"], "classes hold the splits train and val"),
        (["owl/images/1.jpg", "jay/images/1.jpg"], "hold their images in a folder images"),
        (
            [f"fold{n}/{name}/{n}.jpg" for n in (1, 2) for name in ("owl", "jay")],
            "the folders fold1 and fold2 hold the same folders jay and owl",
        ),
        (["birds/birds/owl/1.jpg", "birds/birds/jay/1.jpg"], "holds its classes in the folder birds/birds"),
        (["images/1.jpg", "images/2.jpg", "train.csv"], "holds its images in the folder images"),
    ],
    ids=["splits-in-classes", "images-in-classes", "folds", "doubled", "images"],
)
@pytest.mark.parametrize("door", DOORS)
def test_a_folder_that_names_no_class_is_refused(
    tree: Tree, tmp_path: Path, door: str, files: list[str], words: str
) -> None:
    root = tree(*files)
    (root / "idx.json").write_text('{"owl": 0}')
    message = refusal(door, root, tmp_path / "target")
    assert words in message
    assert ("train.csv" in files) == ("source/train.csv" in message)
    assert "idx.json" not in message


def test_class_depth_takes_the_folders_for_classes(tree: Tree, tmp_path: Path) -> None:
    root = tree("train/owl/1.jpg", "val/owl/1.jpg", "val/jay/1.jpg")
    options = SourceOptions(class_depth=1)
    stoker.convert(root, tmp_path / "shards", source_options=options)
    index_images(root, tmp_path / "index", class_depth=1)
    for opened in (
        stoker.open(root, class_depth=1),
        *map(stoker.open, (tmp_path / "shards", tmp_path / "index")),
    ):
        assert opened.classes == ("train", "val")
    assert stoker.open(root, class_depth=2).classes == ("train/owl", "val/jay", "val/owl")
    with pytest.raises(ConfigError, match="class_depth must be at least 1, found 0"):
        stoker.open(root, class_depth=0)
    with pytest.raises(ConfigError, match="class_depth is for a folder of images"):
        stoker.open(tmp_path / "shards", class_depth=1)


def test_a_folder_has_the_same_classes_in_place_and_converted(tree: Tree, tmp_path: Path) -> None:
    root = tree("birds/owl/1.jpg", "birds/owl/young/2.jpg", "birds/jay/3.jpg", "fish/eel/4.jpg")
    stoker.convert(root, tmp_path / "shards")
    index_images(root, tmp_path / "index")
    expected = ("birds/jay", "birds/owl", "birds/owl/young", "fish/eel")
    for opened in map(stoker.open, (root, tmp_path / "shards", tmp_path / "index")):
        assert (opened.classes, opened.labels.tolist()) == (expected, [0, 1, 2, 3])


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("images", "annotations", "kind"),
    [
        ("a/images/{}.jpg b/images/{}.jpg", {"a/xml/{}.xml": "<annotation/>"}, "Pascal VOC"),
        ("img/{}.jpg", {"ann/{}.jpg.json": '{"size": {}, "objects": []}'}, "Supervisely"),
        ("images/{}.jpg", {"annotations.xml": "<?xml?><annotations/>"}, "CVAT"),
        ("train/{}.jpg test/{}.jpg", {"train/_annotations.csv": "filename,class,xmin,ymin,xmax"}, "boxes"),
        ("train/{}.jpg", {"boxes.csv": "ImageID,LabelName,XMin,XMax,YMin,YMax"}, "Convert the CSV itself"),
        ("owl/{}.jpg owl/{}_mask.png", {}, "masks"),
        ("images/{}.jpg", {"labelTxt/{}.txt": "gsd:0.1\n1 1 9 1 9 9 1 9 plane 0"}, "DOTA"),
        ("images/{}.jpg", {"annotations/{}.txt": "684,8,273,116,0,0,0,0"}, "VisDrone"),
        ("{}.jpg", {"metadata.jsonl": '{"file_name": "1.jpg", "objects": {}}'}, "metadata with objects"),
        ("owl/{}.jpg", {"owl/{}.json": "[]"}, "an unknown format"),
        ("owl/{}.jpg", {"owl/{}.txt": "an owl at night"}, "holds texts"),
    ],
    ids=["voc-of-several", "supervisely", "cvat", "table", "open-images", "masks", "dota", "visdrone",
         "metadata", "json", "captions"],
)  # fmt: skip
def test_annotations_beside_images_are_not_left_out(
    tree: Tree, tmp_path: Path, door: str, images: str, annotations: dict[str, str], kind: str
) -> None:
    root = tree(*(name.format(i) for name in images.split() for i in range(3)))
    for name, text in annotations.items():
        for i in range(3):
            (root / name.format(i)).parent.mkdir(parents=True, exist_ok=True)
            (root / name.format(i)).write_text(text)
    message = refusal(door, root, tmp_path / "target")
    assert "which a folder of classes leaves out" in message
    assert kind in message


@pytest.mark.parametrize("door", DOORS)
def test_a_stray_json_does_not_make_a_folder_cocos(tree: Tree, tmp_path: Path, door: str) -> None:
    root = tree("owl/1.jpg", "jay/2.jpg")
    (root / "class_to_idx.json").write_text('{"jay": 0, "owl": 1}')
    (root / "owl" / "info.json").write_text('{"info": {"images": 1}, "license": []}')
    assert find_format(Source(root)).name == "folder"
    (root / "instances.json").write_text('{"info": {}, "annotations": [')
    assert "the root of COCO's datasets" in refusal(door, root, tmp_path / "other")
    assert "class_to_idx" not in refusal(door, root, tmp_path / "other")
    (root / "instances.json").write_text("[]")
    if door != "loader":  # it needs transforms
        DOORS[door](root, tmp_path / "target")


def test_few_texts_beside_images_are_no_annotations(tree: Tree) -> None:
    root = tree(*(f"owl/{i}.jpg" for i in range(5)), "jay/1.jpg")
    (root / "owl/1.txt").write_text("seen at night")
    (root / "class_to_idx.txt").write_text("owl")
    assert find_format(Source(root)).name == "folder"


@pytest.fixture
def shards(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """A folder of archives and one of Parquet files: two of train, one of validation and of test."""
    for number, name in enumerate(("train-00000", "train-00001", "validation-00000", "test-00000")):
        image = make_jpeg(number)
        for kind in ("tar", "parquet"):
            (tmp_path / kind).mkdir(exist_ok=True)
        write_members(tmp_path / f"tar/{name}.tar", [(f"{name}.jpg", image), (f"{name}.cls", b"1")])
        table = pa.table({"image": [{"bytes": image, "path": "1.jpg"}], "label": [0]})
        pq.write_table(table, tmp_path / f"parquet/{name}.parquet")
    return tmp_path


@pytest.mark.parametrize("pattern", ["", "/*"])
@pytest.mark.parametrize(
    ("kind", "take"),
    [
        ("parquet", stoker.convert),
        ("tar", stoker.convert),
        ("tar", lambda source, target: index([source], target)),
        ("tar", lambda source, target: index(expand(source), target)),
        ("tar", lambda source, _: stoker.open(source)),
    ],
    ids=["table", "archives", "index", "index-of-a-list", "open"],
)
def test_shards_of_several_splits_do_not_become_one_dataset(
    shards: Path, kind: str, pattern: str, take: Callable[[Any, Path], Any]
) -> None:
    source = f"{shards}/{kind}{pattern}{f'.{kind}' if pattern else ''}"
    with pytest.raises(SourceError, match="splits train, val and test, which would become one") as caught:
        take(source, shards / "target")
    assert f"'{shards}/{kind}/train-*.{kind}'" in str(caught.value)
    assert f"{shards}/{kind}/validation-00000.{kind}" in str(caught.value)


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_a_list_in_braces_makes_one_dataset_of_splits(shards: Path, kind: str) -> None:
    with pytest.raises(SourceError) as caught:
        stoker.convert(shards / kind, shards / "target")
    together = str(caught.value.hint).rpartition("braces: '")[2].removesuffix("'.")
    stoker.convert(together, shards / "target")
    assert len(stoker.open(shards / "target")) == 4
    if kind == "tar":
        assert len(stoker.open(together)) == 4


def test_a_folder_of_splits_at_a_url_is_refused(tree: Tree, make_jpeg: Callable[..., bytes]) -> None:
    fsspec = pytest.importorskip("fsspec")
    for split in ("train", "val"):
        fsspec.filesystem("memory").pipe(f"/birds/{split}/owl/1.jpg", make_jpeg(1))
    with pytest.raises(SourceError, match="the folder holds the splits train and val"):
        find_format(Source("memory://birds"))


def test_annotations_at_a_url_are_known_by_their_start(
    make_jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, sizes = pytest.importorskip("fsspec").filesystem("memory"), []
    memory.pipe("/lakes/1.jpg", make_jpeg(1))
    memory.pipe("/lakes/1.json", b'{"size": {}, "objects": [], "rest": "' + b"x" * 100_000 + b'"}')
    read = Store.read_if_there

    def counted(store: Store, *arguments: Any) -> bytes | None:
        content = read(store, *arguments)
        sizes.append(len(content or b""))
        return content

    monkeypatch.setattr(Store, "read_if_there", counted)
    with pytest.raises(SourceError, match=r"the folder holds annotations of Supervisely, such as 1\.json"):
        find_format(Source("memory://lakes"))
    assert max(sizes) < 5_000
