import warnings
warnings.filterwarnings("ignore", "the slow engine 'reference' runs all transforms")
command("convert examples/photos/val shards/photos")
command("convert examples/photos/val shards/train")

def batch(transforms):
    with stoker.ImageLoader("shards/photos", batch_size=4, transforms=transforms) as loader:
        return next(iter(loader)).image
# [after each block]
print(batch(transforms).shape)
# [the page]
assert (first != second).any(axis=(1, 2, 3)).all()
assert "imagenet-train" in recipe_names()
assert load_recipe("recipe.json") == load_recipe("imagenet-train")
assert batch([RandomResizedCrop(64), blur, three]).shape == (4, 3, 64, 64)
assert batch([Resize((64, 64)), RandomVignette(1)]).mean() < batch([Resize((64, 64))]).mean() - 5
