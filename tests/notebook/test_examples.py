"""The example notebooks: executed from a fresh kernel, they say what was committed."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MEASURES = "measure-and-explore.ipynb"


def read(path):
    return nbformat.read(path, as_version=4)


def outputs(notebook):
    return [(cell.id, output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def printed(notebook):
    return {
        cell.id: "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def kinds(notebook):
    return [(cell, sorted(output.get("data", {}))) for cell, output in outputs(notebook)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_committed_is_small_and_of_no_machine(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < 350_000
    assert not re.search(r"/home/|/root/|/tmp/|/work/|[A-Z]:\\\\", text)
    notebook = read(path)
    nbformat.validate(notebook)
    assert [cell.id for cell in notebook.cells] == [f"cell-{i + 1:02}" for i in range(len(notebook.cells))]
    assert all(not cell.metadata for cell in notebook.cells)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_failed_and_charts_are_pictures_that_need_no_script(path):
    found = outputs(read(path))
    assert {output.output_type for _, output in found} <= {"stream", "display_data", "execute_result"}
    data = [output.data for _, output in found if "data" in output]
    assert any("image/svg+xml" in one for one in data)
    assert all("<script" not in str(one) for one in data)
    assert all("vegalite" not in kind for one in data for kind in one)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_fresh_kernel_says_the_same(path):
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "scripts" / "run_notebooks.py")
    run_notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run_notebooks)
    committed, now = read(path), run_notebooks.executed(path)
    assert [cell for cell, _ in kinds(now)] == [cell for cell, _ in kinds(committed)]
    if path.name == MEASURES:
        assert {cell for cell, said in printed(now).items() if said} == {
            c for c, said in printed(committed).items() if said
        }
        return
    # What is committed is what the code says now: scripts/run_notebooks.py writes it.
    assert printed(now) == printed(committed)
    for kind in ("text/plain", "text/html"):
        said = [[output.get("data", {}).get(kind) for _, output in outputs(one)] for one in (now, committed)]
        assert said[0] == said[1]
