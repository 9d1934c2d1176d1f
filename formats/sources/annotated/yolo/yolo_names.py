"""Names of classes for YOLO's text files, from ``data.yaml`` or ``classes.txt``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from stoker.errors import SourceError

from ...folders.source_folder import SourceFolder
from ..object_table import MOST_KEYPOINTS

YAML_NAMES = ("data.yaml", "dataset.yaml", "data.yml")
_TEXT = "classes.txt"
_LONGEST = 1 << 20  # characters of a YAML file: names of ten thousand classes have fewer
_DEEPEST = 16  # lists and mappings in each other; PyYAML crashes at some ten thousand
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # several times as fast, where PyYAML has it


@dataclass(frozen=True)
class YoloNames:
    """Classes and keypoints of a YOLO dataset."""

    classes: tuple[str, ...] = ()  # Names by number; empty if the dataset has none
    keypoints: int = 0  # K, the keypoints of an object
    numbers: int = 0  # Numbers that a line has for the keypoints: 2K or 3K
    # (K,) the keypoint that each becomes in a mirrored image, ``flip_idx``; empty if there is none
    swap: tuple[int, ...] = ()


def read_names(folders: Sequence[SourceFolder]) -> YoloNames:
    """Read the names from the first of the folders that has a file of names."""
    for folder in folders:
        for name in (*YAML_NAMES, _TEXT):
            if (lines := folder.lines(name)) is not None:
                if name != _TEXT:
                    return parse_names(f"{folder.root}/{name}", lines)
                return YoloNames(tuple(line.strip() for line in lines if line.strip()))
    return YoloNames()


def parse_names(path: str, lines: list[str]) -> YoloNames:
    """The names in the lines of a ``data.yaml``; SourceError if they have another form than Ultralytics'."""
    members = load_yaml(path, "\n".join(lines))
    classes = yaml_strings(path, "names", members.get("names"))
    shape = yaml_strings(path, "kpt_shape", members.get("kpt_shape"))
    swap = yaml_strings(path, "flip_idx", members.get("flip_idx"))
    try:
        count, each = map(int, shape) if shape else (0, 2)
        flips = tuple(map(int, swap))
        declared = int(members.get("nc", len(classes)))
    except (TypeError, ValueError):
        fail_yaml(path, "nc must be an integer, kpt_shape two integers, and flip_idx integers")
    if count > MOST_KEYPOINTS:
        fail_yaml(path, f"kpt_shape has {count} keypoints, more than {MOST_KEYPOINTS}")
    if classes and declared != len(classes):
        fail_yaml(path, f"nc is {declared}, and there are {len(classes)} names")
    if count < 0 or each not in (2, 3) or (flips and sorted(flips) != list(range(count))):
        fail_yaml(path, "kpt_shape must be [K, 2] or [K, 3], and flip_idx name each of K keypoints once")
    return YoloNames(classes, count, count * each, flips)


def load_yaml(path: str, text: str) -> dict[str, Any]:
    """The mapping that a YAML file holds, all its scalars as text."""
    if len(text) > _LONGEST:
        fail_yaml(path, f"it has more than {_LONGEST} characters")
    try:
        if _nests_deeper(text, _DEEPEST):
            fail_yaml(path, f"it nests more than {_DEEPEST} lists or mappings")
        # BaseLoader makes only text, lists and mappings. SafeLoader would read a class named "no" as False.
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - it is safer than SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        fail_yaml(path, f"it is no YAML: {' '.join(str(error).split())}")
    if document is not None and not isinstance(document, dict):
        fail_yaml(path, "it holds no mapping")
    return document or {}


def _nests_deeper(text: str, most: int) -> bool:
    """Whether YAML nests more lists and mappings than ``most``; it is read up to there, without recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > most:
            return True
    return False


def yaml_strings(path: str, name: str, value: Any) -> tuple[str, ...]:
    """The items of a list, which may be written as a mapping of the numbers from 0; empty without a value."""
    if not value:
        return ()
    if isinstance(value, dict):
        if list(value) != [str(number) for number in range(len(value))]:
            fail_yaml(path, f"the numbers of {name} must count from 0")
        value = list(value.values())
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        # Lists that name one list often are a few bytes in YAML, and gigabytes as text.
        found = repr(value[:60]) if isinstance(value, str) else "one of other values"
        fail_yaml(path, f"{name} must be a list of names or numbers, not {found}")
    return tuple(value)


def fail_yaml(path: str, message: str) -> NoReturn:
    """Raise SourceError for a YAML file."""
    raise SourceError(
        f"the file cannot be read: {message}",
        path=path,
        hint="correct it, or remove it and write the names of classes into classes.txt, one on each line",
    )
