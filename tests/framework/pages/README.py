# [the page]
assert len(loader.dataset) == 108
