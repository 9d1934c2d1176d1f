"""The ablation of a loader: what it measures, its verdicts, and ``stoker bench --ablate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import stoker
from stoker import ImageLoader
from stoker.augment import (
    CopyPaste,
    MixUp,
    Mosaic,
    Normalize,
    RandomResizedCrop,
    RandomRotation,
    Views,
    save_recipe,
)
from stoker.errors import ConfigError
from stoker.pipeline.commands.app import app
from stoker.pipeline.engines.ablated_stage import AblatedStage
from stoker.pipeline.images.engine import ablation
from stoker.pipeline.images.engine.ablation import Ablation

STAGES = ["reading", "decoding", "augmentation"]
VIEWS = {"large": Views(2, [RandomResizedCrop(16)]), "small": [RandomResizedCrop(8)]}
MIXED = [RandomResizedCrop(16), RandomRotation(9), MixUp(), lambda images: images]


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A turn has one epoch, as users cannot shorten it; rates are cached in the folder of the test."""
    monkeypatch.setattr(ablation, "_SECONDS", 0.0)
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (
            (1000, 1050, 3400, 1200),
            "decoding is the limit. Reading free would make it 1.1 times as fast, decoding free 3.4 times, "
            "augmentation free 1.2 times. What helps: stoker convert",
        ),
        ((100, 900, 120, 110), "reading is the limit. Reading free would make it 9.0 times as fast, "),
        ((1000, 1010, 1300, 2500), "augmentation is the limit"),
        ((1000, 1010, 1050, 990), "no single stage is the limit"),
    ],
)
def test_the_verdict_says_what_each_stage_costs(rates: tuple[int, ...], words: str) -> None:
    by_stage = dict(zip(("as it is", *STAGES), rates, strict=True))
    verdict = Ablation(by_stage, "native", 2, "shards/train", 192).verdict
    assert verdict.startswith("Engine 'native', shards in shards/train: ")
    assert words in verdict


@pytest.mark.parametrize(
    "options",
    [
        {"transforms": MIXED, "columns": ("image",)},
        {"transforms": VIEWS},
        {"transforms": [RandomResizedCrop(16)], "color": "rgba"},
        {"transforms": [RandomResizedCrop(16)], "engine": "reference"},
        {"sizes": stoker.Patches(size=8, most=64, row=128), "batch_size": 2},
    ],
    ids=["mixed", "views", "rgba", "reference", "patches"],
)
def test_a_loader_of_any_arguments_is_measured_without_each_stage(
    thumbnails: Path, options: dict[str, Any]
) -> None:
    with ImageLoader(thumbnails, **{"batch_size": 8, "rank": 1, "world_size": 2, **options}) as loader:
        rates = loader.ablate(images=16, rounds=1)
        assert (list(rates.factors), rates.images, rates.engine) == (STAGES, 16, loader.engine)
        assert loader.stats().ablated == pytest.approx(rates.factors)
        assert loader.state_dict()["epoch"] == 0


@pytest.mark.parametrize("transforms", [[Mosaic(32)], [RandomResizedCrop(32), CopyPaste()]])
def test_images_of_several_samples_have_no_rate_without_augmentation(
    annotated: Path, transforms: list[Any]
) -> None:
    with ImageLoader(annotated, batch_size=4, transforms=transforms, columns=("image", "boxes")) as loader:
        assert list(loader.ablate(images=8, rounds=1).factors) == STAGES[:2]


@pytest.mark.parametrize("options", [{}, {"engine": "reference"}, {"color": "rgba"}])
def test_without_decoding_batches_are_the_same_and_are_decoded_once(
    squares: Path, options: dict[str, Any]
) -> None:
    arguments = {"batch_size": 4, "transforms": [RandomResizedCrop(16)], "shuffle": True, **options}
    ablated = AblatedStage("decoding")
    # An ablation returns rates, and no batches of the loaders that it measures.
    with (
        ImageLoader(squares, **arguments) as loader,
        loader._with_ablated(squares, ablated, **arguments) as other,
    ):
        for batch, expected in zip(other, loader, strict=True):
            np.testing.assert_array_equal(batch.image, expected.image)
        assert len(ablated.pixels) == 12
        for location in ablated.pixels:
            ablated.pixels[location] = np.zeros_like(ablated.pixels[location])
        other.set_epoch(5)  # forgets the batches that were made ahead
        assert not any(batch.image[:, 0].any() for batch in other)


def test_without_augmentation_nothing_is_written_into_images(squares: Path) -> None:
    arguments: dict[str, Any] = {"batch_size": 12, "transforms": [RandomResizedCrop(16)]}
    with ImageLoader(squares, engine="reference", **arguments) as loader:
        ablated = AblatedStage("augmentation")
        with loader._with_ablated(squares, ablated, engine="reference", **arguments) as other:
            assert not next(iter(other)).image.any()
        assert next(iter(loader)).image.any()


def test_the_verdict_of_a_loader_has_the_factors_of_the_command(thumbnails: Path, tmp_path: Path) -> None:
    transforms = [RandomResizedCrop(12), Normalize()]
    save_recipe(transforms, tmp_path / "mine.json")
    with ImageLoader(thumbnails, batch_size=8, transforms=transforms, on_error="skip") as loader:
        for _ in loader:
            pass
        command = f"stoker bench {thumbnails} --ablate --transforms RECIPE, measures how much faster"
        assert not loader.stats().ablated
        assert command in loader.stats()._command()  # part of a verdict that depends on the speed
        arguments = ["bench", str(thumbnails), "--ablate", "--transforms", str(tmp_path / "mine.json")]
        arguments += ["--rounds", "1", "--batch-size", "4", "--json", str(tmp_path / "report.json")]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["verdict"] in done.output.replace("\n", " ")
        assert (list(report["factors"]), report["engine"]) == (STAGES, "native")
        assert loader.stats().ablated == pytest.approx(report["factors"])
    with ImageLoader(thumbnails, batch_size=8, transforms=transforms[:1]) as other:
        assert not other.stats().ablated, "other transforms"


def test_recipes_with_boxes_and_views_are_measured(annotated: Path, tmp_path: Path) -> None:
    save_recipe(VIEWS, tmp_path / "views.json")
    for options in (["--transforms", "coco-ssd"], ["--views", str(tmp_path / "views.json")]):
        arguments = ["bench", str(annotated), "--ablate", "--rounds", "1", *options]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert "Reading free would make it" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--ablate --against torch --device cuda --workers ray", "takes no --against, --device, --workers"),
        ("--ablate --transforms coco-ssd --size 32", "exclude each other"),
        ("--views dino-v1", "--views is for --ablate"),
    ],
)
def test_options_that_do_not_fit_are_refused(thumbnails: Path, options: str, message: str) -> None:
    done = CliRunner().invoke(app, ["bench", str(thumbnails), *options.split()])
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)


def test_a_mixture_is_refused(thumbnails: Path) -> None:
    mixture = stoker.mix([(stoker.open(thumbnails), 1), (stoker.open(thumbnails), 1)])
    loader = ImageLoader(mixture, batch_size=4, transforms=[RandomResizedCrop(8)])
    with loader, pytest.raises(ConfigError, match="reads one dataset that lies on this machine"):
        loader.ablate()
