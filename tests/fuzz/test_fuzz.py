"""The first inputs of every target of the fuzzer; ``make fuzz`` goes on from there for minutes."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def test_damaged_files_are_read_rightly_or_refused() -> None:
    """The fuzzer runs in another process: it might die, and its memory is limited."""
    command = [sys.executable, FOLDER / "fuzz.py", "--inputs", "50", "--limit", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"(\w+): 50 inputs, (\d+) accepted, (\d+) refused", done.stdout)
    targets = [file.stem for file in FOLDER.glob("targets/**/*.py") if "\ndef make(" in file.read_text()]
    assert sorted(name for name, *_ in counts) == sorted(targets)
    useless = [name for name, *numbers in counts if "0" in numbers]
    assert useless == [], "targets that accept nothing or refuse nothing"
