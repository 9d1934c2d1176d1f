"""Base of all steps, Stoker's and users' own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeGuard

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, EngineError

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.integer]
_Change = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True)
class Step:
    """Base of all steps: a frozen dataclass of arrays. A user's transform may append a user's step.

    This is a whole step::

        @dataclass(frozen=True)
        class Solarize(Step):
            operation: ClassVar[str] = "solarize"

            threshold: npt.NDArray[np.int16]  # (N,)

            def apply(self, i: int, pixels: Pixels) -> Pixels:
                return np.where(pixels >= self.threshold[i], 255 - pixels, pixels)

    The reference engine runs ``apply``, and so does the native engine for custom steps that come last
    (:mod:`stoker.augment.steps.custom`). C++ gets the fields that ``_native.STEP_COLUMNS`` names, in the
    dtypes that it states. DALI gets what its row in ``pipeline/engines/dali/steps.py`` feeds.
    ``tests/helpers/transforms/step_examples.py`` states how far engines may differ.

    Attributes:
        operation: Name under which C++ registers the operation, in snake case; empty for a step that C++ does
            not execute.
        where: (N,) bool, samples that it changes. The other arrays are ignored for all other samples.
    """

    operation: ClassVar[str] = ""

    where: npt.NDArray[np.bool_]

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``; may return ``pixels`` itself, never changes it.

        Raises:
            EngineError: ``apply`` raised something, which is the cause.
            ConfigError: ``apply`` returned no image like ``pixels``.
        """
        if not self.where[i]:
            return pixels
        try:
            changed = self.apply(i, pixels)
        except Exception as error:
            said = f"{type(self).__name__}: apply raised {type(error).__name__}: {error}"
            raise EngineError(said, hint="Correct apply; the error above says where it failed.") from error
        return check_pixels(self, changed, pixels)

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """What :meth:`run` does where ``where`` is true."""
        raise NotImplementedError

    def check(self, n: int) -> None:
        """Raise ConfigError if an array that a user gave has a wrong shape or dtype for N samples.

        Only classes whose objects users make themselves, such as :class:`Table`, override it.
        """
        check_array(self, "where", np.bool_, (n,))

    def spread(self, rows: Rows, n: int) -> Step:
        """The step for ``n`` samples: its samples at ``rows``, and others that it does not change."""

        def spread(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            spread_array = np.zeros((n, *array.shape[1:]), array.dtype)
            spread_array[rows] = array
            return spread_array

        return self._with_arrays(spread)

    def take(self, rows: Rows) -> Step:
        """The same for the samples at ``rows`` alone."""
        return self._with_arrays(lambda array: array[rows])

    def _with_arrays(self, change: _Change) -> Step:
        return replace(self, **{f.name: _changed(getattr(self, f.name), change) for f in fields(self)})


@dataclass(frozen=True)
class BatchStep(Step):
    """Base of users' steps that change several images in one call, for functions that work on batches.

    The native engine calls ``apply_batch`` where the step comes last, as for any step of a user: once for
    each thread, with its share of a batch. The reference calls it with one image at a time. So the result
    for an image must not depend on the others.
    """

    def apply_batch(self, rows: npt.NDArray[np.intp], pixels: Pixels) -> Pixels:
        """Change M images.

        Args:
            rows: (M,), the samples of the batch that the images belong to, to look up the step's arrays.
            pixels: (M, H, W, 3) uint8, which may be changed in place.

        Returns:
            (M, H, W, 3) uint8.
        """
        raise NotImplementedError

    def run_batch(self, rows: npt.NDArray[np.intp], pixels: Pixels) -> Pixels:
        """Execute it on the images, (M, H, W, 3), of the samples ``rows``; see :meth:`Step.run`."""
        chosen = np.flatnonzero(self.where[rows])
        if not len(chosen):
            return pixels
        given = pixels[chosen] if len(chosen) < len(rows) else pixels
        try:
            changed = self.apply_batch(rows[chosen], given)
        except Exception as error:
            said = f"{type(self).__name__}: apply_batch raised {type(error).__name__}: {error}"
            hint = "Correct apply_batch; the error above says where it failed."
            raise EngineError(said, hint=hint) from error
        checked = check_pixels(self, changed, given)
        if len(chosen) == len(rows):
            return checked
        pixels[chosen] = checked
        return pixels

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return np.asarray(self.apply_batch(np.array([i]), pixels[None].copy())[0])


def _changed(value: Any, change: _Change) -> Any:
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, Step):
        return value._with_arrays(change)
    return tuple(_changed(item, change) for item in value) if isinstance(value, tuple) else value


def to_uint8(values: npt.NDArray[np.float64]) -> Pixels:
    """Pixels rounded half up and clipped to 0..255."""
    return np.floor(values.clip(0, 255) + 0.5).astype(np.uint8)


def check_array(step: object, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    """Raise ConfigError unless the attribute ``name`` of ``step`` is an array of ``dtype`` and ``shape``."""
    value = getattr(step, name)
    if not _is_array(value, dtype, shape):
        raise ConfigError(
            f"{type(step).__name__}: {name} must be {shape} {np.dtype(dtype).name}, one row for each sample; "
            f"found {form(value)}"
        )


def check_pixels(step: object, found: Any, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return ``found``, the result of a step on ``pixels``; ConfigError if its shape or dtype is another."""
    if _is_array(found, np.uint8, pixels.shape):
        return found
    method = "apply" if pixels.ndim == 3 else "apply_batch"
    raise ConfigError(
        f"{type(step).__name__}: {method} must return {pixels.shape} uint8, as it gets; found {form(found)}",
        hint=f"Let {method} clip to 0..255, end with .astype(numpy.uint8), and return the array.",
    )


def _is_array(value: object, dtype: type[np.generic], shape: tuple[int, ...]) -> TypeGuard[npt.NDArray[Any]]:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == shape


def form(value: Any) -> str:
    """Shape and dtype of an array, or the repr of another value, for an error."""
    return f"{value.shape} {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
