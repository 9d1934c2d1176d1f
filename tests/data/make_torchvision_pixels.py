"""What torchvision's operations make of one small image, for tests/parity/test_torchvision_pixels.py.

    python tests/data/make_torchvision_pixels.py tests/data/torchvision-pixels.npz

Needs torch and torchvision. Names are "operation magnitude" as RandAugment has them, or "sharpness
factor", "blur width height sigma", "resize interpolation height width", "pad mode left top right bottom",
"rotation degrees x y red green blue", "expand degrees" or "affine degrees scale shear shear x y red green
blue"; what is warped is bilinear, or "nearest" at the end. Nearest and lanczos of a resize are those of
Pillow's images, the others those of tensors. "elastic alpha alpha sigma key" and "noise mean sigma key" take
their random numbers from Stoker's sequence of a key; "jpeg quality" and "order i j k" are the rest.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import InterpolationMode, RandAugment, functional

from stoker.augment.noise import normal_noise
from stoker.random import sequence

HEIGHT, WIDTH = 24, 28
SIZES = ((16, 40), (40, 16), (8, 8))  # no centre of a pixel falls on an edge between two
OPERATIONS = (
    *(("ShearX", m) for m in (-0.3, 0.1)),
    *(("ShearY", m) for m in (-0.05, 0.3)),
    *(("TranslateX", m) for m in (-5.0, 7.6)),
    *(("TranslateY", m) for m in (-9.2, 2.0)),
    *(("Rotate", m) for m in (-7.0, 25.0, 90.0)),
    *((name, m) for name in ("Brightness", "Color", "Contrast", "Sharpness") for m in (-0.5, 0.27, 0.9)),
    *(("Posterize", m) for m in (2.0, 7.0)),
    *(("Solarize", m) for m in (0.0, 0.5, 1.0)),
    *((name, 0.0) for name in ("AutoContrast", "Equalize", "Invert")),
)


def operation(
    image: torch.Tensor, name: str, magnitude: float, mode: InterpolationMode
) -> np.ndarray[Any, Any]:
    """(H, W, 3) uint8: one operation of RandAugment."""
    policy = RandAugment(interpolation=mode)
    output = policy._apply_image_or_video_transform(image, name, magnitude, mode, {torch.Tensor: None})
    return np.asarray(output.permute(1, 2, 0))


def warped(image: torch.Tensor, mode: InterpolationMode) -> Iterator[tuple[str, torch.Tensor]]:
    """Rotations and affine maps, with their names."""
    for numbers in ((25.0, 9.0, 12.5, 200, 30, 90), (-140.0, -4.0, 30.0, 255, 255, 255)):
        degrees, center, fill = numbers[0], list(numbers[1:3]), list(numbers[3:])
        output = functional.rotate(image, degrees, mode, center=center, fill=fill)
        yield f"rotation {' '.join(map(str, numbers))}", output
    for degrees in (90.0, -37.0, 200.0):
        yield f"expand {degrees}", functional.rotate(image, degrees, mode, expand=True)
    for numbers in (
        (-30.0, 1.4, 0.0, 0.0, 3.0, 20.0, 0, 80, 160),
        (8.0, 2.0, -12.0, 7.0, 34.0, 6.0, 99, 99, 99),
    ):
        degrees, scale, shear = numbers[0], numbers[1], list(numbers[2:4])
        center, fill = list(numbers[4:6]), list(numbers[6:])
        output = functional.affine(image, degrees, [0, 0], scale, shear, mode, fill, center)
        yield f"affine {' '.join(map(str, numbers))}", output


def displaced(image: torch.Tensor, mode: InterpolationMode) -> Iterator[tuple[str, torch.Tensor]]:
    """ElasticTransform with uniform noise of a key."""
    for numbers in ((60.0, 60.0, 2.0, 8), (-90.0, 25.0, 1.3, 11)):
        *alpha, sigma, key = numbers
        bits = sequence(int(key), np.arange(HEIGHT * WIDTH).reshape(1, 1, HEIGHT, WIDTH))
        shares = [((bits >> np.uint64(shift) & np.uint64(0xFFFF)) + 0.5) / 65536 for shift in (0, 16)]
        with patch("torch.rand", side_effect=[torch.from_numpy(share).float() for share in shares]):
            output = v2.ElasticTransform(alpha, sigma, mode, fill=None)(image)
        yield f"elastic {' '.join(map(str, numbers))}", output


def degraded(image: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """GaussianNoise with normal noise of a key, JPEG, and RandomOrder in every order."""
    for mean, sigma, key in ((0.0, 0.1, 5), (-0.2, 0.04, 6)):
        normal = torch.from_numpy(normal_noise(key, (0, 0, HEIGHT, WIDTH), WIDTH)).permute(2, 0, 1)
        with patch("torch.randn_like", return_value=normal):
            yield f"noise {mean} {sigma} {key}", v2.GaussianNoise(mean, sigma)(image)
    for quality in (1, 40, 75, 96):
        yield f"jpeg {quality}", v2.JPEG(quality)(image)
    mixed = v2.RandomOrder([v2.RandomSolarize(128, 1), v2.RandomPosterize(2, 1), v2.RandomInvert(1)])
    for order in itertools.permutations(range(3)):
        with patch("torch.randperm", return_value=torch.tensor(order)):
            yield f"order {' '.join(map(str, order))}", mixed(image)


def main() -> None:
    rows, columns = np.indices((HEIGHT, WIDTH))
    waves = 128 + 90 * np.sin(rows[..., None] / (3, 5, 7) + columns[..., None] / (4, -6, 9))
    rng = np.random.default_rng(0)
    pixels = (waves + rng.normal(0, 12, waves.shape)).clip(8, 240).astype(np.uint8)
    image = torch.from_numpy(pixels).permute(2, 0, 1)
    bilinear = InterpolationMode.BILINEAR
    kept = {"pixels": pixels}
    for name, magnitude in OPERATIONS:
        kept[f"{name} {magnitude}"] = operation(image, name, magnitude, bilinear)
        if name.startswith(("Shear", "Translate", "Rotate")):
            kept[f"{name} {magnitude} nearest"] = operation(image, name, magnitude, InterpolationMode.NEAREST)
    for factor in (0.0, 0.4, 2.5):
        kept[f"sharpness {factor}"] = functional.adjust_sharpness(image, factor).permute(1, 2, 0).numpy()
    for width, height, sigma in ((5, 5, 1.2), (23, 23, 2.0), (3, 7, 0.4)):
        output = functional.gaussian_blur(image, [width, height], [sigma, sigma])
        kept[f"blur {width} {height} {sigma}"] = output.permute(1, 2, 0).numpy()
    for mode in (InterpolationMode.NEAREST_EXACT, bilinear, InterpolationMode.BICUBIC):
        for size in SIZES:
            output = functional.resize(image, size, mode)
            kept[f"resize {mode.value} {size[0]} {size[1]}"] = output.permute(1, 2, 0).numpy()
    for mode in (InterpolationMode.NEAREST, InterpolationMode.LANCZOS):
        for size in SIZES:
            output = functional.resize(Image.fromarray(pixels), size, mode)
            kept[f"resize {mode.value} {size[0]} {size[1]}"] = np.asarray(output)
    for mode in ("edge", "reflect", "symmetric"):
        for sides in ((3, 5, 2, 0), (0, 23, 27, 1)):
            output = functional.pad(image, list(sides), padding_mode=mode)
            kept[f"pad {mode} {' '.join(map(str, sides))}"] = output.permute(1, 2, 0).numpy()
    for mode, ending in ((bilinear, ""), (InterpolationMode.NEAREST, " nearest")):
        for name, output in itertools.chain(warped(image, mode), displaced(image, mode)):
            kept[name + ending] = output.permute(1, 2, 0).numpy()
    for name, output in degraded(image):
        kept[name] = output.permute(1, 2, 0).numpy()
    np.savez_compressed(sys.argv[1], **kept)


if __name__ == "__main__":
    main()
