import shutil
from pathlib import Path

from PIL import Image

photos = sorted(Path("examples/photos/val").rglob("*.jpg"))
for number, photo in enumerate(photos[:9]):
    folder = Path("photos", ("train", "new", "more")[number % 3], photo.parent.name)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(photo, folder)
classes = sorted({photo.parent.name for photo in photos[:9]})
for name in ("train", "more"):
    stoker.convert(Path("photos", name), Path("shards", name), classes=classes, selection=stoker.Selection(allow_missing_classes=True))
icon = Path("photos/new", classes[0], "icon.png")
icon.parent.mkdir(exist_ok=True)
Image.new("RGB", (32, 32)).save(icon)
Path("photos/zebras/zebra").mkdir(parents=True)
shutil.copy(photos[0], "photos/zebras/zebra")

# [after each block]
# [the page]
assert len(stoker.open("shards/train")) == 6
assert len(stoker.open("shards/all")) == 9
assert len(stoker.open("shards/more")) == 3
assert stoker.open("shards/train").classes[-1] == "zebra"
assert [stoker.verify(f"shards/{name}").ok for name in ("train", "all")] == [True, True]
