"""Names of shards as users write them: lists in braces, patterns, and folders."""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path

from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url, join_url, split_query, split_url

from ..files import check_named, is_hidden, leaves_folder, read_regular
from .container import SUFFIXES

_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(\d{1,18}))?")
_MOST_NAMES = 1_000_000  # names of one list
# A shard of a set that states its size, such as train-00000-of-00010.parquet. Hugging Face's writers may add
# a hash of 16 digits, which differs from shard to shard.
_OF = re.compile(r"(.*?)(\d{1,9})([-_]of[-_])(\d{1,9})(?:-[0-9a-f]{16})?((?!\d).*)", re.DOTALL)
_INDEX_FILE = "index.json"  # of Mosaic Streaming
_MOST_INDEX = 1 << 28  # bytes
_UNFINISHED = (".stoker-convert", ".stoker-stage")  # in a folder whose shards are not all there
_CHECK = "Check the spelling of the folder and of the pattern."


def expand(path: str | os.PathLike[str]) -> list[str]:
    """Return the resolved paths, or the URLs, of the shards that a user names."""
    # A name may have lists in braces (``train-{000..099}.tar``, ``{a,b}.tar``) and patterns (``*.tar``; at a
    # URL in its last part alone). A folder stands for the files in it that have the suffix of a container or,
    # without any, for those with another suffix after it, which are compressed, or for its TFRecord files.
    check_named(shard=path)
    text = os.fspath(path)
    if is_url(text):
        return [url for name in expand_braces(text) for url in _at_url(name)]
    if os.path.lexists(text):
        return _on_disk(text)
    return [file for name in expand_braces(text) for file in _on_disk(name)]


def files_in(folder: str, suffix: str) -> list[str]:
    """Return the resolved paths of the files in a folder that have a suffix; hidden ones are left out."""
    with os.scandir(Path(folder).resolve()) as entries:
        names = (entry.path for entry in entries if not entry.name.startswith((".", "_")))
        return sorted(path for path in names if path.endswith(suffix))


