"""What an ImageLoader refuses: wrong arguments, and states of loaders with other arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stoker
from stoker import AspectBuckets, BadSamples, DaliOptions, ImageLoader, Patches, RandomSizes, Tokens
from stoker.augment import (
    BlockwiseMask,
    CenterCrop,
    CutMix,
    ElasticTransform,
    MixUp,
    Normalize,
    Pad,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomMask,
    RandomResizedCrop,
    RandomRotation,
    RandomShortestSize,
    Resize,
    Views,
)
from stoker.errors import CheckpointError, ConfigError

CROP = [RandomResizedCrop(9), RandomHorizontalFlip()]
STEPS = [RandomShortestSize((12, 20), max_size=30), RandomHorizontalFlip()]
IN_PIXELS: dict[str, Any] = {"sizes": {0: 8, 1: 16}, "batch_size": None, "pixels_per_batch": 512}
MIXED: dict[str, Any] = {"transforms": [Resize((30, 40)), MixUp()]}
CUT: dict[str, Any] = {"transforms": [Resize((30, 40)), CutMix()]}

LOADER: dict[str, Any] = {}
SIZES: dict[str, Any] = {"transforms": CROP}
PADDED: dict[str, Any] = {"transforms": STEPS, "sizes": "padded"}
BUCKETS: dict[str, Any] = {"transforms": (), "sizes": AspectBuckets(area=24 * 24, multiple=8)}
GROUPS: dict[str, Any] = {"transforms": (), "sizes": "padded", "aspect_ratio_group_factor": 1}
PATCHES: dict[str, Any] = {
    "transforms": (),
    "sizes": Patches(4, most=20, row=64),
    "columns": ("patches", "row"),
}
MASKED = Views(1, CROP, mask=RandomMask(3))
VIEWS: dict[str, Any] = {"transforms": {"a": Views(3, CROP)}}
OBJECTS: dict[str, Any] = {"dataset": "annotated", "transforms": [Resize((30, 40))], "columns": ("boxes",)}


@pytest.mark.parametrize(
    ("usual", "options", "message"),
    [
        (LOADER, {"batch_size": 0}, "batch_size must be at least 1, found 0"),
        (LOADER, {"prefetch": 0}, "prefetch must be at least 1, found 0"),
        (LOADER, {"num_threads": 0}, "num_threads must be at least 1, found 0"),
        (LOADER, {"read_ahead": -1}, "read_ahead must be at least 0, found -1"),
        (LOADER, {"max_pixels": 0}, "max_pixels must be at least 1, found 0"),
        (LOADER, {"batch_size": 1.5}, "batch_size must be an integer, found 1.5"),
        (LOADER, {"batch_size": "8"}, "batch_size must be an integer, found '8'"),
        (LOADER, {"on_error": "ignore"}, "on_error must be one of .*, found 'ignore'"),
        (LOADER, {"last_batch": "keep"}, "last_batch must be"),
        (LOADER, {"shuffle": 3}, "shuffle must be True, False or a BlockShuffle, found 3"),
        (LOADER, {"columns": ("image", "name")}, "there is no 'name'"),
        (LOADER, {"columns": ()}, "at least one column"),
        (LOADER, {"columns": ("row", "row")}, "columns="),
        (LOADER, {"engine": "fast"}, "engine must be"),
        (LOADER, {"output": "pandas"}, "output must be one of numpy, torch, .*, found 'pandas'"),
        (LOADER, {"layout": "CHW"}, "layout must be one of NCHW, NHWC, NHWC4, found 'CHW'"),
        (LOADER, {"dtype": "float64"}, "dtype"),
        (LOADER, {"columns": "image"}, "columns must be a list of names, found 'image'"),
        (LOADER, {"transforms": CenterCrop(8)}, "transforms must be a list, found CenterCrop"),
        (
            LOADER,
            {"transforms": "imagenet-train"},
            r"found 'imagenet-train'(?s:.)*load_recipe\('imagenet-train'\)",
        ),
        (LOADER, {"transforms": [CenterCrop]}, r"the class CenterCrop\nGive an instance, CenterCrop\("),
        (LOADER, {"transforms": []}, "different sizes"),
        (LOADER, {"transforms": [Resize(8)]}, "different sizes"),
        (LOADER, {"batch_size": 62, "last_batch": "drop"}, "an epoch has no batch"),
        (
            LOADER,
            {"batch_size": 31, "last_batch": "drop", "rank": 0, "world_size": 2},
            "an epoch has no batch",
        ),
        (LOADER, {"rank": 1}, "only one of rank and world_size"),
        (LOADER, {"rank": 2, "world_size": 2}, "found rank 2 of 2"),
        (LOADER, {"dtype": "uint8", "transforms": [CenterCrop(8), Normalize()]}, "uint8 output"),
        (SIZES, {"sizes": {1: 8}}, "must say the size of epoch 0"),
        (SIZES, {"sizes": {0: (8, 8, 8)}}, "a size must be a positive integer or a pair"),
        (SIZES, {"sizes": 8}, "sizes must be .*, sizes by epoch, RandomSizes"),
        (SIZES, {"sizes": {"first": 8}}, "an epoch in sizes must be an integer"),
        (SIZES, {"batch_size": None}, "batch_size must be an integer, found None"),
        (SIZES, {"batch_size": None, "pixels_per_batch": 100}, "goes with sizes"),
        (SIZES, {"sizes": {0: 8}, "batch_size": None, "pixels_per_batch": 63}, "holds no image of 8 x 8"),
        (
            SIZES,
            {"sizes": {0: 8, 1: 16}, "batch_size": None, "pixels_per_batch": 512, "steps_per_epoch": 3},
            "needs batches of a fixed number",
        ),
        (SIZES, {"sizes": {0: 8}, "transforms": {"a": CROP}}, "found named image columns"),
        (SIZES, {"sizes": {0: 8}, "transforms": [RandomHorizontalFlip()]}, "no crop or resize stands"),
        (SIZES, {"sizes": {0: 8}, "transforms": [CenterCrop(8), Pad(2)]}, "a transform after it changes"),
        (
            SIZES,
            {"sizes": RandomSizes(8, 16, 8), "engine": "dali", "device": "cpu"},
            "batches of different sizes",
        ),
        (PADDED, {"sizes": "large"}, "sizes must be 'padded', 'ragged', Padded, Ragged, sizes by"),
        (PADDED, {"pad_to_multiple_of": 0}, "pad_to_multiple_of must be at least 1"),
        (PADDED, {"transforms": [*STEPS, Normalize(), MixUp()]}, "MixUp mixes samples of a batch"),
        (PADDED, {"transforms": [*STEPS, lambda images: images]}, "is a function of batches, which images"),
        (PADDED, {"transforms": [Resize((9, 9)), RandomRotation(9)]}, "RandomRotation warps images"),
        (PADDED, {"transforms": [Pad(2, padding_mode="edge")]}, "Pad continues images beyond their border"),
        (PADDED, {"transforms": {"a": STEPS}}, "found named image columns"),
        (PADDED, {"engine": "dali", "device": "cpu"}, "engine='dali' does not execute .* differ in size"),
        (PADDED, {"batch_size": None, "pixels_per_batch": 999}, "goes with sizes"),
        (BUCKETS, {"sampler": stoker.Repeated(2)}, "AspectBuckets plan epochs of one dataset"),
        (BUCKETS, {"shuffle": stoker.BlockShuffle()}, "AspectBuckets plan epochs of one dataset"),
        (BUCKETS, {"steps_per_epoch": 3}, "AspectBuckets plan epochs of all samples, found steps_per_epoch"),
        (BUCKETS, {"batch_size": None, "pixels_per_batch": 9}, r"Pixels\(9\) holds no image of"),
        (BUCKETS, {"engine": "dali", "device": "cpu"}, "batches of different sizes"),
        (BUCKETS, {"transforms": {"a": [Resize((8, 8))]}}, "found named image columns"),
        (GROUPS, {"steps_per_epoch": 2}, "Groups of aspect ratios plan epochs of all samples"),
        (GROUPS, {"aspect_ratio_group_factor": -1}, "aspect_ratio_group_factor must be"),
        (PATCHES, {"sampler": stoker.Repeated(2)}, "Patches plan epochs of one dataset, found a sampler"),
        (PATCHES, {"steps_per_epoch": 3}, "Patches plan epochs of all samples, found steps_per_epoch"),
        (PATCHES, {"batch_size": None, "pixels_per_batch": 999}, "Patches take batch_size"),
        (PATCHES, {"transforms": [Resize((8, 8))]}, "Resize changes the size of images"),
        (PATCHES, {"transforms": [Pad(2)]}, "Pad changes the size of images"),
        (PATCHES, {"transforms": [RandomRotation(9)]}, "RandomRotation warps images"),
        (PATCHES, {"transforms": [Normalize(), MixUp(0.2)]}, "MixUp mixes samples"),
        (PATCHES, {"transforms": {"a": [Resize((8, 8))]}}, "found named image columns"),
        (PATCHES, {"columns": ("image",)}, r"there is no 'image' with sizes=Patches"),
        (PATCHES, {"on_error": "replace"}, "would put an image of another size into a packed row"),
        (PATCHES, {"layout": "NHWC4"}, "patches have none to add"),
        (PATCHES, {"engine": "dali", "device": "cpu"}, "dali"),
        (OBJECTS, {"objects": "list"}, "objects must be one of ragged, padded, found 'list'"),
        (OBJECTS, {"box_format": "YXYX"}, "box_format must be one of XYXY"),
        (OBJECTS, {"min_visible": 1.5}, "min_visible must be a share"),
        (OBJECTS, {"min_size": -1}, "min_size must be pixels"),
        (OBJECTS, {"min_size": float("inf")}, "min_size must be pixels"),
        (OBJECTS, {"columns": ("object_boxes",)}, "'object_boxes' holds large_list"),
        (OBJECTS, {**MIXED, "columns": ("image", "boxes")}, "cannot mix the column 'boxes'"),
        (OBJECTS, {**CUT, "columns": ("image", "masks")}, "cannot mix the column 'masks'"),
        (OBJECTS, {**MIXED, "columns": ("image", "segmentation")}, "cannot mix the column 'segmentation'"),
        (OBJECTS, {**CUT, "columns": ("image", "keypoints")}, "cannot mix the column 'keypoints'"),
        (LOADER, {"columns": ("boxes",)}, "there is no 'boxes'"),
        (
            LOADER,
            {"columns": ("image",), "transforms": [RandomIoUCrop(), Resize((8, 8))]},
            "decides by boxes",
        ),
        (
            OBJECTS,
            {"columns": ("to_source",), "transforms": [Resize((9, 9)), ElasticTransform()]},
            "cannot exp",
        ),
        (LOADER, {"transforms": {}}, "transforms is an empty mapping"),
        (LOADER, {"transforms": {"label": CROP}}, "'label' makes a column 'label', and there"),
        (LOADER, {"transforms": {"height": CROP}}, "'height' makes a column 'height', and there"),
        (LOADER, {"transforms": {"a": MASKED, "a_mask": CROP}}, "'a_mask' makes a column 'a_mask'"),
        (LOADER, {"transforms": {"_a": CROP}}, "'_a' cannot be the name of a column"),
        (LOADER, {"transforms": {1: CROP}}, "1 cannot be the name of a column"),
        (LOADER, {"transforms": {"a": [*CROP, MixUp()]}}, "'a': MixUp mixes samples of a batch"),
        (LOADER, {"transforms": {"a": Views(2, [*CROP, sorted])}}, "'a': sorted is a function of batches"),
        (LOADER, {"transforms": {"a": Views(2, [])}}, "'a': the transforms leave images of different sizes"),
        (LOADER, {"transforms": {"a": [MASKED]}}, "'a': Views stand in place of transforms"),
        (LOADER, {"transforms": [MASKED]}, "Views stand in place of transforms"),
        (LOADER, {"transforms": MASKED}, "Views stand in place of transforms"),
        (LOADER, {"transforms": {"a": CROP, "b": [*CROP, Normalize()]}}, "images of 'b' are float32"),
        (LOADER, {"transforms": {"a": Views(1, CROP, mask=BlockwiseMask(5))}}, "'a': BlockwiseMask: patches"),
        (LOADER, {"transforms": {"a": CROP}, "columns": ("image",)}, "columns: there is no 'image'"),
        (LOADER, {"draw_seed": "two"}, "Seeds: augmentation must be an integer, found 'two'"),
    ],
)
def test_wrong_arguments_are_refused(
    load: Callable[..., ImageLoader],
    usual: dict[str, Any],
    options: dict[str, Any],
    message: str,
    request: pytest.FixtureRequest,
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**_found({**usual, **options}, request))


def _found(arguments: dict[str, Any], request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments with the dataset that one of them names."""
    named = arguments.get("dataset")
    return arguments | ({"dataset": request.getfixturevalue(named)} if named else {})


