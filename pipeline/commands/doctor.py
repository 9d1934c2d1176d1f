"""The command ``stoker doctor``, which says what a loader would use on this machine."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import NamedTuple

from stoker import __version__, _native
from stoker.errors import install_hint
from stoker.formats.codecs.codec import Codec, is_native
from stoker.formats.threads import available_cores

from ..engines.registry import choose_engine, this_machine
from ..execution.ranks import find_process
from .console import out, print_rows

_DALI = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")
_PACKAGES = ("torch", "tensorflow", "tensorflow-cpu", "jax", *_DALI, "tokenizers")
_FOREIGN_PACKAGE = "nvidia-dali"


class Finding(NamedTuple):
    """One line of the report."""

    subject: str  # Name of the package or the resource
    state: str  # Its version, or what it can do
    advice: str = ""  # What the user can do about it; empty where nothing needs doing


def doctor() -> None:
    """Show what is installed and which engine a loader uses.

    Examples:
      stoker doctor
    """
    ranks = find_process()
    findings = [
        Finding("stoker", f"{__version__}, Python {platform.python_version()}, {platform.machine()}"),
        *_decoders(),
        Finding("cores", f"{available_cores()} that this process may use"),
        Finding("ranks", f"rank {ranks.rank} of {ranks.world_size} ({ranks.source})"),
        *_gpu(),
        *_packages(),
        _engine(ranks.local_rank),
    ]
    print_rows([(finding.subject, finding.state) for finding in findings])
    for finding in findings:
        if finding.advice:
            out.print(f"{finding.subject}: {finding.advice}", style="yellow")


def _decoders() -> list[Finding]:
    libraries, level = _native.LIBRARIES, _native.cpu_level()
    slow = "This processor has no AVX2: the engine is several times slower." if level == "plain" else ""
    jpeg = libraries["JPEG"]
    if _native.jpeg_decoder() == "stoker":
        jpeg = f"Stoker's for baseline images, {jpeg} for others"
    webp = (
        "Pillow",
        "Pillow takes longer. Install libwebp (Debian: libwebp-dev), then install Stoker again from source.",
    )
    if is_native(Codec.WEBP):
        webp = (f"{libraries['WebP']}, in the native engine", "")
    return [
        Finding("native engine", f"built, uses {level}", slow),
        Finding("JPEG decoder", jpeg),
        Finding("PNG decoder", f"Stoker's, with {libraries['PNG']}"),
        Finding("WebP decoder", *webp),
    ]


def _gpu() -> list[Finding]:
    machine = this_machine(None)
    if not machine.gpus:
        return [Finding("GPU", "none that the driver reports")]
    advice = ""
    if not machine.has_dali:
        advice = "DALI would decode on it (driver 525 or later). " + install_hint("nvidia-dali-cuda120")
    return [Finding("GPU", f"{machine.gpus} visible", advice)]


def _packages() -> list[Finding]:
    findings = [Finding(name, version) for name in _PACKAGES if (version := _version(name))]
    if _version(_FOREIGN_PACKAGE):
        advice = f"NVIDIA does not publish this package: pip uninstall {_FOREIGN_PACKAGE}."
        findings.append(Finding(_FOREIGN_PACKAGE, "installed", advice))
    if all(map(_version, _DALI)):
        findings.append(Finding("DALI", "two builds", "They exclude each other: pip uninstall one of them."))
    return findings


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _engine(local_rank: int) -> Finding:
    machine = this_machine(None)
    engine, device = choose_engine("auto", "cuda" if machine.gpus else None, frozenset(), machine, local_rank)
    where = f"{engine} on {device}" + (" with device='cuda', else native on cpu" if machine.gpus else "")
    return Finding(
        "engine='auto'", where, "" if sys.platform == "linux" else "Stoker is tested on Linux only."
    )
