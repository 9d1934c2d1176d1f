import os
import re
import sys
import warnings
from io import BytesIO
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem
from helpers import annotations as coco_files
from helpers.cluster import RayTasks
from helpers.shards import example, write_tfrecord
from moto.server import ThreadedMotoServer
from PIL import Image

warnings.filterwarnings("ignore", module="moto|botocore|aiobotocore|werkzeug")
sys.modules["ray"] = RayTasks()  # tests/stress convert on a cluster

# A server of S3 on this machine, and files in memory that stand in for a web server with https.
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
os.environ |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
os.environ |= {"NO_PROXY": host, "no_proxy": host}
web = {
    "store": {},
    "_strip_protocol": classmethod(
        lambda cls, path: MemoryFileSystem._strip_protocol(re.sub("^https://", "/", str(path)))
    ),
}
fsspec.register_implementation("https", type("Web", (MemoryFileSystem,), web), clobber=True)
s3 = fsspec.filesystem("s3")
s3.mkdir("bucket")

photos = sorted(Path("examples/photos/val").rglob("*.jpg"))[:12]
Path("photos/train/one").mkdir(parents=True)
for photo in photos:
    Path("photos/train/one", photo.name).write_bytes(photo.read_bytes())
s3.put("photos/train", "bucket/photos", recursive=True)
lines = ["path,label", *(f"one/{photo.name},{number % 2}" for number, photo in enumerate(photos))]
s3.pipe("bucket/photos/list.csv", "\n".join(lines).encode())
voc = "bucket/VOCdevkit/VOC2012"
s3.pipe(f"{voc}/JPEGImages/one.jpg", photos[0].read_bytes())
s3.pipe(
    f"{voc}/Annotations/one.xml",
    (
        b"<annotation><filename>one.jpg</filename><object><name>cat</name><bndbox><xmin>3</xmin><ymin>4</ymin>"
        b"<xmax>20</xmax><ymax>21</ymax></bndbox></object></annotation>"
    ),
)
s3.pipe(f"{voc}/ImageSets/Main/train.txt", b"one\n")
Path("annotations").mkdir()
coco_files.write_coco_images(Path())
s3.put("images", "bucket/coco/images", recursive=True)
coco_files.write(Path("annotations"), coco_files.document())
s3.pipe("bucket/ade/images/one.png", Path("images/a.png").read_bytes())
mask = BytesIO()
Image.new("L", (30, 20), 7).save(mask, "PNG")
s3.pipe("bucket/ade/annotations/one.png", mask.getvalue())
write_tfrecord(Path("train-0"), [example(photo.read_bytes(), 0) for photo in photos])
s3.put("train-0", "bucket/imagenet/train-0")
stoker.convert("photos/train", "made")
for name in ("photos", "large"):
    s3.put("made", f"bucket/shards/{name}", recursive=True)
fsspec.filesystem("https").put("made", "/data.example.org/shards/train", recursive=True)
# [the page]
assert len(photos) == 12 and len(loader.dataset) == len(train) + len(large)
assert len(stoker.open("imagenet", cache="cache")) == 12 and len(stoker.open("shards/voc")) == 1