def expand_braces(text: str) -> list[str]:
    """Return the names that a list in braces stands for, as a shell does."""
    # ``{000..099}`` counts, with leading zeros if the limits have them; ``{a,b}`` lists; other braces stay.
    names = list(islice(_braces(text), _MOST_NAMES + 1))
    if len(names) > _MOST_NAMES:
        raise ConfigError(
            f"the name stands for more than {_MOST_NAMES:,} shards",
            path=text,
            hint="Check the limits of the lists in braces.",
        )
    return names


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path that does not exist, or a URL, has a list in braces or a pattern."""
    text, _ = split_query(path)
    if not is_url(text) and os.path.lexists(text):
        return False
    return "{" in text or ("*" in text if is_url(text) else glob.has_magic(text))


def _braces(text: str) -> Iterator[str]:
    start = text.find("{")
    if (group := _group(text, start)) is None:
        yield text
        return
    *parts, after = group
    if len(parts) > 1:
        choices: Iterator[str] = (choice for part in parts for choice in _braces(part))
    elif (match := _RANGE.fullmatch(parts[0])) is not None:
        choices = _count(*match.groups())
    else:
        choices = (f"{{{choice}}}" for choice in _braces(parts[0]))
    for choice in choices:
        for rest in _braces(after):
            yield f"{text[:start]}{choice}{rest}"


def _group(text: str, start: int) -> list[str] | None:
    """Split the braces that open at ``start`` at their own commas; the last part follows them."""
    depth, cuts = 0, [start]
    for at in range(start, len(text)) if start >= 0 else ():
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 or (depth == 1 and text[at] == ","):
            cuts.append(at)
        if depth == 0:
            return [text[a + 1 : b] for a, b in pairwise([*cuts, len(text)])]
    return None


def _count(first: str, last: str, step: str | None) -> Iterator[str]:
    low, high = int(first), int(last)
    by = max(int(step or 1), 1) * (1 if low <= high else -1)
    is_padded = any(re.match(r"-?0\d", limit) for limit in (first, last))
    width = max(len(first), len(last)) if is_padded else 0
    return (f"{number:0{width}d}" for number in range(low, high + (1 if by > 0 else -1), by))


def _on_disk(name: str) -> list[str]:
    if not os.path.lexists(name) and glob.has_magic(name):
        if not (matching := sorted(glob.glob(name, recursive=True))):  # noqa: PTH207 - patterns may be absolute
            raise SourceError("no file matches the pattern", path=name, hint=_CHECK)
        check_complete(matching, os.path.basename(name))  # noqa: PTH119 - a pattern
        return [str(Path(file).resolve()) for file in matching]
    path = Path(name).resolve()
    if not path.is_dir():
        return [str(path)]
    with os.scandir(path) as entries:  # one at a time: it may be a folder of a million images
        found = (
            entry for entry in entries if _may_be_shard(entry.name) or entry.name.startswith(_UNFINISHED)
        )
        names = [entry.name for entry in found if entry.is_file() or entry.name.startswith(_UNFINISHED)]
    if any(name.startswith(_UNFINISHED) for name in names):
        return [str(path)]
    shards = [str(path / name) for name in _shards_among(names)]
    check_complete(shards)
    return shards or _merged_shards(str(path), lambda name: (path / name).is_file()) or [str(path)]


def _at_url(url: str) -> list[str]:
    from ..remote.store import Store

    folder, pattern = split_url(url)
    if "*" in pattern:
        names = [file.name for file in Store(folder).files() if "/" not in file.name]
        if not (matching := fnmatch.filter(names, pattern)):
            raise SourceError("no file matches the pattern", path=url, hint=_CHECK)
        shards = [join_url(folder, name) for name in matching]
        check_complete(shards, pattern)
        return shards
    whole = Store(url)
    if _has_suffix(pattern) or Store(folder).size(pattern) is not None or not whole.is_folder():
        return [whole.url]
    names = [file.name for file in whole.files() if "/" not in file.name]
    shards = [whole.at(name) for name in _shards_among(names)]
    check_complete(shards)
    merged = () if shards else _merged_shards(whole.url, lambda name: whole.size(name) is not None)
    return shards or list(merged) or [whole.url]


def check_complete(shards: Collection[str], pattern: str = "*", *, chosen: bool = False) -> None:
    """Raise SourceError if a set of shards states that it has a shard that is missing from its folder.

    A set states it in names such as ``train-00000-of-00010``, or in Mosaic Streaming's ``index.json``. A
    shard that does not match ``pattern`` is not wanted. With ``chosen``, a user or a shell has named the
    shards: a choice leaves out shards that are there.
    """
    present = defaultdict[str, set[str]](set)
    for shard in shards:
        folder, name = split_url(shard)
        present[folder].add(name)
    for folder, names in present.items():
        there = _missing(folder, [file.name for file in Path(folder).glob("*")]) if chosen else {}
        for stated, missing in _missing(folder, names).items():
            if chosen and there.get(stated) != missing:
                continue
            if wanted := fnmatch.filter(missing, pattern):
                are = "is missing:" if len(wanted) == 1 else "are missing, such as"
                raise SourceError(
                    f"{len(wanted):,} of the {stated} {are} {wanted[0]}",
                    path=folder or ".",
                    hint="Copy or download all shards. To read some shards of a set, list them in braces, "
                    "such as 'train-{00000..00003}-of-00010.tfrecord'.",
                )


def check_named_files(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Check several files that a user, or a pattern of a shell, names one by one; URLs are not checked."""
    files = [os.fspath(path) for path in paths if not is_url(path)]
    if len(files) > 1:
        check_complete([os.path.abspath(file) for file in files], chosen=True)  # noqa: PTH100 - of a link itself


def _missing(folder: str, names: Collection[str]) -> dict[str, list[str]]:
    return dict((*_missing_by_number(names), *_missing_by_index(folder, set(names))))


