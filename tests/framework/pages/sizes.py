command("convert examples/photos/val shards/train")
# [the page]
assert images.shape == (16, 3, 160, 160) and len(loader) == 2
