import tarfile
from pathlib import Path

from helpers.shards import image, write_lmdb, write_mds, write_recordio, write_tfrecord

photos = sorted(Path("examples/photos/val").rglob("*.jpg"), key=lambda path: path.stat().st_size)
payloads = [photo.read_bytes() for photo in photos]
Path("photos").mkdir()
Path("photos/train").symlink_to(Path("examples/photos/val").absolute())
for number in range(100):
    with tarfile.open(f"train-{number:06}.tar", "w") as archive:
        archive.add(photos[number % 4], f"{number}.jpg")
        Path("text").write_text(str(number % 2))
        archive.add("text", f"{number}.cls")
        archive.add("text", f"{number}.txt")
write_recordio(Path("train.rec"), [image(data, n % 12, n) for n, data in enumerate(payloads[:6])])
Path("names.txt").write_text("\n".join("abcdefghijkl"))
write_mds(Path("my-dataset/train"), {"x": "jpeg", "label": "int"}, [[{"x": payloads[0], "label": 0}]])
for name in ("bedroom", "church_outdoor"):
    write_lmdb(Path(f"{name}_train_lmdb"), {b"%03d" % n: data for n, data in enumerate(payloads[:3])})
pixels = {"img_raw": bytes(12), "height": [2], "width": [2], "label": [0]}
write_tfrecord(Path("train.tfrecord"), [pixels])
write_tfrecord(Path("cifar.tfrecord"), [{"image_raw": bytes(32 * 32 * 3), "label": [3]}])
write_tfrecord(Path("scores.tfrecord"), [{"image/encoded": payloads[0], "score": [0.5]}])
# [the page]
