command("convert examples/photos/val shards/train")
# [the page]
assert images.shape == (8, 1, 224, 224)
