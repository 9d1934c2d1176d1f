"""What was aimed at, beside what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

__all__ = ["Goal", "show_goals"]


@dataclass(frozen=True)
class Goal:
    """Something aimed at, and what was found.

    Attributes:
        name: In words.
        aim: What was aimed at.
        found: What was measured.
        at_most: ``found`` is to be at most ``aim``; else at least.
    """

    name: str
    aim: float
    found: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.found <= self.aim if self.at_most else self.found >= self.aim


def show_goals(goals: Sequence[Goal], console: Console) -> None:
    """Print them as a table."""
    table = Table("aimed at", "", "found", "", title="What was aimed at", title_justify="left")
    for goal in goals:
        sign = "at most" if goal.at_most else "at least"
        mark = "[green]met[/]" if goal.met else "[bold red]missed[/]"
        table.add_row(goal.name, f"{sign} {goal.aim:g}", f"{goal.found:.3g}", mark)
    console.print(table)
