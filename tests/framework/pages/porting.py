import tarfile
from pathlib import Path
import torch

Path("photos").symlink_to("examples/photos")
transform = [Resize((64, 64)), Normalize()]
command("convert examples/photos/train shards/train")
command("convert examples/photos/val shards/val")
Path("corpus.txt").write_text("to be or not to be\n" * 500)
command("convert-text corpus.txt shards/documents --tokenizer bytes")
for number, photo in enumerate(sorted(Path("examples/photos/val").rglob("*.jpg"))[:4]):
    with tarfile.open(f"train-{number:03}.tar", "w") as archive:
        archive.add(photo, f"{number}.jpg")
        Path("label").write_text(str(number % 2))
        archive.add("label", f"{number}.cls")

def model(images):
    return torch.zeros(len(images), 12)
# [the page]
assert int(seen) == 48 and int(right) == 4
assert stoker.open("shards/archives").labels.tolist() == [0, 1, 0, 1]
assert x.shape == y.shape == (12, 256) and bool((y[:, :-1][y[:, :-1] >= 0] == x[:, 1:][y[:, :-1] >= 0]).all())
assert len(train) == 1
