"""A dataset of an image folder for torch's DataLoader, as training scripts have without Stoker."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image

__all__ = ["PhotoFolder"]

_MEAN = torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1)
_STD = torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1)


class PhotoFolder(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Images of a folder with one directory for each class, decoded and augmented with Pillow.

    Args:
        root: The folder.
        size: Height and width of the output, pixels.
        scale: Least and largest share of the area of a random crop.
        training: Whether images are randomly cropped and flipped, as by torchvision; otherwise they are
            resized and cropped at the centre.
    """

    def __init__(self, root: str | Path, size: int, *, scale: tuple[float, float], training: bool) -> None:
        classes = sorted(folder.name for folder in Path(root).iterdir() if folder.is_dir())
        self._files = [
            (file, label)
            for label, name in enumerate(classes)
            for file in sorted(Path(root, name).glob("*.jpg"))
        ]
        self._size = size
        self._scale = scale
        self._training = training

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return a normalised image, (3, size, size) float32, and its class."""
        file, label = self._files[index]
        image = Image.open(file).convert("RGB")
        image = self._random_crop(image) if self._training else self._centre_crop(image)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - _MEAN) / _STD, label

    def _random_crop(self, image: Image.Image) -> Image.Image:
        width, height = image.size
        box = (0, 0, width, height)
        for _ in range(10):
            u = torch.rand(4).tolist()
            area = width * height * (self._scale[0] + (self._scale[1] - self._scale[0]) * u[0])
            ratio = math.exp(math.log(3 / 4) + (math.log(4 / 3) - math.log(3 / 4)) * u[1])
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left, top = int(u[2] * (width - w + 1)), int(u[3] * (height - h + 1))
                box = (left, top, left + w, top + h)
                break
        crop = image.crop(box).resize((self._size, self._size), Image.Resampling.BILINEAR)
        return crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if torch.rand(()) < 0.5 else crop

    def _centre_crop(self, image: Image.Image) -> Image.Image:
        width, height = image.size
        shorter = self._size * 8 // 7
        scale = shorter / min(width, height)
        resized = image.resize((int(width * scale), int(height * scale)), Image.Resampling.BILINEAR)
        left, top = round((resized.width - self._size) / 2), round((resized.height - self._size) / 2)
        return resized.crop((left, top, left + self._size, top + self._size))
