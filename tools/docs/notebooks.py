"""The notebooks in examples/, run cell by cell in plain Python; tests and writers of notebooks call it.

    python tools/docs/notebooks.py examples/notebooks/text.ipynb
    python tools/docs/notebooks.py examples/notebooks/text.ipynb --record

The first command compares what the cells show with the file, the second writes it there. A cell shows what
it prints, and the picture that its last line names, as in Jupyter.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import sys
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from PIL import Image

_MIME = "image/jpeg"


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell with the names of the notebook, and return its outputs as a notebook stores them."""
    body = ast.parse(source)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    value, printed = None, StringIO()
    with redirect_stdout(printed):
        exec(compile(body, "cell", "exec"), names)  # noqa: S102 - the code of our own notebooks
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - likewise
    lines = printed.getvalue().splitlines(keepends=True)
    outputs: list[dict[str, Any]] = []
    if lines:
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if isinstance(value, Image.Image):
        data = {_MIME: _jpeg(value), "text/plain": ["an image"]}
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return outputs


def _jpeg(picture: Image.Image) -> str:
    """Return an image as a small JPEG in base64."""
    picture.thumbnail((720, 720))
    file = BytesIO()
    picture.convert("RGB").save(file, "JPEG", quality=80)
    return base64.b64encode(file.getvalue()).decode()


def text_of(outputs: list[dict[str, Any]]) -> list[Any]:
    """Return outputs without the bytes of pictures, which differ between releases of Pillow."""
    return [output.get("text", list(output.get("data", ()))) for output in outputs]


def main(name: str, mode: str = "") -> None:
    """Run a notebook in its folder; exit with a message if a cell does not show what the file has."""
    path = Path(name).resolve()
    notebook = json.loads(path.read_text("utf-8"))
    os.chdir(path.parent)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            outputs = run_cell("".join(cell["source"]), names)
            if mode == "--record":
                cell["outputs"] = outputs
            elif text_of(outputs) != text_of(cell["outputs"]):
                source, shown = "".join(cell["source"]), text_of(cell["outputs"])
                sys.exit(
                    f"{source}\n\nshows {text_of(outputs)}\nand the file has {shown}; --record writes it"
                )
    if mode == "--record":
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
