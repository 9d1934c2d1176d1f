"""Programs of users pass mypy in its strict mode: lists where transforms hold tuples, recipes, loaders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import stoker
from stoker.augment import (
    AugMix, AutoAugment, ColorJitter, CutMix, GaussianBlur, MixUp, Normalize, Pad, RandAugment,
    RandomAffine, RandomApply, RandomChoice, RandomCrop, RandomErasing, RandomGrayscale, RandomHorizontalFlip,
    RandomIoUCrop, RandomPerspective, RandomPhotometricDistort, RandomResizedCrop, RandomRotation,
    RandomShortestSize, RandomZoomOut, Resize, ScaleJitter, compile_image, load_recipe, save_recipe,
)

loader = stoker.ImageLoader("shards/train", batch_size=64, shuffle=True, seed=0, output="torch",
    transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()])
for images, labels in loader: ...

scale = [0.08, 1]
black = [0, 0, 0]
transforms = [
    Pad([4, 4], fill=black),
    RandomCrop([300, 300], padding=[1, 2, 3, 4], fill=black),
    RandomIoUCrop(sampler_options=[0.0, 1.0]),
    RandomZoomOut(fill=black, side_range=[1, 2]),
    ScaleJitter([640, 480], scale_range=[0.5, 2]),
    RandomShortestSize([480, 512]),
    Resize([256, 256]),
    RandomResizedCrop(224, scale=scale, ratio=[3 / 4, 4 / 3]),
    RandomRotation([-10, 10], center=[100, 120], fill=black),
    RandomAffine(10, translate=[0.1, 0.1], scale=[0.8, 1.2], shear=[-5, 5], fill=black),
    RandomPerspective(fill=black),
    AutoAugment(fill=black),
    RandAugment(fill=black),
    RandomApply([ColorJitter(0.3, hue=[-0.1, 0.1]), GaussianBlur(9, sigma=[0.1, 2])], p=0.8),
    RandomChoice([RandomGrayscale(1), GaussianBlur([3, 5])], p=[0.5, 1]),
    RandomPhotometricDistort(brightness=[0.9, 1.1]),
    AugMix(fill=black),
    RandomErasing(scale=scale, value=black),
    Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
]
plan = compile_image(transforms)
plan = compile_image(load_recipe("imagenet-train"))
mixed = [*transforms, RandomChoice([MixUp(), CutMix()], p=[1, 2])]
save_recipe(mixed, "recipe.json")
stoker.ImageLoader("shards/train", batch_size=64, transforms=mixed)
stoker.ImageLoader("shards/train", batch_size=64, transforms=load_recipe("imagenet-train"))
Resize("256")  # error
RandomApply([MixUp()])  # error
"""


def test_mypy_accepts_a_program_and_finds_its_two_errors(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # The expected errors show that mypy has read the types of the package.
    expected = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# error" in line]
    lines = [int(line.removeprefix(str(program)).split(":")[1]) for line in found.stdout.splitlines()]
    assert lines == expected, found.stdout + found.stderr
