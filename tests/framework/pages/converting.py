import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow
from fsspec.implementations.memory import MemoryFileSystem
from helpers import annotations as coco_files
from helpers.datasets import write_words
from helpers.shards import datum, example, write_lmdb, write_samples, write_tfrecord
from PIL import Image
from pyarrow import parquet

# A folder with classes for training, and one for validation.
photos = sorted(Path("examples/photos/val").rglob("*.jpg"))
Path("photos").mkdir()
for name in ("train", "val"):
    Path("photos", name).symlink_to(Path("examples/photos/val").absolute())

# Files of Hugging Face's datasets: Parquet here and on a storage that stands in for theirs, and a saved folder.
rows = [{"bytes": photo.read_bytes(), "path": photo.name} for photo in photos[:4]]
table = pyarrow.table({"image": rows, "label": [0, 1, 0, 1]})
Path("data").mkdir()
parquet.write_table(table, "data/train-0.parquet")
fsspec.register_implementation(
    "hf",
    type(
        "Hub",
        (MemoryFileSystem,),
        {
            "store": {},
            "_strip_protocol": classmethod(
                lambda cls, path: MemoryFileSystem._strip_protocol(str(path).removeprefix("hf:/"))
            ),
        },
    ),
    clobber=True,
)
with fsspec.open("hf://datasets/USER/NAME/data/train-00000-of-00001.parquet", "wb") as file:
    parquet.write_table(table, file)
Path("saved/train").mkdir(parents=True)
with pyarrow.ipc.new_stream("saved/train/data-00000-of-00001.arrow", table.schema) as stream:
    pass
named = table.rename_columns(["photo", "kind"])
with pyarrow.ipc.new_stream("saved/train/data-00000-of-00001.arrow", named.schema) as stream:
    stream.write_table(named)
Path("saved/train/state.json").write_text(
    json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})
)
Path("saved/train/dataset_info.json").write_text("{}")

# Objects and masks.
folder = Path("coco")
folder.mkdir()
coco_files.write_coco_images(folder)
(folder / "images").rename("train2017")
Path("annotations").mkdir()
coco_files.write(folder, coco_files.document()).rename("annotations/instances_train2017.json")
voc = Path("VOCdevkit/VOC2012")
for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
    (voc / name).mkdir(parents=True)
Image.new("RGB", (40, 30)).save(voc / "JPEGImages/one.jpg")
(voc / "Annotations/one.xml").write_text(
    "<annotation><filename>one.jpg</filename><size><width>40</width><height>30</height><depth>3</depth></size>"
    "<object><name>cat</name><bndbox><xmin>3</xmin><ymin>4</ymin><xmax>20</xmax><ymax>21</ymax></bndbox></object>"
    "</annotation>"
)
(voc / "ImageSets/Main/train.txt").write_text("one\n")
for image, annotation in (("labelimg", "labelimg"), ("exported", "export/xml")):
    Path(annotation).mkdir(parents=True, exist_ok=True)
    Path(image).mkdir(exist_ok=True)
    shutil.copy(voc / "JPEGImages/one.jpg", f"{image}/in_voc.jpg")
    shutil.copy(voc / "Annotations/one.xml", f"{annotation}/in_voc.xml")
for name in ("images/train2017", "labels/train2017"):
    Path("coco128", name).mkdir(parents=True)
shutil.copy(photos[0], "coco128/images/train2017/one.jpg")
Path("coco128/labels/train2017/one.txt").write_text("0 0.5 0.5 0.2 0.2\n")
Path("coco128/data.yaml").write_text("names: [cat]\n")
shutil.copytree("coco128", "roboflow/train")
Path("roboflow/data.yaml").write_text("train: ../train/images\nnames: [cat]\n")
for name in ("images", "annotations"):
    Path("ADEChallengeData2016", name, "training").mkdir(parents=True)
Image.new("RGB", (40, 30)).save("ADEChallengeData2016/images/training/one.jpg")
Image.new("L", (40, 30), 7).save("ADEChallengeData2016/annotations/training/one.png")
values = np.zeros((30, 40), np.uint16)
values[5:20, 5:20] = 26001
for name in ("leftImg8bit/train/ulm", "gtFine/train/ulm"):
    Path(name).mkdir(parents=True)
Image.new("RGB", (40, 30)).save("leftImg8bit/train/ulm/ulm_0_0_leftImg8bit.png")
Image.fromarray(values).save("gtFine/train/ulm/ulm_0_0_gtFine_instanceIds.png")
labels = np.where(values > 33, values // 1000, values).astype(np.uint8)
Image.fromarray(labels).save("gtFine/train/ulm/ulm_0_0_gtFine_labelIds.png")
for name, value in {"SegmentationObject": 1, "SegmentationClass": 8}.items():
    (voc / name).mkdir()
    Image.fromarray((values > 0) * np.uint8(value)).save(voc / name / "one.png")
(voc / "ImageSets/Segmentation").mkdir()
(voc / "ImageSets/Segmentation/train.txt").write_text("one\n")

Path("openimages").mkdir()
shutil.copy(photos[0], "openimages/one.jpg")
Path("train-annotations-bbox.csv").write_text(
    "ImageID,LabelName,XMin,XMax,YMin,YMax\none,/m/01,0.1,0.5,0.1,0.5\n"
)
Path("masks").mkdir()
Image.new("1", (40, 30), 1).save("masks/one.png")
Path("train-annotations-object-segmentation.csv").write_text(
    "MaskPath,ImageID,LabelName,BoxXMin,BoxXMax,BoxYMin,BoxYMax\none.png,one,/m/01,0.1,0.5,0.1,0.5\n"
)

# Shards of others.
Path("imagenet").mkdir()
Path("caffe").mkdir()
payloads = [photo.read_bytes() for photo in photos]
write_tfrecord(Path("imagenet/train-0.tfrecord"), [example(data, n % 12) for n, data in enumerate(payloads)])
write_lmdb(Path("caffe/train_lmdb"), {b"%03d" % n: datum(data, n % 12) for n, data in enumerate(payloads)})

# Captions.
names = [
    f"train/{path.relative_to('photos/train')}" for path in sorted(Path("photos/train").rglob("*.jpg"))[:3]
]
shutil.copy(photos[0], "photos/1.jpg")
Path("captions.jsonl").write_text(
    "".join(
        json.dumps({"path": name, "captions": ["a dog", f"number {n}"]}) + "\n"
        for n, name in enumerate(names)
    )
)
write_words(Path("tokenizer.json"), ("a", "dog", "number", "photo"))
Path("laion").mkdir()
write_samples(
    Path("laion/00000.tar"),
    [{"__key__": str(n), "jpg": data, "txt": "a photo"} for n, data in enumerate(payloads[:2])],
)
# [the page]
assert sum(stoker.open("shards/written").lists("caption_lengths", [0]).values) == 6
assert found.labels.tolist() and found.boxes.shape[1] == 4
assert (
    len(stoker.open("shards/voc-train"))
    == len(stoker.open("shards/yolo"))
    == len(stoker.open("shards/ade"))
    == 1
)
assert stoker.open("shards/cityscapes").category_ids[2] == 26
assert stoker.open("shards/voc-objects").annotations([0]).boxes.tolist() == [[5, 5, 20, 20]]
assert sample.image.shape[2] == 3
