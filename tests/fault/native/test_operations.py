"""Wrong steps, warps and boxes to erase, and bad samples beside them, in the native engine."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.payloads import FILL, SIZE, SOURCE, Batch, N, warp_of

from stoker import _native

WHERE = np.ones(N, bool)
BOX = np.tile(np.int32([1, 2, 3, 4]), (N, 1))
QUANTILES = np.zeros(2**16, np.float32)


def border_of(
    size: tuple[int, int], tile: tuple[int, int] = SIZE, n: int = N, first: int = 0
) -> dict[str, Any]:
    rows, columns = (np.tile(np.arange(extent, dtype=np.int32) + first, (n, 1)) for extent in size)
    return {"border.size": np.tile(np.int32(tile), (n, 1)), "border.rows": rows, "border.columns": columns}


def without(columns: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: column for key, column in columns.items() if key != name}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"mean_matrix": np.zeros((2, 3, 3), np.float32)},
            r"'mean_matrix' must have the shape \(3, 3, 3\); found \(2, 3, 3\)",
        ),
        ({"mean_matrix": np.zeros((N, 3, 3))}, "column 'mean_matrix' must be of dtype float32"),
        (
            {"mean_matrix": np.zeros((N, 3, 6), np.float32)[:, :, ::2]},
            "column 'mean_matrix' must be C-contiguous",
        ),
        ({"mean_matrix": "a mean"}, "column 'mean_matrix' must be a NumPy array"),
        ({"fill": np.zeros((N, 3), np.uint8)}, r"'fill' must have the shape \(3,\); found \(3, 3\)"),
        ({"mean_matrixes": np.zeros((N, 3, 3), np.float32)}, "column 'mean_matrixes' is unknown"),
        (
            {"interpolation": np.ones(N - 1, np.uint8)},
            r"'interpolation' must have the shape \(3,\); found \(2,\)",
        ),
        ({"interpolation": np.full(N, 6, np.uint8)}, "interpolation must be from 0 to 5"),
        (warp_of(np.eye(3)) | {"warp.matrix": np.zeros((2, 3, 3))}, "'warp.matrix' must have the shape"),
        (warp_of(np.eye(3), nearest=np.full(2, True)), "'warp.nearest' must have the shape"),
        (without(warp_of(np.eye(3)), "warp.canvas"), "warp.matrix and warp.canvas must be given together"),
        ({"warp.nearest": np.full(N, True)}, "warp.nearest needs warp.matrix"),
        (warp_of(np.eye(3), (0, SIZE[1])), "canvas of a warp"),
        (warp_of(np.eye(3), (20, 40000)), "canvas of a warp"),
        (
            warp_of(np.eye(3), (19, SIZE[1])),
            "dest must lie within the output, the canvas",
        ),
        (border_of(SIZE, n=2), "'border.size' must have the shape"),
        (without(border_of(SIZE), "border.rows"), "border.rows and border.columns must be given together"),
        (border_of((19, 24)), "as many rows and columns as the output"),
        (border_of(SIZE) | warp_of(np.eye(3), (30, SIZE[1])), "the canvas of a warp"),
        (border_of(SIZE, tile=(19, 24)), "must lie within its tile"),
        (border_of(SIZE, first=-1), "must lie within its tile"),
        (border_of(SIZE, tile=(2**15 + 1, 24)), "1 to 32768 pixels a side"),
        (border_of(SIZE, tile=(20, 0)), "must lie within its tile"),
        (
            {"image_size": np.tile(np.int32(SIZE) + 1, (N, 1))},
            "image_size must have at least one pixel a side",
        ),
        ({"image_size": np.zeros((N, 2), np.int32)}, "image_size must have at least one pixel a side"),
        ({"image_size": np.ones((N, 2), np.int32)}, "dest must lie within the output"),
        (border_of(SIZE) | {"image_size": np.tile(np.int32(SIZE), (N, 1))}, "cannot be given together"),
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Batch(tmp_path).run(params)


@pytest.mark.parametrize("column", _native.SAMPLE_COLUMNS + _native.PARAMETER_COLUMNS, ids=lambda c: c.name)
def test_only_optional_columns_may_be_missing(column: _native.Column, tmp_path: Path) -> None:
    batch = Batch(tmp_path)
    batch.samples.pop(column.name, None)
    batch.params.pop(column.name, None)
    if column.optional:
        assert not batch.run()[1].any()
    else:
        with pytest.raises(ValueError, match=f"column '{column.name}' is missing"):
            batch.run()


@pytest.mark.parametrize(
    ("erase", "message"),
    [
        ({"box": np.zeros((2, 4), np.int32)}, "'box' must have the shape"),
        ({"noise.keys": np.zeros(2, np.uint64)}, "'noise.keys' must have the shape"),
        ({"noise.keys": np.zeros(N, np.uint64)}, "noise.keys needs noise.deviation and quantiles"),
        ({"quantiles": QUANTILES[1:]}, "'quantiles' must have the shape"),
        ({"box": np.tile(np.int32([0, 1, 1, 24]), (N, 1))}, "must lie within the output"),
        ({"box": np.tile(np.int32([-1, 0, 1, 1]), (N, 1))}, "must lie within the output"),
        ({"box": np.tile(np.int32([0, 0, 2**31 - 1, 1]), (N, 1))}, "must lie within the output"),
    ],
)
def test_wrong_boxes_to_erase_are_refused(erase: dict[str, Any], message: str, tmp_path: Path) -> None:
    columns = {"box": BOX, "value": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match=message):
        Batch(tmp_path).run(erase=[columns | erase])


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((*SOURCE, 6), np.uint8)[:, :, ::2],
        np.zeros((*SOURCE[::-1], 3), np.uint8).transpose(1, 0, 2),
        np.zeros((*SOURCE, 3), np.int16),
        np.zeros((*SOURCE, 4), np.uint8),
        np.zeros(SOURCE, np.uint8),
        None,
    ],
    ids=["strided", "transposed", "int16", "RGBA", "grey", "None"],
)
def test_decoded_pixels_that_would_be_copied_are_refused(pixels: Any, tmp_path: Path) -> None:
    """The copy would be gone before the batch reads it."""
    with pytest.raises(ValueError, match=r"decoded\[1\] must be a C-contiguous array of dtype uint8"):
        Batch(tmp_path).run(decoded={1: pixels})


@pytest.mark.parametrize(
    "outputs",
    [
        {"out": np.zeros((N, *SIZE, 6), np.uint8)[..., ::2]},
        {"out": np.zeros((N, *SIZE, 3), np.float64)},
        {"status": np.empty(2 * N, np.uint8)[::2]},
        {"status": np.empty(N, np.int64)},
    ],
    ids=["strided images", "float64 images", "strided status", "int64 status"],
)
def test_outputs_that_would_be_written_to_a_copy_are_refused(outputs: dict[str, Any], tmp_path: Path) -> None:
    batch = Batch(tmp_path)
    outputs = {"out": np.zeros((N, *SIZE, 3), np.uint8), "status": np.empty(N, np.uint8), **outputs}
    with pytest.raises((TypeError, ValueError)):
        batch.pool.submit(
            batch.shards, batch.samples, batch.params, layout=1, max_pixels=10**6, verify=False, **outputs
        )


@pytest.mark.parametrize("out", [np.zeros((1, 8, 16), np.uint8)[:, :, ::2], np.zeros((1, 8, 8), np.int32)])
def test_masks_that_would_be_drawn_into_a_copy_are_refused(out: Any) -> None:
    images = {"matrix": np.eye(3)[None], "region": np.array([[0.0, 0, 8, 8]]), "shown": WHERE[:1]}
    sizes = {"height": np.int32([8]), "width": np.int32([8])}
    square = {"points": np.array([[0.0, 0], [8, 0], [8, 8], [0, 8]]), "sizes": np.array([4])}
    runs = {"runs": np.array([0, 64], np.uint32), "counts": np.array([2])}
    owner = np.zeros(1, np.int64)
    with pytest.raises(TypeError, match="incompatible"):
        _native.fill_polygons(out, owner, **images, **square, polygons=np.array([1]))
    with pytest.raises(TypeError, match="incompatible"):
        _native.fill_runs(out, owner, **images, **sizes, **runs)
    with pytest.raises(TypeError, match="incompatible"):
        _native.class_masks(out, [b""], **images, **sizes, fill=0)


def test_decoded_pixels_outlive_their_dict(tmp_path: Path) -> None:
    batch, pixels = Batch(tmp_path), np.full((*SOURCE, 3), 7, np.uint8)
    images, status = batch.run(decoded={1: pixels})
    assert not status.any()
    assert (images[1] == 7).all()
    assert (images[0] == images[2]).all()


def test_wrong_steps_are_refused(tmp_path: Path) -> None:
    steps = _native.Steps(N)
    weights = {"where": WHERE, "weights": np.ones((N, 2), np.float32)}
    with pytest.raises(ValueError, match="steps must be for the same number of samples"):
        Batch(tmp_path).run(steps=_native.Steps(N + 1))
    with pytest.raises(ValueError, match="there is no step 'Sharpen'; the kinds are add_noise, affine, "):
        steps.append("Sharpen", {"where": WHERE, "factor": np.ones(N, np.float32)})
    with pytest.raises(ValueError, match="'factor' must have the shape"):
        steps.append("sharpen", {"where": WHERE, "factor": np.ones(N - 1, np.float32)})
    with pytest.raises(ValueError, match="'where' must have the shape"):
        steps.append("equalize", {"where": WHERE[:2]})
    for kernel_size in ((2, 3), (3, 0), (3, -1), (40001, 1)):
        blur = {"where": WHERE, "kernel_size": np.int32(kernel_size), "sigma": np.ones((N, 2), np.float32)}
        with pytest.raises(ValueError, match="kernel_size must be two odd numbers"):
            steps.append("blur", blur)
    with pytest.raises(ValueError, match="'levels' must have the shape"):
        steps.append("table", {"where": WHERE, "levels": np.zeros((N, 3, 255), np.uint8)})
    with pytest.raises(ValueError, match="only a weighted_sum has chains"):
        steps.append("equalize", {"where": WHERE}, [_native.Steps(N)])
    with pytest.raises(ValueError, match="weights must have a column"):
        steps.append("weighted_sum", weights)
    with pytest.raises(ValueError, match="chains must be other steps"):
        steps.append("weighted_sum", weights, [steps])
    with pytest.raises(ValueError, match="chains must be other steps"):
        steps.append("weighted_sum", weights, [_native.Steps(2)])
    with pytest.raises(ValueError, match="chains must be other steps"):
        steps.append("weighted_sum", weights, [None])  # type: ignore[list-item]  # which Python lets pass


def test_steps_of_a_batch_can_neither_be_changed_nor_used_again(tmp_path: Path) -> None:
    """Another thread may execute them."""
    batch, steps, chain = Batch(tmp_path), _native.Steps(N), _native.Steps(N)
    weights = {"where": WHERE, "weights": np.ones((N, 2), np.float32)}
    chain.append("equalize", {"where": WHERE})
    steps.append("weighted_sum", weights, [chain])
    with pytest.raises(ValueError, match="belong to a batch or a weighted sum"):
        steps.append("weighted_sum", weights, [chain])
    batch.run(steps=steps)
    with pytest.raises(ValueError, match="belong to a batch or a weighted sum"):
        steps.append("equalize", {"where": WHERE})
    with pytest.raises(ValueError, match="belong to a batch or a weighted sum"):
        batch.run(steps=steps)


def test_a_bad_sample_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    """It is all zeros and has a status, for any operation."""
    steps = _native.Steps(N)
    steps.append("equalize", {"where": WHERE})
    params = warp_of([[1, 0.1, 2], [0, 1, 3], [0, 0, 1]]) | {
        "mean_matrix": np.full((N, 3, 3), 0.1, np.float32)
    }
    erase = {"box": BOX, "value": np.float32([200, 100, 50])}
    images, status = Batch(tmp_path, damaged=True).run(params, steps=steps, erase=[erase])
    assert status.tolist() == [0, 4, 0]
    assert not images[1].any()
    assert (images[0] == images[2]).all()
    assert (images[0, 1:4, 2:6] == (200, 100, 50)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("nearest", [None, np.full(N, True)])
def test_a_warp_of_any_numbers_ends_no_process(
    nearest: Any, value: float, index: int, tmp_path: Path
) -> None:
    """Where the map leads nowhere there is fill; nothing is read outside of the image."""
    matrix = np.eye(3)
    matrix.flat[index] = value
    images, status = Batch(tmp_path).run(warp_of(matrix, nearest=nearest))
    assert not status.any()
    if np.isnan(value) and index not in (1, 3):
        assert (images == FILL).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0, -1])
def test_steps_of_any_numbers_end_no_process(value: float, tmp_path: Path) -> None:
    steps, numbers = _native.Steps(N), np.full((N, 3, 4), value, np.float32)
    distort = {"matrix": np.full((N, 3, 3), value, np.float64), "fill": np.uint8(FILL)}
    mean = np.full((N, 3, 3), value, np.float32)
    for kind, columns in (
        ("affine", {"color": numbers, "mean_matrix": mean}),
        ("sharpen", {"factor": np.full(N, value, np.float32)}),
        ("blur", {"kernel_size": np.int32([3, 5]), "sigma": np.full((N, 2), value, np.float32)}),
        ("posterize", {"bits": np.full(N, 255, np.uint8)}),
        ("solarize", {"threshold": np.full(N, -(2**15), np.int16)}),
        ("distort", distort | {"nearest": np.array(False)}),
        ("distort", distort | {"nearest": np.array(True)}),
        ("weighted_sum", {"weights": np.full((N, 1), value, np.float32)}),
    ):
        steps.append(kind, {"where": WHERE, **columns})
    _, status = Batch(tmp_path).run({"mean_matrix": mean}, steps=steps)
    assert not status.any()


@pytest.mark.parametrize("nearest", [None, np.full(N, True)])
def test_an_empty_image_after_a_rotated_one_is_fill(nearest: Any, tmp_path: Path) -> None:
    """It shows nothing of the image before it."""
    batch = Batch(tmp_path)
    turned = np.array([True, False, True])
    batch.samples["orientation"][turned] = 6
    for name, first in (("height", 1), ("width", 0)):
        batch.samples[name][turned] = SOURCE[first]
    for name in ("crop", "region"):
        batch.params[name][turned] = (0, 0, *SOURCE[::-1])
    batch.params["dest"][1] = (3, 4, 0, 0)
    warp = {} if nearest is None else warp_of([[1, 0, 1], [0, 1, 0], [0, 0, 1]], nearest=nearest)
    images, status = batch.run(warp)
    assert not status.any()
    assert (images[1] == FILL).all()
    np.testing.assert_array_equal(images[0], images[2])
