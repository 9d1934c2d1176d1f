"""Goals of benchmarks, and whether a measurement reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Goal:
    """A goal and its measurement."""

    name: str  # Name of the measured quantity
    aim: float  # Value of the goal
    found: float  # Measured value
    at_most: bool = False  # Whether ``found`` should be at most ``aim``, not at least

    @property
    def met(self) -> bool:
        """Whether the measurement reaches the goal."""
        return self.found <= self.aim if self.at_most else self.found >= self.aim

    def to_json(self) -> dict[str, Any]:
        """Return all fields, and whether the goal is met."""
        return {**asdict(self), "met": self.met}


def show_goals(goals: Sequence[Goal], console: Console) -> None:
    """Print goals as a table."""
    table = Table("quantity", "goal", "found", "", title="Goals", title_justify="left")
    for goal in goals:
        sign = "at most" if goal.at_most else "at least"
        mark = "[green]met[/]" if goal.met else "[bold red]missed[/]"
        table.add_row(goal.name, f"{sign} {goal.aim:g}", f"{goal.found:.3g}", mark)
    console.print(table)
