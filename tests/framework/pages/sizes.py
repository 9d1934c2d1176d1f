command("convert examples/photos/val shards/train")
# [the page]
assert len(images) == 4 and (heights <= batch.image.shape[2]).all() and (widths > 0).all()
