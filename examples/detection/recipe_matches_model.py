"""Recipes with arguments of models: python examples/detection/recipe_matches_model.py [SHARDS] [STEPS].

For each recipe that has arguments for torchvision's detection models, the example checks that Faster R-CNN
takes images and boxes as they are. With its defaults, the model would resize them once more.
"""

import sys

import torch
from shapes import write_shapes
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_fpn

import stoker
from stoker.augment import load_recipe, model_arguments, recipe_names


def check(model: torch.nn.Module, images: torch.Tensor, targets: list[dict]) -> None:
    """Raise AssertionError if the model changes the size of images, or boxes, before it looks at them."""
    resized, resized_targets = model.transform(list(images), targets)
    assert resized.tensors.shape == images.shape, f"{images.shape} became {resized.tensors.shape}"
    assert resized.image_sizes == [tuple(images.shape[-2:])] * len(images)
    assert all(torch.equal(a["boxes"], b["boxes"]) for a, b in zip(targets, resized_targets, strict=True))


def main(shards: str = "shards/few-shapes", steps: str = "1") -> None:
    stoker.convert(write_shapes(f"{shards}/files", 4), f"{shards}/train", overwrite=True)
    columns = ("image", "boxes", "box_labels")
    options = {
        "batch_size": 2,
        "output": "torch",
        "layout": "NCHW",
        "columns": columns,
        "objects": stoker.Objects(min_size=1),
    }
    for recipe in filter(model_arguments, recipe_names()):
        weights = {"weights": None, "weights_backbone": None, "num_classes": 4}
        model = fasterrcnn_mobilenet_v3_large_fpn(**weights, **model_arguments(recipe))
        loader = stoker.ImageLoader(f"{shards}/train", transforms=load_recipe(recipe), **options)
        for images, boxes, labels in loader:
            targets = [{"boxes": b, "labels": n + 1} for b, n in zip(boxes, labels, strict=True)]  # 0 is none
            check(model, images, targets)
        print(f"{recipe}: {tuple(images.shape[2:])} stays, with {model_arguments(recipe)}")
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(int(steps)):
        optimizer.zero_grad()
        (loss := sum(model(list(images), targets).values())).backward()
        optimizer.step()
        print(f"loss {loss.item():.3f}  {loader.stats().verdict}", flush=True)


main(*sys.argv[1:])
