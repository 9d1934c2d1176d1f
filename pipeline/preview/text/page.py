"""A preview of text as a self-contained HTML page: trained tokens are marked, and a packed row is a bar."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ..page import PAGE_STYLE
from .sheet import PackedRow, Passage, ShownText, TextSheet

__all__ = ["render_text_page"]

_STYLE = (
    PAGE_STYLE
    + """
section { max-width: 860px; padding: 16px 0; border-top: 1px solid var(--rule); }
h2 { margin: 0 0 6px; font-size: 13px; font-weight: 500; color: var(--grey); overflow-wrap: anywhere; }
h2 b { color: var(--ink); font-weight: 600; }
.text { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: #ffe08a; color: #1d1d1f; border-radius: 3px; padding: 1px 0; }
.bar { display: flex; height: 18px; margin: 10px 0 14px; border-radius: 6px; overflow: hidden;
  background: var(--rule); }
.bar i { display: block; border-right: 1px solid var(--paper); }
.segment { border-left: 5px solid; padding-left: 12px; margin: 0 0 14px; }
"""
)
_HUES = 137  # degrees between the colours of two segments


def render_text_page(sheet: TextSheet) -> str:
    """The texts as HTML, which refers to no other file."""
    title = escape(sheet.title)
    facts = "".join(f"<p>{escape(fact)}</p>" for fact in sheet.facts)
    if sheet.marks_trained:
        facts += "<p>A model is trained on the <mark>marked</mark> tokens.</p>"
    samples = "\n".join(
        f"<section>{_heading(one)}{_text(one.passages, marks=sheet.marks_trained)}</section>"
        for one in sheet.samples
    )
    row = "" if sheet.row is None else _packed(sheet.row, marks=sheet.marks_trained)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1>{facts}</header>\n"
        f"<main>\n{samples}\n{row}\n</main>\n</body>\n</html>\n"
    )


def _heading(one: ShownText) -> str:
    label = f", {escape(one.label)}" if one.label else ""
    return f"<h2><b>{escape(one.key)}</b> {escape(one.field)}{label}, {one.tokens:,} tokens</h2>"


def _text(passages: Iterable[Passage], *, marks: bool) -> str:
    pieces = (
        f"<mark>{escape(one.text)}</mark>" if marks and one.trained else escape(one.text) for one in passages
    )
    return f'<p class="text">{"".join(pieces)}</p>'


def _packed(row: PackedRow, *, marks: bool) -> str:
    """The row as a bar with a part for each segment, and the segments below it."""
    colors = [f"hsl({number * _HUES % 360} 60% 55%)" for number in range(len(row.segments))]
    parts = "".join(
        f'<i style="width:{100 * one.tokens / row.length:.2f}%;background:{color}" '
        f'title="{escape(one.key)}: {one.tokens} tokens"></i>'
        for one, color in zip(row.segments, colors, strict=True)
    )
    texts = "".join(
        f'<div class="segment" style="border-color:{color}">'
        f"{_heading(one)}{_text(one.passages, marks=marks)}</div>"
        for one, color in zip(row.segments, colors, strict=True)
    )
    heading = f"<h2><b>{escape(row.description)}</b></h2>"
    return f'<section>{heading}<div class="bar">{parts}</div>{texts}</section>'
