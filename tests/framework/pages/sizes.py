command("convert examples/photos/val shards/train")
# [the page]
assert len(images) == 4 and (heights <= batch.image.shape[2]).all() and (widths > 0).all()
assert len(shapes) > 1 and all(height % 64 == width % 64 == 0 for height, width in shapes)
assert same_image.shape == (2, 1024, 1024) and len(loader) > 1
