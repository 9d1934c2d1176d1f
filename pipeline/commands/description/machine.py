"""Findings on this machine: packages, cores, GPUs, and the engine of a loader, for ``stoker doctor``."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from dataclasses import dataclass

from stoker import __version__
from stoker.errors import install_hint
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import is_native
from stoker.formats.concurrency.cores import available_cores

from ...engines.selection.devices import this_machine
from ...engines.selection.execution import choose_engine
from ...engines.selection.kept_rates import KeptRates
from ...execution.ranks.ranks import find_ranks

__all__ = ["Finding", "examine"]

_PACKAGES = (
    "torch",
    "tensorflow",
    "tensorflow-cpu",
    "jax",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "tokenizers",
)
_FOREIGN_PACKAGE = "nvidia-dali"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        subject: Name of the package or the resource.
        found: Its version or state.
        advice: What the user can do about it; empty where nothing needs doing.
    """

    subject: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Return a finding for everything that decides how fast a loader runs on this machine."""
    return [
        Finding("stoker", f"{__version__}, Python {platform.python_version()}, {platform.machine()}"),
        _native(),
        Finding("JPEG decoder", _jpeg_decoder()),
        Finding("PNG decoder", _png_decoder()),
        _webp_decoder(),
        Finding("cores", f"{available_cores()} that this process may use"),
        *_ranks(),
        *_gpu(),
        *_packages(),
        _engine(),
        *_measured_rates(),
    ]


def _native() -> Finding:
    from stoker import _native

    level = _native.cpu_level()
    advice = "" if level != "plain" else "This processor has no AVX2: the engine is several times slower."
    return Finding("native engine", f"built, uses {level}", advice)


def _jpeg_decoder() -> str:
    from stoker import _native

    library = _native.LIBRARIES["JPEG"]
    own = _native.jpeg_decoder() == "stoker"
    return f"Stoker's for baseline images, {library} for others" if own else library


def _png_decoder() -> str:
    from stoker import _native

    return f"Stoker's, with {_native.LIBRARIES['PNG']}"


def _webp_decoder() -> Finding:
    if is_native(Codec.WEBP):
        from stoker import _native

        return Finding("WebP decoder", f"{_native.LIBRARIES['WebP']}, in the native engine")
    advice = (
        "Pillow takes longer. Install libwebp (Debian: libwebp-dev), then install Stoker again from source."
    )
    return Finding("WebP decoder", "Pillow", advice)


def _ranks() -> list[Finding]:
    ranks = find_ranks()
    return [Finding("ranks", f"rank {ranks.rank} of {ranks.world_size} ({ranks.source})")]


def _gpu() -> list[Finding]:
    machine = this_machine(None)
    if not machine.gpus:
        return [Finding("GPU", "none that the driver reports")]
    advice = ""
    if not machine.has_dali:
        advice = "DALI would decode on it (driver 525 or later). " + install_hint("nvidia-dali-cuda120")
    return [Finding("GPU", f"{machine.gpus} visible", advice)]


def _packages() -> list[Finding]:
    found = []
    for name in _PACKAGES:
        version = _version(name)
        if version:
            found.append(Finding(name, version))
    if _version(_FOREIGN_PACKAGE):
        found.append(
            Finding(
                _FOREIGN_PACKAGE,
                "installed",
                f"NVIDIA does not publish this package: pip uninstall {_FOREIGN_PACKAGE}.",
            )
        )
    if _version("nvidia-dali-cuda120") and _version("nvidia-dali-cuda130"):
        found.append(Finding("DALI", "two builds", "They exclude each other: pip uninstall one of them."))
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _engine() -> Finding:
    engine, device = choose_engine("auto", None, frozenset(), this_machine(None), find_ranks().local_rank)
    advice = "" if sys.platform == "linux" else "Stoker is tested on Linux only."
    found = f"{engine} on {device}"
    if device != "cpu":
        found = f"the faster of dali and native for {device}, measured at the first use of a dataset"
    return Finding("engine='auto'", found, advice)


def _measured_rates() -> list[Finding]:
    """The measurements of ``engine="auto"`` that are kept, the newest last."""
    found = []
    for rates in KeptRates("engine-rates").all():
        each = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.images_per_second.items())
        found.append(
            Finding("measured", f"{rates.dataset} ({rates.machine}): {each} images/s, takes {rates.fastest}")
        )
    return found
