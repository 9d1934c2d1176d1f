"""Examples of every transform: tests of engines and of recipes run over them.

A new transform needs a :class:`Case` here, and no change of these tests. The tolerances are the largest and
the mean difference in levels. Before a threshold or a rounding, a difference of one level may grow large, in
few pixels.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker import augment
from stoker.augment import Transform


class Case(NamedTuple):
    """A transform, and its largest and mean difference by engine; None where the engine refuses it."""

    transform: Transform
    native: tuple[float, float]
    dali: tuple[float, float] | None


EXACT = (0, 0)
ROUNDED = (1, 0.01)
# One level, except for one value in a million: each of the two passes may round differently.
RESIZED = (2, 0.05)
DALI_RESIZED = (6, 0.25)
# Where a centre falls between two pixels, DALI takes either.
DALI_NEAREST = (255, 1)
# A level's difference before an operation with a threshold.
AMPLIFIED = (255, 0.5)
DALI_EQUALIZED = (1, 0.3)
WARPED = (2, 0.1)
# Float32 may take the other pixel at an edge between two pixels, or at a horizon.
DALI_PICKED = (255, 0.05)
# Turned and shrunk images are resampled twice: DALI's warp has no antialiasing.
DALI_SHRUNK = (100, 1)

CASES = [
    Case(augment.Resize((48, 40)), RESIZED, DALI_RESIZED),
    Case(augment.CenterCrop(48), EXACT, EXACT),
    Case(augment.CenterCrop((80, 48), fill=90), EXACT, EXACT),
    Case(augment.Letterbox((40, 72)), RESIZED, DALI_RESIZED),
    Case(augment.RandomCrop(48, padding=8), EXACT, EXACT),
    Case(augment.RandomResizedCrop(40), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="bicubic"), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="lanczos"), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="nearest"), EXACT, DALI_NEAREST),
    Case(augment.CoverCrop((24, 40)), RESIZED, DALI_RESIZED),
    Case(augment.CoverCrop(40, random=False), RESIZED, DALI_RESIZED),
    Case(augment.Pad(6, fill=(9, 80, 200)), EXACT, EXACT),
    Case(augment.Pad((6, 70, 3, 0), padding_mode="edge"), EXACT, None),
    Case(augment.Pad((6, 70, 3, 0), padding_mode="reflect"), EXACT, None),
    Case(augment.Pad(9, padding_mode="symmetric"), EXACT, None),
    Case(augment.RandomCrop(48, padding=16, padding_mode="reflect"), EXACT, None),
    Case(augment.RandomCrop(90, pad_if_needed=True, padding_mode="symmetric"), EXACT, None),
    Case(augment.RandomHorizontalFlip(), EXACT, EXACT),
    Case(augment.RandomVerticalFlip(), EXACT, EXACT),
    Case(augment.RandomRotation(40), WARPED, WARPED),
    Case(augment.RandomRotation(40, "nearest"), EXACT, DALI_PICKED),
    Case(augment.RandomRotation(40, expand=True), WARPED, WARPED),
    Case(augment.RandomAffine(30, (0.2, 0.2), (0.6, 1.5), 20, "nearest"), EXACT, DALI_PICKED),
    Case(augment.RandomPerspective(0.5, p=0.8, interpolation="nearest"), EXACT, DALI_PICKED),
    Case(augment.RandomAffine(30, (0.2, 0.2), (0.6, 1.5), 20), WARPED, DALI_SHRUNK),
    Case(augment.RandomAffine(30, scale=(1, 2), fill=(9, 80, 200), center=(10, 50)), WARPED, WARPED),
    Case(augment.RandomPerspective(0.5, p=0.8), WARPED, DALI_SHRUNK),
    Case(augment.ColorJitter(0.4, 0.4, 0.4, 0.1), ROUNDED, ROUNDED),
    Case(augment.Identity(), EXACT, EXACT),
    Case(augment.Grayscale(3), ROUNDED, ROUNDED),
    Case(augment.RandomGrayscale(0.5), ROUNDED, ROUNDED),
    Case(augment.RandomChannelPermutation(), EXACT, EXACT),
    Case(augment.RandomPhotometricDistort(p=0.8), ROUNDED, ROUNDED),
    Case(augment.GaussianBlur(5), ROUNDED, (1, 0.02)),
    Case(augment.GaussianNoise(0.02, 0.05), EXACT, None),
    Case(augment.ElasticTransform(60.0, 4.0, fill=(9, 80, 200)), EXACT, None),
    Case(augment.ElasticTransform((90.0, 40.0), (3.0, 0.0), "nearest"), EXACT, None),
    Case(augment.JPEG((10, 90)), EXACT, EXACT),
    Case(augment.RandomInvert(), EXACT, EXACT),
    Case(augment.RandomPosterize(3), EXACT, EXACT),
    Case(augment.RandomSolarize(128), EXACT, EXACT),
    Case(augment.RandomAdjustSharpness(2.5), ROUNDED, ROUNDED),
    Case(augment.RandomAutocontrast(), EXACT, EXACT),
    Case(augment.RandomEqualize(), EXACT, DALI_EQUALIZED),
    Case(augment.RandAugment(), AMPLIFIED, AMPLIFIED),
    Case(augment.TrivialAugmentWide(), AMPLIFIED, AMPLIFIED),
    Case(augment.AutoAugment(), AMPLIFIED, AMPLIFIED),
    Case(augment.AugMix(), (8, 0.3), AMPLIFIED),
    Case(augment.RandAugment(interpolation="nearest"), AMPLIFIED, AMPLIFIED),
    Case(augment.TrivialAugmentWide(interpolation="nearest"), AMPLIFIED, AMPLIFIED),
    Case(augment.AutoAugment(interpolation="nearest"), AMPLIFIED, AMPLIFIED),
    Case(augment.AugMix(interpolation="nearest"), (8, 0.3), AMPLIFIED),
    Case(augment.RandomErasing(0.7), EXACT, EXACT),
    Case(augment.RandomErasing(0.7, value="random"), EXACT, None),
    Case(augment.RandomApply([augment.ColorJitter(0.4), augment.RandomRotation(30)]), WARPED, WARPED),
    Case(augment.RandomChoice([augment.RandomSolarize(90, p=1), augment.GaussianBlur(3)]), ROUNDED, ROUNDED),
    Case(
        augment.RandomOrder([augment.ColorJitter(0.4), augment.RandomSolarize(90, p=1)]), AMPLIFIED, AMPLIFIED
    ),
    Case(augment.RandomOrder([augment.RandomRotation(30), augment.RandomVerticalFlip()]), WARPED, WARPED),
    Case(augment.RandomZoomOut(side_range=(1.0, 2.0)), RESIZED, DALI_RESIZED),
    Case(augment.ObjectCrop((40, 32), scale=0.35, degrees=40, fill=90), WARPED, None),
    Case(augment.ScaleJitter((64, 64)), RESIZED, DALI_RESIZED),
    Case(augment.RandomShortestSize([32, 48, 64]), RESIZED, DALI_RESIZED),
    Case(augment.RandomResize(32, 80), RESIZED, DALI_RESIZED),
]
