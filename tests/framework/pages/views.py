command("convert examples/photos/val shards/train")
# [the page]
assert first.shape == second.shape == (48, 3, 224, 224) and crops.shape == (8, 48, 3, 96, 96)
assert weak.shape == strong.shape == (48, 3, 224, 224) and labels.shape == (48,)
assert images.shape[:2] == masks.shape[:2] == (2, 48) and hidden.count is None
