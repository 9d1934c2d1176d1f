from stoker._native import crc32c

command("convert examples/photos/val shards/train")
# [the page]
assert crc32c(image) == row["crc"] and image[:2] == b"\xff\xd8"
