"""The pages of the documentation: the site's navigation, links, the API reference, and the code on the pages.

`make docs` builds the site itself.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import posixpath
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.tree import anchors, blocks, links, prose

from stoker import errors
from stoker.pipeline.commands.app import COMMANDS, load_command

ROOT = Path(__file__).parents[2]
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
PUBLIC = (
    "stoker",
    "stoker.augment",
    "stoker.augment.geometry",
    "stoker.augment.steps",
    "stoker.bucketing",
    "stoker.errors",
    "stoker.integrations",
)
SITE = runpy.run_path(str(ROOT / "tools" / "docs" / "site_pages.py"))


def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


SOURCES = [*PAGES, *(path for path in SITE["addresses"]() if path.endswith(".md"))]


def reference() -> str:
    return "".join(text(page) for page in PAGES if page.startswith("docs/reference/"))


def documented() -> list[str]:
    return re.findall(r"^::: (\S+)$", reference(), re.MULTILINE)


def addresses_in(navigation: Any) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    inside = navigation.values() if isinstance(navigation, dict) else navigation
    return [address for entry in inside for address in addresses_in(entry)]


def test_the_navigation_names_every_page_once() -> None:
    named = addresses_in(yaml.safe_load(text("mkdocs.yml"))["nav"])
    pages = [page.removeprefix("docs/") for page in PAGES] + list(SITE["added_pages"]())
    missing, surplus = sorted(set(pages) - set(named)), sorted(set(named) - set(pages))
    assert not missing, f"add {missing} to `nav` in mkdocs.yml, under the heading where a reader looks for it"
    assert not surplus, f"remove {surplus} from `nav` in mkdocs.yml: there is no such page"
    assert len(named) == len(set(named))


@pytest.mark.parametrize("page", SOURCES)
def test_links_lead_to_files_and_headings_of_a_clone(page: str) -> None:
    for link in links(text(page)):
        path, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        assert (ROOT / target).exists(), f"{page} links to {link}"
        if anchor:
            assert anchor in anchors(text(target)), f"{page} links to {link}: there is no such heading"


@pytest.mark.parametrize("page", SOURCES)
def test_links_lead_to_pages_of_the_site(page: str) -> None:
    address = SITE["addresses"]().get(page, page.removeprefix("docs/"))
    SITE["with_links_of_the_site"](text(page), address)


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_has_every_public_name(module: str) -> None:
    names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    modules = {name for name in names if name in PUBLIC or name == "stoker.formats"}
    missing = sorted(names - modules - set(documented()))
    assert not missing, (
        f"add a line `::: {missing[0]}` to a page in docs/reference (also missing: {missing[1:]})"
    )
    assert all(name in reference() for name in modules)


def test_every_name_of_the_reference_exists_and_has_a_docstring() -> None:
    names = [name for name in documented() if ".adapters." not in name]  # those import their frameworks
    assert len(names) > 120
    assert [name for name in names if not pkgutil.resolve_name(name).__doc__] == []


def test_the_page_of_the_command_line_has_every_command_and_option() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "docs" / "cli_page.py"))["page"]()
    for name in COMMANDS:
        command = load_command(name)
        section = page.partition(f"## stoker {name}\n")[2].partition("\n## ")[0]
        terms = set(re.findall(r"[^\s,`]+", " ".join(re.findall("^`(-.+)`$", section, re.MULTILINE))))
        options = {option for parameter in command.params for option in parameter.opts if option[0] == "-"}
        assert section
        assert options - terms == set()


def test_every_error_says_what_to_do() -> None:
    classes = {name: getattr(errors, name) for name in errors.__all__ if name != "StokerError"}
    assert [name for name, error in classes.items() if "What to do: " not in error.__doc__] == []


def test_commands_of_the_readme_read_folders_of_a_clone() -> None:
    sources = re.findall(r"stoker convert (\w[\w./-]*)", text("README.md"))
    assert sources
    assert [name for name in sources if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", SOURCES)
def test_the_header_of_a_table_stands_right_above_it(page: str) -> None:
    """With a line between them, a site shows the lines of a table as text."""
    for header, line in itertools.pairwise(prose(text(page)).splitlines()):
        if re.fullmatch(r"\|( *:?-+:? *\|)+", line):
            assert header.count("|") == line.count("|"), f"{page}: the table below {header!r} has no header"


@pytest.mark.parametrize("page", SOURCES)
def test_python_on_a_page_compiles(page: str) -> None:
    for block in blocks(text(page)):
        assert block.language, f"{page}: name the language of this block: {block.code[:60]!r}"
        if block.language == "python":
            ast.parse(block.code, page)


@pytest.mark.parametrize("page", SOURCES)
def test_the_options_of_commands_on_a_page_exist(page: str) -> None:
    for line in (line for block in blocks(text(page)) for line in block.code.splitlines()):
        if line.startswith("stoker "):
            name, *words = shlex.split(line, comments=True)[1:]
            options = {
                option
                for parameter in load_command(name).params
                for option in parameter.opts + parameter.secondary_opts
            }
            used = {word for word in words if word.startswith("--")}
            assert used <= {*options, "--help"}, f"{page}: {line}"
