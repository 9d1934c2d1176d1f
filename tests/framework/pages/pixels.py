import numpy as np
from pathlib import Path
from PIL import Image
command("convert examples/photos/val shards/train")
Path("scans/a").mkdir(parents=True)
for number in range(2):
    Image.fromarray(np.full((64, 64), 40_000, np.uint16)).save(f"scans/a/{number}.png")
command("convert scans shards/scans")
Path("tiles/a").mkdir(parents=True)
for number in range(2):
    np.save(f"tiles/a/{number}.npy", np.full((64, 64, 6), number, np.uint16))
command("convert tiles shards/tiles")
# [the page]
assert images.shape == (8, 1, 224, 224)
