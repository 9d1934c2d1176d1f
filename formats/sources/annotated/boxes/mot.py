"""MOTChallenge's sequences as a source: folders with ``seqinfo.ini``, ``gt/gt.txt`` and frames in ``img1``.

A line of ``gt.txt`` has frame, track, left, top, width, height, a flag, class and visibility
(arXiv:1603.00831). Frames and coordinates count from 1, so 1 is subtracted from left and top. The flag is 0
for an object that evaluation ignores, and ``object_ignored`` is then 1. The number of the track is the
object's id.
"""

from __future__ import annotations

import configparser
import os
from dataclasses import dataclass
from itertools import islice

from stoker.errors import SourceError

from ....remote.store import is_url
from ...folders.source_folder import SourceFolder
from ...listing import Listing
from ...source import Source
from .box_images import BoxImages

_INFO, _TRUTH = "seqinfo.ini", "gt/gt.txt"
# arXiv:1603.00831, table 6, from class 1.
_CLASSES = (
    "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non motorized vehicle",
    "static person", "distractor", "occluder", "occluder on the ground", "occluder full", "reflection",
)  # fmt: skip
_MOST_FRAMES = 1_000_000
_MOST_FOLDERS = 1_000  # entries of a folder that are looked at


@dataclass(frozen=True)
class _Sequence:
    """The frames of a sequence."""

    prefix: str  # path of its folder in the source, with a slash; empty for the source itself
    folder: str  # of the frames, in the prefix
    suffix: str
    frames: int
    size: tuple[int, int]  # height and width

    def path(self, frame: int) -> str:
        """Path of a frame, from 1, in the source."""
        return f"{self.prefix}{self.folder}/{frame:06}{self.suffix}"


def is_mot(source: Source) -> bool:
    """Whether a source is the folder of a sequence, or, on a disk, a folder with such folders."""
    return bool(_infos(source))


def _infos(source: Source) -> list[str]:
    """Paths of the files that describe sequences."""
    folder = source.folder
    if not folder.exists():
        return []
    if folder.has(_INFO):
        return [_INFO]
    if is_url(source.path):
        return []
    with os.scandir(source.path) as entries:
        names = sorted(entry.name for entry in islice(entries, _MOST_FOLDERS))
    return [f"{name}/{_INFO}" for name in names if folder.has(f"{name}/{_INFO}")]


def list_mot(source: Source) -> Listing:
    """List the frames of sequences, with their objects; classes are those of MOTChallenge, in its order."""
    folder, infos = source.folder, _infos(source)
    if not infos:
        raise SourceError(
            f"the source has no {_INFO}",
            path=source.path,
            hint="name the folder of a sequence, or of sequences",
        )
    images = BoxImages("the sequences", "track {}")
    for info in infos:
        _read(images, folder, _sequence(folder, info))
    return images.listing(folder.root, follow_links=source.follow_links, classes=_CLASSES)


def _sequence(folder: SourceFolder, info: str) -> _Sequence:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string("\n".join(folder.lines(info) or []))
        facts = parser["Sequence"]
        frames, height, width = (int(facts[name]) for name in ("seqLength", "imHeight", "imWidth"))
        if not 0 < frames <= _MOST_FRAMES or min(height, width) < 1:
            raise ValueError(f"seqLength {frames}, imWidth {width}, imHeight {height}")
    except (configparser.Error, KeyError, ValueError) as error:
        raise SourceError(
            f"the sequence cannot be read: {error}",
            path=f"{folder.root}/{info}",
            hint="it needs [Sequence] with seqLength, imWidth and imHeight",
        ) from error
    prefix = info.removesuffix(_INFO)
    return _Sequence(prefix, facts.get("imDir", "img1"), facts.get("imExt", ".jpg"), frames, (height, width))


def _read(images: BoxImages, folder: SourceFolder, sequence: _Sequence) -> None:
    for frame in range(1, sequence.frames + 1):
        images.sizes[images.image(sequence.path(frame))] = sequence.size
    truth = f"{sequence.prefix}{_TRUTH}"
    lines = folder.lines(truth)
    if lines is None:
        raise SourceError(
            f"a sequence has no {_TRUTH}",
            path=f"{folder.root}/{sequence.prefix}",
            hint="convert sequences with truth",
        )
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add(images, sequence, line, f"line {number} of {truth}")


def _add(images: BoxImages, sequence: _Sequence, line: str, location: str) -> None:
    cells = line.split(",")
    try:
        frame, track, flag, kind = (int(float(cells[at])) for at in (0, 1, 6, 7))
        left, top, width, height = map(float, cells[2:6])
    except (ValueError, IndexError, OverflowError):
        images.skip(sequence.prefix + _TRUTH, "line that is no object", location)
        return
    if not 1 <= frame <= sequence.frames:
        images.skip(sequence.prefix + _TRUTH, "object of an unknown image", f"{location}: frame {frame}")
    elif not 1 <= kind <= len(_CLASSES):
        images.skip(sequence.path(frame), "object of an unknown category", f"{location}: class {kind}")
    else:
        box = (left - 1, top - 1, left - 1 + width, top - 1 + height)
        ignored = {"ignored": int(flag == 0)}
        images.add(sequence.path(frame), box, _CLASSES[kind - 1], track, extra=ignored)