@pytest.mark.parametrize(
    ("usual", "saved", "other", "message"),
    [
        (SIZES, {"sizes": {0: 8, 1: 16}}, {"sizes": {0: 8, 2: 16}}, r"sizes\.1 was None|sizes\.2"),
        (SIZES, {"sizes": {0: 8, 1: 16}}, {}, "sizes"),
        (PADDED, {"pad_to_multiple_of": 32}, {"pad_to_multiple_of": 16}, r"sizes\.padded was 32 and is 16"),
        (GROUPS, {}, {"aspect_ratio_group_factor": 0}, r"aspect_ratio_group_factor was 1 and is 0"),
        (GROUPS, {}, {"pad_to_multiple_of": 8}, r"sizes\.padded was 1 and is 8"),
        (GROUPS, {}, {"aspect_ratio_group_factor": None}, "not a state of a Stoker loader"),
        (BUCKETS, {}, {"sizes": AspectBuckets(24 * 24, 8, 1.5)}, r"max_ratio was 2\.0 and is 1\.5"),
        (LOADER, {}, BUCKETS, "the state is not one of a loader with AspectBuckets"),
        (PATCHES, {}, {"sizes": Patches(4, 16, 64)}, r"sizes\.patches\.most was 20 and is 16"),
        (LOADER, {}, PATCHES, "not one of a loader with Patches"),
        (LOADER, {}, {"draw_seed": 4}, "draw_seed was None and is 4"),
        (LOADER, {"draw_seed": 4}, {}, "draw_seed was 4 and is None"),
        (OBJECTS, {"min_visible": np.float32(0.25)}, {"min_visible": 0.5}, "min_visible was 0.25 and is 0.5"),
        (OBJECTS, {"min_size": 2}, {"min_size": 0}, "min_size was 2.0 and is 0.0"),
        (OBJECTS, {"box_format": "XYWH"}, {}, "box_format was 'XYWH' and is 'XYXY'"),
        (VIEWS, {}, {"transforms": {"a": Views(4, CROP)}}, r"transforms\.columns\.a\.views was 3 and is 4"),
        (VIEWS, {}, {"transforms": {"a": Views(3, CROP, mask=RandomMask(3))}}, "transforms"),
        (VIEWS, {}, {"transforms": CROP}, "transforms"),
        (MIXED, {}, {"transforms": [Resize((30, 40)), MixUp(0.3)]}, "batch"),
        (MIXED, {}, {"transforms": [Resize((30, 40)), MixUp(), abs]}, "batch"),
        (MIXED, {}, {"transforms": [Resize((30, 40))]}, "batch"),
    ],
)
def test_a_state_of_a_loader_with_other_arguments_is_refused(
    load: Callable[..., ImageLoader],
    usual: dict[str, Any],
    saved: dict[str, Any],
    other: dict[str, Any],
    message: str,
    request: pytest.FixtureRequest,
) -> None:
    loader = load(**_found({**usual, **saved}, request))
    state = loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(CheckpointError, match=message):
        load(**_found({**usual, **other}, request)).load_state_dict(state)


