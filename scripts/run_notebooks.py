"""Execute the example notebooks in place: ``run_notebooks.py [NOTEBOOK ...]``.

What is saved depends on nothing but the cells: no times of execution, no widgets, no place on this machine, and charts as
pictures, which every viewer shows.
"""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
TIMEOUT_S = 300
DURATION = re.compile(r"(evaluated [\d,]+ plans?) in [\d.,]+ (?:ns|us|µs|ms|s|min|h)\b")
"""How long a search took, which differs from run to run."""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(paths: list[Path]) -> None:
    """Execute and save each notebook."""
    for path in paths or sorted(FOLDER.glob("*.ipynb")):
        notebook = executed(path)
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def executed(path: Path) -> Any:
    """Return a notebook as it is after a run from a fresh kernel, in the folder it lies in."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    # Times of execution would differ from run to run.
    client.record_timing = False
    client.execute()
    return cleaned(notebook)


def cleaned(notebook: Any) -> Any:
    """Return a notebook without what differs from run to run."""
    notebook.metadata = nbformat.from_dict(METADATA)  # type: ignore[no-untyped-call]
    for position, cell in enumerate(notebook.cells):
        cell.id = f"cell-{position + 1:02}"
        cell.metadata = nbformat.from_dict({})  # type: ignore[no-untyped-call]
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_cleaned, cell.outputs) if output is not None]
    return notebook


def _cleaned(output: Any) -> Any:
    """An output without durations and specifications; None for a progress line, which is empty at the end."""
    if output.output_type == "stream":
        output.text = DURATION.sub(r"\1", output.text)
        return output if output.name == "stdout" else None
    if "data" not in output:
        return output
    if not any(output.data.values()):
        return None
    output.data = {kind: _text(value) for kind, value in output.data.items() if "vegalite" not in kind}
    output.metadata = {}
    return output


def _text(value: Any) -> Any:
    return DURATION.sub(r"\1", value) if isinstance(value, str) else value


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
