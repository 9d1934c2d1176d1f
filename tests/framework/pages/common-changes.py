import sys
from pathlib import Path
from types import SimpleNamespace

from stoker.augment.transforms.color import *  # the module of the first block
from stoker.formats.containers.container import CONTAINERS, ContainerRow
from stoker.formats.in_place.shards import index
from stoker.formats.sources import registry
from stoker.formats.sources.registry import SourceFormat

photos = sorted(Path("examples/photos/val").rglob("*.jpg"))[:2]
packages = iter(["formats.containers", "formats.sources", ""])
__package__ = "stoker.augment.transforms.color"  # where the module of each block lies
# [after each block]
__package__ = "stoker." + next(packages)
# [the page]
Path("shards.len").write_bytes(
    b"LEN1" + b"".join(struct.pack("<I", photo.stat().st_size) + photo.read_bytes() for photo in photos)
)
sys.modules["stoker.formats.containers.lengths"] = SimpleNamespace(LENGTHS=LENGTHS)
CONTAINERS["lengths"] = ContainerRow("Lengths files", can_write=False, suffix=".len")
index(["shards.len"], "indexed")
assert [stoker.open("indexed").read(i) for i in range(2)] == [photo.read_bytes() for photo in photos]
loaders = [
    stoker.ImageLoader("indexed", batch_size=2, transforms=[Resize((32, 32)), *halved])
    for halved in ((), (RandomHalve(1.0),))
]
plain, half = (next(iter(loader)).image.astype(float) for loader in loaders)
assert np.abs(plain / 2 - half).max() <= 1
Path("boxes").mkdir()
[Path("boxes", photo.name).symlink_to(photo.absolute()) for photo in photos]
Path("boxes/boxes.txt").write_text(f"{photos[0].name} b 1 2 30 40\n{photos[1].name} a 5 6 7 8\nodd\n")
sys.modules["stoker.formats.sources.box_list"] = SimpleNamespace(list_box_list=list_box_list)
is_box_list = lambda source: source.folder.has("boxes.txt")
registry.SOURCE_FORMATS = (
    SourceFormat("box_list", is_box_list, "box_list.list_box_list"),
    *registry.SOURCE_FORMATS,
)
stoker.convert("boxes", "converted", selection=stoker.Selection(allow_loss=0.2))
assert stoker.open("converted").classes == ("a", "b")
assert stoker.open("converted").annotations([0]).boxes.tolist() == [[1, 2, 30, 40]]