def _missing_by_number(names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each set whose names state its number of shards, and the names that are missing."""
    sets = defaultdict[tuple[str, ...], list[str]](list)
    for name in names:
        if (match := _OF.fullmatch(name)) is not None:
            start, number, of, count, suffix = match.groups()
            sets[start, of, count, suffix].append(number)
    for (start, of, count, suffix), numbers in sets.items():
        there = set(map(int, numbers))
        first = int(0 not in there and int(count) in there)  # a few programs count from 1
        wanted = range(first, min(int(count), _MOST_NAMES) + first)
        width = len(numbers[0])
        lacking = [
            f"{start}{number:0{width}d}{of}{count}{suffix}" for number in wanted if number not in there
        ]
        yield f"{int(count):,} shards {start}*{of}{count}{suffix}", lacking


def _missing_by_index(folder: str, names: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield what Mosaic Streaming's ``index.json`` lists, if a shard is one of its, and what is missing."""
    if not any(".mds" in name for name in names):
        return
    forms = _stated_shards(folder)
    # A merged index also lists shards in folders of its folder. The reader refuses an index of other shards.
    missing = [some[0] for some in forms if some and "/" not in some[0] and names.isdisjoint(some)]
    if len(missing) == len(forms):
        return
    yield f"{len(forms):,} shards of {_INDEX_FILE}", missing


def _stated_shards(folder: str) -> list[list[str]]:
    """The names of each shard in Mosaic Streaming's ``index.json`` of a folder: plain, then compressed."""
    document = None
    with suppress(OSError, ValueError, RecursionError):  # the reader of a shard names the damage
        document = json.loads(_read_beside(folder) or "null")
    stated = document.get("shards") if isinstance(document, dict) else None
    shards = stated if isinstance(stated, list) else []
    parts = [
        [shard.get(part) for part in ("raw_data", "zip_data")] for shard in shards if isinstance(shard, dict)
    ]
    return [[str(part.get("basename")) for part in both if isinstance(part, dict)] for both in parts]


def _merged_shards(folder: str, exists: Callable[[str], bool]) -> list[str]:
    """The shards in inner folders, as an ``index.json`` that Mosaic Streaming has merged lists them."""
    forms = [names for names in _stated_shards(folder) if any("/" in name for name in names)]
    forms = [[name for name in names if not leaves_folder(name)] for names in forms]
    found = [next(filter(exists, names), "") for names in forms]
    if "" in found:
        raise SourceError(
            f"{found.count(''):,} of the {len(found):,} shards of {_INDEX_FILE} are missing, such as "
            f"{', '.join(forms[found.index('')])}",
            path=folder,
            hint="Copy or download all shards.",
        )
    return [join_url(folder, name) for name in found]


def _read_beside(folder: str) -> bytes | None:
    if is_url(folder):
        from ..remote.store import Store

        return Store(folder).read_if_there(_INDEX_FILE)
    return read_regular(os.path.join(folder, _INDEX_FILE), _MOST_INDEX)  # noqa: PTH118


def _shards_among(names: list[str]) -> list[str]:
    """Return the names of shards, or else those of compressed shards, sorted."""
    found = (sorted(filter(belongs, names)) for belongs in (_has_suffix, _is_compressed, names_tfrecord))
    return next(filter(None, found), [])


def _may_be_shard(name: str) -> bool:
    return _has_suffix(name) or _is_compressed(name) or names_tfrecord(name)


def _is_compressed(name: str) -> bool:
    return _has_suffix(Path(name).stem)


def names_tfrecord(path: str) -> bool:
    """Return whether a path or URL is named as TFRecord files are, which have no usual suffix."""
    name = split_query(path)[0].rpartition("/")[2]
    if (match := _OF.fullmatch(name)) is not None and not match[5]:
        return True
    return "tfrec" in name.lower() and not name.endswith((".idx", ".index", ".json", ".txt"))


def _has_suffix(name: str) -> bool:
    return name.endswith(SUFFIXES) and not is_hidden(name)
