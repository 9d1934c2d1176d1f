from pathlib import Path

command("convert examples/photos/val shards/train")
with stoker.Writer("shards/pairs", captions=stoker.Captions(caption_column="captions", tokenizer="bytes")) as writer:
    for photo in sorted(Path("examples/photos/val").rglob("*.jpg")):
        writer.write(photo, captions=["a photograph", "the same photograph"])
# [the page]
assert len(images) == 4 and (heights <= batch.image.shape[2]).all() and (widths > 0).all()
assert len(shapes) > 1 and all(height % 64 == width % 64 == 0 for height, width in shapes)
assert (read.segment_ids.max(axis=1) == read.caption_segment_ids.max(axis=1)).all()
assert same_image.shape == (2, 1024, 1024) and len(loader) > 1
