"""SubtractMean, with crops and flips as in Caffe and with resizes, on the engines that have it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import convert_images, first_images, png
from PIL import Image

from stoker import ImageLoader
from stoker.augment import (
    CenterCrop,
    ColorJitter,
    ElasticTransform,
    MixUp,
    Normalize,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    SubtractMean,
    ToDtype,
    Transform,
    load_recipe,
    save_recipe,
)
from stoker.augment.steps import Step
from stoker.errors import CheckpointError, ConfigError

HEIGHT, WIDTH = 24, 32


@dataclass(frozen=True)
class Half(Step):
    def apply(self, _: int, pixels: np.ndarray) -> np.ndarray:
        return pixels // 2


@dataclass(frozen=True)
class Halved(Transform):
    def params(self, state: Any, u: np.ndarray) -> None:
        state.add_steps(Half(np.ones(len(u), np.bool_)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven PNGs of one size in ``images``, their ``shards``, and the mean image ``mean.npy``."""
    root = tmp_path_factory.mktemp("mean")
    noise = np.random.default_rng(0).integers(0, 256, (7, HEIGHT, WIDTH, 3), np.uint8)
    convert_images(root, {f"{i}.png": png(pixels) for i, pixels in enumerate(noise)})
    np.save(root / "mean.npy", noise.mean(axis=0, dtype=np.float32))
    np.save(root / "small.npy", noise.mean(axis=0, dtype=np.float32)[::2, ::3])
    return root


def images(folder: Path, transforms: Any, **options: Any) -> np.ndarray:
    options = {"batch_size": 7, "num_threads": 2, "shuffle": False, "layout": "NHWC", **options}
    return first_images(folder / "shards", transforms, **options)


def caffe(folder: Path, top: int, left: int, side: int, *, mirror: bool) -> np.ndarray:
    """Images as Caffe's data layer makes them: (pixel - mean) * scale at each pixel, then mirrored."""
    files = sorted((folder / "images" / "a").iterdir())
    pixels = np.stack([np.asarray(Image.open(file), np.float32) for file in files])
    part = (pixels - np.load(folder / "mean.npy"))[:, top : top + side, left : left + side]
    return part[:, :, ::-1] if mirror else part


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("mirror", [False, True])
def test_the_mean_is_cropped_and_mirrored_with_the_image_as_in_caffe(
    folder: Path, engine: str, mirror: bool
) -> None:
    transforms = [
        CenterCrop(16),
        RandomHorizontalFlip(float(mirror)),
        ToDtype("float32", scale=False),
        SubtractMean(folder / "mean.npy"),
    ]
    expected = caffe(folder, 4, 8, 16, mirror=mirror)
    np.testing.assert_allclose(images(folder, transforms, engine=engine), expected, atol=1e-4)


CHAINS = {
    "crop": (RandomCrop(20, padding=6, fill=40), RandomHorizontalFlip(), RandomVerticalFlip()),
    "resize": (RandomResizedCrop((30, 18), interpolation="bicubic"), RandomHorizontalFlip()),
    "nearest": (RandomResizedCrop(20, interpolation="nearest"),),
    "colours": (Resize((16, 16)), ColorJitter(0.4, 0.4)),
    "outside": (Pad(30), CenterCrop((40, 80)), RandomCrop(8)),
}


FORMS: tuple[dict[str, Any], ...] = (
    {"layout": "NHWC4"},
    {"color": "gray", "layout": "NCHW"},
    {"color": "as_stored"},
)


@pytest.mark.parametrize(
    ("name", "options"), [*product(CHAINS, FORMS[:1]), *product(["crop", "resize"], FORMS[1:])]
)
def test_the_native_engine_subtracts_what_the_reference_subtracts(
    folder: Path, name: str, options: dict[str, Any]
) -> None:
    for mean in ("mean.npy", "small.npy"):
        end = (Normalize(0.5, (0.25,)), SubtractMean(folder / mean))
        native, reference = (
            images(folder, (*CHAINS[name], *end), engine=engine, **options)
            for engine in ("native", "reference")
        )
        levels = 4 / 255 if name != "outside" else 1e-5  # a level is 4 / 255 in these units
        assert np.abs(native - reference).max() <= 2 * levels
        plain = images(folder, (*CHAINS[name], end[0]), **options)
        assert np.abs(native - plain).max() > (0.5 if name != "outside" else -1)


