"""The check of every result, to the bit, for the machine whose results are recorded.

python tests/golden/check.py [--record] [names]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from configurations import CONFIGURATIONS
from configurations.results import digest, summary
from configurations.sources import Sandbox

EXACT = Path(__file__).with_name("exact.json")
PORTABLE = Path(__file__).with_name("portable.json")


def results_of(name: str, sandbox: Sandbox) -> dict[str, Any]:
    """Returns the results of a configuration; what a conversion writes is not synced to the disk."""
    with mock.patch("os.fsync", return_value=None):
        return CONFIGURATIONS[name](sandbox)


def differences(digests: dict[str, str], recorded: dict[str, str]) -> list[str]:
    """Returns a line for each digest that is new, missing or different."""
    words = {(True, False): "is new", (False, True): "is missing", (True, True): "differs"}
    return [
        f"{name} {words[name in digests, name in recorded]}"
        for name in sorted(digests | recorded)
        if digests.get(name) != recorded.get(name)
    ]


def write(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON with a line for each result."""
    parts = []
    for name, results in sorted(content.items()):
        lines = [f"  {json.dumps(key)}: {json.dumps(results[key])}" for key in sorted(results)]
        parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main(arguments: list[str]) -> int:
    """Runs the configurations and returns the exit status: 1 where one differs."""
    names = [name for name in arguments if name != "--record"] or list(CONFIGURATIONS)
    record = "--record" in arguments
    exact, portable = (json.loads(path.read_text()) if path.exists() else {} for path in (EXACT, PORTABLE))
    status = 0
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        sandbox = Sandbox(Path(folder))
        for name in names:
            results = results_of(name, sandbox)
            digests = {key: digest(value) for key, value in results.items()}
            if record:
                exact[name] = digests
                summaries = {key: summary(result) for key, result in results.items()}
                portable[name] = {key: value for key, value in summaries.items() if value is not None}
                continue
            for line in differences(digests, exact.get(name, {})):
                status = 1
                print(f"{name}: {line}")
    if record:
        write(EXACT, exact)
        write(PORTABLE, {name: results for name, results in portable.items() if results})
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
