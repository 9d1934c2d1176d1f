# [the page]
assert depths.shape == (16, 64, 64) and captions[3] == "image 3" and depth.shape == (64, 64)
for name, number in (("pairs", 20), ("rows", 1), ("made", 9), ("documents", 10), ("more", 10)):
    assert len(stoker.open(f"shards/{name}")) == number
assert stoker.open("shards/objects").annotations([0]).boxes.tolist() == [[4, 8, 24, 38], [0, 0, 10, 10]]
assert stoker.open("shards/documents").column("score").tolist() == [number / 10 for number in range(10)]