class TestOtherTransforms:
    def test_normalize_may_stand_before_or_after_the_mean(self, folder: Path) -> None:
        mean, normalize = SubtractMean(folder / "mean.npy"), Normalize(0.1, (0.2, 0.3, 0.4))
        first = images(folder, [CenterCrop(16), mean, normalize])
        np.testing.assert_array_equal(first, images(folder, [CenterCrop(16), normalize, mean]))

    def test_views_mixing_and_custom_steps_work_with_a_mean(self, folder: Path) -> None:
        mean = SubtractMean(folder / "mean.npy")
        loader = ImageLoader(
            folder / "shards",
            batch_size=3,
            transforms={"with_mean": [CenterCrop(16), mean], "plain": [CenterCrop(16), ToDtype()]},
        )
        with loader:
            batch = next(iter(loader))
        expected = np.load(folder / "mean.npy")[4:20, 8:24].transpose(2, 0, 1) / 255
        np.testing.assert_allclose(batch.plain - batch.with_mean, np.stack([expected] * 3), atol=1e-6)
        mixed = images(folder, [CenterCrop(16), mean, MixUp(1.0)])
        assert abs(mixed.mean()) < 0.01
        native, reference = (
            images(folder, [RandomResizedCrop(16, interpolation="nearest"), Halved(), mean], engine=engine)
            for engine in ("native", "reference")
        )
        np.testing.assert_allclose(native, reference, atol=1e-6)

    @pytest.mark.parametrize(
        "other", [RandomRotation(20), RandomErasing(), ElasticTransform(), Pad(2, padding_mode="edge")]
    )
    def test_transforms_that_move_pixels_in_other_ways_are_refused(self, folder: Path, other: Any) -> None:
        mean = SubtractMean(folder / "mean.npy")
        with pytest.raises(ConfigError, match=f"and {type(other).__name__} does more"):
            images(folder, [CenterCrop(16), other, mean])

    def test_other_dtypes_padded_batches_and_dali_are_refused(self, folder: Path) -> None:
        transforms = [CenterCrop(16), SubtractMean(folder / "mean.npy")]
        with pytest.raises(ConfigError, match="makes float32, and float16"):
            images(folder, transforms, dtype="float16")
        with pytest.raises(ConfigError, match="images of one size"):
            images(folder, transforms, sizes="padded")
        with pytest.raises(ConfigError, match="mean_image"):
            images(folder, transforms, engine="dali")
        with pytest.raises(ConfigError, match="twice"):
            images(folder, [*transforms, transforms[1]])


class TestFiles:
    def test_a_resumed_run_with_another_mean_is_refused_and_a_moved_file_is_not(
        self, folder: Path, tmp_path: Path
    ) -> None:
        def loader(path: Path) -> ImageLoader:
            return ImageLoader(
                folder / "shards", batch_size=2, transforms=[CenterCrop(16), SubtractMean(path)]
            )

        (tmp_path / "moved.npy").write_bytes((folder / "mean.npy").read_bytes())
        with loader(folder / "mean.npy") as first, loader(tmp_path / "moved.npy") as moved:
            next(iter(first))
            moved.load_state_dict(first.state_dict())
            with loader(folder / "small.npy") as other, pytest.raises(CheckpointError, match="transforms"):
                other.load_state_dict(first.state_dict())

    def test_a_recipe_names_the_file_and_refuses_another(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "mean.npy").write_bytes((folder / "mean.npy").read_bytes())
        transforms = [CenterCrop(16), SubtractMean(tmp_path / "mean.npy")]
        save_recipe(transforms, tmp_path / "recipe.json")
        assert load_recipe(tmp_path / "recipe.json") == transforms
        np.save(tmp_path / "mean.npy", np.zeros((4, 4, 3)))
        with pytest.raises(ConfigError, match="was asked for"):
            load_recipe(tmp_path / "recipe.json")

    @pytest.mark.parametrize(
        ("contents", "message"),
        [
            (np.zeros(3), "3 numbers.*\n?.*"),
            (np.zeros((3, 4, 4, 4)), "finite numbers"),
            (np.full((4, 4, 3), np.nan), "finite numbers"),
            (np.array([{}], object), "not an array of NumPy"),
            (np.zeros((4, 4, 2)), "2 channels, and the images have 3"),
        ],
    )
    def test_a_file_that_is_no_mean_image_is_refused(
        self, folder: Path, tmp_path: Path, contents: np.ndarray, message: str
    ) -> None:
        np.save(tmp_path / "wrong.npy", contents)
        with pytest.raises(ConfigError, match=message) as raised:
            images(folder, [CenterCrop(16), SubtractMean(tmp_path / "wrong.npy")])
        assert contents.shape != (3,) or "Normalize" in str(raised.value)

    def test_a_missing_file_names_the_command_that_makes_one(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="--mean-image"):
            SubtractMean(tmp_path / "none.npy")