PACKED: dict[str, Any] = {"max_length": 12, "form": "packed"}


@pytest.mark.parametrize(
    ("option", "arguments", "message"),
    [
        (RandomSizes, {"low": 320, "high": 600}, "steps of 32 do not lead from 320 to 600"),
        (AspectBuckets, {"area": 512, "max_ratio": 0.5}, "max_ratio must be a number from 1"),
        (AspectBuckets, {"area": 0}, "area must be at least 1"),
        (Patches, {"row": 128}, "a row of 128 patches holds no image of most=256"),
        (Tokens, {"max_length": 0}, "max_length"),
        (Tokens, {"max_length": 4, "form": "dense"}, "form must be one of"),
        (Tokens, {"max_length": 4, "column": "text"}, "no tokenizer is given"),
        (Tokens, {"max_length": 12, "too_long": "split"}, "too_long must be one of"),
        (Tokens, {"max_length": 12, "row": 99}, "form='packed' and row go together"),
        (Tokens, PACKED, "form='packed' and row go together"),
        (Tokens, {**PACKED, "row": 11}, "a row of 11 tokens holds no caption of max_length=12"),
        (Tokens, {**PACKED, "row": 24, "tokenizer": "bytes"}, "planned by numbers of tokens"),
        (Views, {"count": 0, "transforms": CROP}, "count must be at least 1, found 0"),
        (Views, {"count": 2, "transforms": RandomHorizontalFlip()}, "transforms must be a list"),
        (Views, {"count": 2, "transforms": CROP, "mask": 0.75}, "mask must be a BlockwiseMask, a RandomMask"),
        (BlockwiseMask, {"patch": 16, "ratio": (0.5, 0.1)}, "ratio must be two shares"),
        (RandomMask, {"patch": 16, "ratio": 1.5}, "ratio must be a share"),
        (BadSamples, {"on_error": "skip", "max_bad": 1.5}, "max_bad as a float is a share, 0"),
        (BadSamples, {"on_error": "skip", "max_bad": float("nan")}, "max_bad as a float is a share"),
        (BadSamples, {"on_error": "skip", "max_bad": -1}, "max_bad must be at least 0, found -1"),
        (BadSamples, {"on_error": "skip", "max_bad": "1%"}, "max_bad must be a number or a share"),
        (BadSamples, {"on_error": "raise", "max_bad": 3}, "on_error='raise' does neither"),
        (DaliOptions, {"hw_decoder_load": 65}, "between 0 and 1, found 65"),
        (DaliOptions, {"region_decode": "yes"}, "region_decode must be .*, found 'yes'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(
    option: Callable[..., object], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        option(**arguments)
