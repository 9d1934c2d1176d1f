"""Draw parameters with torchvision itself and keep their distributions, for test_distributions.py.

    python tests/data/make_torchvision_draws.py tests/data/torchvision-draws.npz

The file has the quantiles (k + 0.5) / K of the values of each parameter, or the counts of its values where
they are few. Needs torch and torchvision.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import torch
import torchvision
from torchvision.transforms import v2
from torchvision.transforms.v2 import _geometry

HEIGHT, WIDTH = 375, 500
N = 40_000
QUANTILES = 1000
IMAGE = torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8)
SMALL = torch.zeros(3, 24, 30, dtype=torch.uint8)
ORDERS = list(itertools.permutations(range(4)))
CHANNELS = list(itertools.permutations(range(3)))

Draws = dict[str, list[Any]]


def params(transform: Any, n: int = N) -> Draws:
    """What ``make_params`` returns, n times, each key a list."""
    drawn = [transform.make_params([IMAGE]) for _ in range(n)]
    return {key: [params[key] for params in drawn] for key in drawn[0]}


def crops() -> Draws:
    draws: Draws = {}
    for name, arguments in {"default": {}, "narrow": {"scale": (0.5, 1.0), "ratio": (2.0, 4.0)}}.items():
        drawn = params(v2.RandomResizedCrop(224, **arguments))
        for key in ("top", "left", "height", "width"):
            draws[f"resized-crop-{name}-{key}"] = drawn[key]
    drawn = params(v2.RandomCrop(300))
    draws |= {"crop-top": drawn["top"], "crop-left": drawn["left"]}
    drawn = params(v2.RandomErasing())
    for key, name in zip("ijhw", ("top", "left", "height", "width"), strict=True):
        draws[f"erase-{name}"] = drawn[key]
    return draws


def warps() -> Draws:
    draws: Draws = {"rotation": params(v2.RandomRotation((-10, 50)))["angle"]}
    drawn = params(v2.RandomAffine((-20, 70), (0.2, 0.1), (0.5, 2.0), (-10, 30, -20, 5)))
    draws |= {"affine-angle": drawn["angle"], "affine-scale": drawn["scale"]}
    for axis, name in enumerate("xy"):
        draws[f"affine-translate-{name}"] = [pair[axis] for pair in drawn["translate"]]
        draws[f"affine-shear-{name}"] = [pair[axis] for pair in drawn["shear"]]
    corners: list[Any] = []
    original = _geometry._get_perspective_coeffs
    _geometry._get_perspective_coeffs = lambda start, end: corners.append(end) or original(start, end)
    params(v2.RandomPerspective(0.5, 1.0), 10_000)
    _geometry._get_perspective_coeffs = original
    for corner, axis in itertools.product(range(4), range(2)):
        draws[f"perspective-{corner}-{'xy'[axis]}"] = [end[corner][axis] for end in corners]
    return draws


def colors() -> Draws:
    drawn = params(v2.ColorJitter(0.4, (0.2, 1.5), 0.9, 0.1))
    draws: Draws = {
        f"jitter-{name}": drawn[f"{name}_factor"] for name in ("brightness", "contrast", "saturation", "hue")
    }
    draws["jitter-order"] = [ORDERS.index(tuple(order.tolist())) for order in drawn["fn_idx"]]
    drawn = params(v2.RandomPhotometricDistort())
    for name, neutral in {"brightness": 1, "contrast": 1, "saturation": 1, "hue": 0}.items():
        draws[f"distort-{name}"] = [neutral if v is None else v for v in drawn[f"{name}_factor"]]
    draws["distort-contrast-first"] = list(map(int, drawn["contrast_before"]))
    same = torch.arange(3)
    orders = [same if v is None else v for v in drawn["channel_permutation"]]
    draws["distort-permutation"] = [CHANNELS.index(tuple(order.tolist())) for order in orders]
    draws["blur-sigma"] = [sigmas[0] for sigmas in params(v2.GaussianBlur(5, (0.1, 2.0)))["sigma"]]
    return draws


def record(transform: Any, n: int) -> list[list[tuple[str, float]]]:
    """Names and magnitudes of the operations that a policy applies, n times, without doing them."""
    seen: list[list[tuple[str, float]]] = []

    def note(image: Any, name: str, magnitude: float, **_: Any) -> Any:
        seen[-1].append((name, magnitude))
        return image

    transform._apply_image_or_video_transform = note
    for _ in range(n):
        seen.append([])
        transform(SMALL)
    return seen


def policies() -> Draws:
    draws: Draws = defaultdict(list)
    transforms = {
        "rand": v2.RandAugment(2, 9),
        "rand-bins": v2.RandAugment(1, 4, 5),
        "trivial": v2.TrivialAugmentWide(),
        **{f"auto-{p.value}": v2.AutoAugment(p) for p in v2.AutoAugmentPolicy},
    }
    for policy, transform in transforms.items():
        for operations in record(transform, N):
            draws[f"{policy}-operations"].append(" ".join(f"{name}:{m + 0.0:.3f}" for name, m in operations))
    for name, arguments in {
        "default": {},
        "other": {"alpha": 0.4, "mixture_width": 4, "all_ops": False},
    }.items():
        transform = v2.AugMix(**arguments)
        shares: list[Any] = []
        sample = transform._sample_dirichlet
        transform._sample_dirichlet = lambda p, sample=sample, shares=shares: (
            shares.append(sample(p)) or shares[-1]
        )
        for operations in record(transform, N // 4):
            draws[f"augmix-{name}-count"].append(len(operations))
            draws[f"augmix-{name}-first"].append(f"{operations[0][0]}:{operations[0][1] + 0.0:.3f}")
        own = np.array([share[0, 0] for share in shares[::2]])
        draws[f"augmix-{name}-own"] = own.tolist()
        among = np.stack([share[0].numpy() for share in shares[1::2]])
        draws[f"augmix-{name}-chain"] = ((1 - own) * among[:, 0]).tolist()
    return draws


def nested() -> Draws:
    apply = v2.RandomApply([v2.RandomHorizontalFlip(1)], p=0.3)
    choice = v2.RandomChoice([v2.Pad(1), v2.Pad(2), v2.Pad(3)], p=[1, 2, 5])
    ramp = torch.arange(2)[None, None].expand(3, 2, 2)
    return {
        "apply": [int(apply(ramp)[0, 0, 0]) for _ in range(N)],
        "choice": [(choice(ramp).shape[-1] - 4) // 2 for _ in range(N)],
    }


def main() -> None:
    torch.manual_seed(0)
    kept: dict[str, Any] = {"torchvision": np.array(torchvision.__version__)}
    for draw in (crops, warps, colors, policies, nested):
        for name, values in draw().items():
            different, counts = np.unique(np.array(values), return_counts=True)
            if len(different) < len(values) / 10:
                kept[f"{name}.values"], kept[f"{name}.counts"] = different, counts.astype(np.int32)
            else:
                ordered = np.quantile(np.array(values), (np.arange(QUANTILES) + 0.5) / QUANTILES)
                kept[f"{name}.quantiles"] = ordered.astype(np.float32)
                kept[f"{name}.n"] = np.array(len(values), np.int32)
            print(f"{name}: {len(values)} draws, {len(different)} different")
    np.savez_compressed(sys.argv[1], **kept)


if __name__ == "__main__":
    main()
