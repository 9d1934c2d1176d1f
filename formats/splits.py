"""Names of splits, such as train and val: a folder or shards of several splits are not one dataset.

The names are those of Hugging Face's ``datasets`` (``data_files.py``), and words joined with them, such as
``trainset`` and ``seg_train``. Conversions, ``stoker index`` and ``stoker.open`` refuse what
:func:`group_by_split` finds.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from stoker.errors import SourceError

from .containers.shard_names import expand_braces

Door = Literal["convert", "convert-text", "index", "open"]
"""The call that takes a source: a command, or :func:`stoker.open`."""

_WORDS = {
    "train": ("train", "training", "trainval", "trn"),
    "val": ("val", "valid", "validation", "validate", "dev", "development"),
    "test": ("test", "testing", "tst", "eval", "evaluation", "holdout"),
}
_JOINED = ("", "set", "sets", "data", "dataset", "images", "imgs", "img", "folder", "dir")
_SPLIT_OF = {word + end: split for split, words in _WORDS.items() for word in words for end in _JOINED}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of snake_case and of CamelCase
_NO_LETTER = re.compile(r"[\W\d_]+")


def _split_of(name: str) -> tuple[str, str] | None:
    """The split that a name or a path says, and the letters of the rest; None if it says none."""
    for match in reversed(list(_WORD.finditer(name))):
        before, after = name[: match.start()], name[match.end() :]
        # A word of other letters, such as "éval", is no split.
        is_word = before[-1:].isascii() and after[:1].isascii()
        if is_word and (split := _SPLIT_OF.get(match[0].lower())):
            return split, _NO_LETTER.sub("", before + after)
    return None


def group_by_split(names: Iterable[str]) -> dict[str, list[str]]:
    """The names of each split, training first; empty if the names are not those of several splits."""
    # Classes may be called train and test-tube. So either all names say a split, or some differ in it alone.
    found = {name: _split_of(name) for name in names}
    named = {name: split for name, split in found.items() if split is not None}
    splits_of_rest = defaultdict[str, set[str]](set)
    for split, rest in named.values():
        splits_of_rest[rest].add(split)
    differ = any(len(splits) > 1 for splits in splits_of_rest.values())
    if not differ and (len(named) < len(found) or len({split for split, _ in named.values()}) < 2):
        return {}
    return {
        split: chosen
        for split in _WORDS
        if (chosen := sorted(name for name, (of_name, _) in named.items() if of_name == split))
    }


def call(door: Door, source: str, name: str = "", more: str = "") -> str:
    """The call that takes a source at this door; ``name`` is the folder of its dataset in TARGET."""
    target = f"TARGET/{name}" if name else "TARGET"
    if door == "open":
        return f"stoker.open({source!r})"
    into = f"--into {target}" if door == "index" else target
    return f"stoker {door} {shlex.quote(source)} {into}{more}"


def check_one_split(paths: Sequence[str | os.PathLike[str]], files: Sequence[str], door: Door) -> None:
    """Refuse files of several splits; ``paths`` are the names, patterns and folders that stand for them."""
    # A list in braces that names the splits joins them: the user has written it.
    named = [os.fspath(path) for path in paths]
    if any("{" in text and group_by_split(expand_braces(text)) for text in named):
        return
    start = "".join(_common_start(files).rpartition("/")[:2])
    groups = group_by_split(file.removeprefix(start) for file in files)
    if not groups:
        return
    patterns = {split: _pattern([start + name for name in names], files) for split, names in groups.items()}
    texts = [*patterns.values()]
    end = _common_start([text.removeprefix(start)[::-1] for text in texts])[::-1]
    end = end[end.find(".") :] if "." in end else ""
    braces = ",".join(text.removeprefix(start).removesuffix(end) for text in texts)
    together = f"name them in braces: '{start}{{{braces}}}{end}'"
    if door == "convert-text":
        together = f"name them one by one: {' '.join(map(shlex.quote, texts))}"
    calls = [call(door, pattern, split) for split, pattern in patterns.items()]
    raise SourceError(
        f"the shards are of the splits {join(groups)}, which would become one dataset",
        path=paths[0],
        hint=f"Take each by itself: {'; '.join(calls)}; to make one dataset of them, {together}.",
    )


def _common_start(texts: Sequence[str]) -> str:
    return os.path.commonprefix(list(texts))  # noqa: RUF071 - the characters of names, not folders


def _pattern(chosen: Sequence[str], files: Sequence[str]) -> str:
    """A pattern that names the chosen ones among files, or else the first of them."""
    if len(chosen) == 1:
        return chosen[0]
    start = _common_start(chosen).rstrip("0123456789")
    end = _common_start([one[len(start) :][::-1] for one in chosen])[::-1].lstrip("0123456789")
    ends = (end, end[end.find(".") :] if "." in end else "")
    for pattern in (f"{start}*{one}" for one in ends):
        if {one for one in files if fnmatchcase(one, pattern)} == set(chosen):
            return pattern
    return chosen[0]


def join(names: Iterable[str]) -> str:
    """Names as a sentence lists them: ``train, val and test``."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
