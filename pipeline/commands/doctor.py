"""The command ``stoker doctor``, which says what a loader would use on this machine."""

from __future__ import annotations

from .shared.console import out, print_rows


def doctor() -> None:
    """Show what is installed and which engine a loader uses.

    Examples:
      stoker doctor
    """
    from .description.machine import examine

    findings = examine()
    print_rows([(finding.subject, finding.state) for finding in findings])
    for finding in findings:
        if finding.advice:
            out.print(f"{finding.subject}: {finding.advice}", style="yellow")
