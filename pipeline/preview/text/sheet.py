"""What a preview of text shows: samples in pieces, and a packed row."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PackedRow", "Passage", "ShownText", "TextSheet"]


@dataclass(frozen=True)
class Passage:
    """A piece of a text.

    Attributes:
        text: The piece.
        trained: Whether a model is trained on it.
        tokens: Its number of tokens.
    """

    text: str
    trained: bool
    tokens: int


@dataclass(frozen=True)
class ShownText:
    """A field of a sample.

    Attributes:
        key: Name of the sample.
        field: Name of the field.
        label: Name or number of the class; empty if there is none.
        passages: The text in pieces.
    """

    key: str
    field: str
    label: str
    passages: tuple[Passage, ...]

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return sum(one.tokens for one in self.passages)


@dataclass(frozen=True)
class PackedRow:
    """A packed row of an epoch.

    Attributes:
        length: Tokens that the row holds.
        segments: Its sequences, in their order.
    """

    length: int
    segments: tuple[ShownText, ...]

    @property
    def description(self) -> str:
        """Its segments and its fill, in words."""
        filled = sum(one.tokens for one in self.segments)
        return (
            f"a packed row of {self.length:,} tokens: {len(self.segments)} segments, "
            f"{filled / self.length:.1%} filled"
        )


@dataclass(frozen=True)
class TextSheet:
    """What a preview of text shows.

    Attributes:
        title: Name of the dataset.
        facts: Lines below the title.
        samples: Fields of samples.
        row: A packed row; None without packing.
        marks_trained: Whether only some tokens are trained.
    """

    title: str
    facts: tuple[str, ...]
    samples: tuple[ShownText, ...]
    row: PackedRow | None
    marks_trained: bool
