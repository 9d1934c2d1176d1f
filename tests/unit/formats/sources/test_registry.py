"""Tests of the registry of source formats."""

from typing import get_args

import pytest

from stoker.errors import ConfigError
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import (
    SOURCE_FORMATS,
    SourceFormat,
    SourceFormatName,
    find_format,
    list_source,
)
from stoker.formats.sources.source import Source


def test_each_name_of_a_format_has_one_row() -> None:
    assert sorted(row.name for row in SOURCE_FORMATS) == sorted(get_args(SourceFormatName))


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"coco, .*, found 'lvis'"):
        find_format(Source("photos"), "lvis")


@pytest.mark.parametrize("source_format", SOURCE_FORMATS, ids=lambda row: row.name)
def test_options_of_other_formats_are_refused(source_format: SourceFormat) -> None:
    source = Source("photos", SourceOptions(images="photos", class_depth=1))
    with pytest.raises(ConfigError, match=f"; this one is {source_format.name}"):
        list_source(source, source_format)
