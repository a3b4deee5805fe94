"""Packages import only from packages before them, so that there is no circle and nothing climbs back up."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "sightline"
ROOMS = (
    *(
        "errors",
        "progress",
        "on_demand",
        "commands",
        "folders",
        "whole_files",
        "__version__",
        "quantities",
        "validators",
        "parquet",
        "content",
        "catalog",
        "frameworks",
        "scenario",
        "technology",
        "runs",
        "loading",
        "profile",
    ),
    *(
        "program",
        "cost",
        "prediction",
        "simulation",
        "traces",
        "anchors",
        "calibration",
        "validation",
        "launching",
        "explanation",
        "sweeps",
        "planning",
        "requirements",
        "exploration",
        "watching",
        "measurement",
        "reproduction",
        "answers",
        "charts",
        "chrome",
        "render",
        "notebook",
        "web",
        "cli",
    ),
)
"""From the ground up."""
MEASUREMENT = (
    *("hardware", "timing", "machine", "processes", "models", "modules"),
    *("operators", "generated", "training", "serving", "measure", "calibrate"),
)
"""Shelves of the measurement package, from the ground up."""
PLANNING = (
    *(
        "plan_limits",
        "plan_answer",
        "clusters",
        "generation_objectives",
        "ranking",
        "generation",
        "training",
        "rationale",
        "unfit",
    ),
    *("heterogeneous_search", "heterogeneous_training", "heterogeneous_generation", "serving", "request_spaces"),
    *("training_request", "generation_request", "search"),
)
"""Shelves of the planning package, from the ground up."""
TECHNOLOGY = ("parts", "launches", "budget", "law", "limits", "synthesis", "cost")
"""Shelves of the technology package, from the ground up."""
LOADING = (
    *("checks", "sources", "models", "clusters", "serving_plan", "plans", "lengths", "traces", "parts"),
    *(
        "training",
        "operations",
        "generation",
        "serving",
        "foreign",
        "loader",
        "question",
        "spaces",
        "written",
        "schema",
    ),
)
"""Shelves of the loading package, from the ground up."""
CLUSTERS = ("hardware", "technology", "this_machine", "cluster")
"""Shelves of the clusters that are loaded, from the ground up."""
TRACES = (
    *("events", "decoding", "files", "operator_names", "nesting", "shapes", "step_edges", "soundness"),
    *("activity", "waits", "breakdown", "findings", "job"),
)
"""Shelves of the traces that are read, from the ground up."""
WATCHING = ("readings", "expected", "detector", "stream", "screen", "replanning", "observer", "watch")
"""Shelves of the watching package, from the ground up."""
SHELVES = {
    "traces": TRACES,
    "measurement": MEASUREMENT,
    "watching": WATCHING,
    "planning": PLANNING,
    "technology": TECHNOLOGY,
    "loading": LOADING,
    "loading/clusters": CLUSTERS,
}


def _imports(path: Path, within: Path = PACKAGE) -> Iterator[str]:
    """Packages ``within`` one that a file imports, also inside functions; what only type checkers see is left out."""
    base = ".".join(within.relative_to(PACKAGE.parent).parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == base:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{base}."):
            yield str(node.module).removeprefix(f"{base}.").split(".")[0]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_before_it(room):
    below = {*ROOMS[: ROOMS.index(room)], room}
    files = [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").exists() else sorted((PACKAGE / room).rglob("*.py"))
    upward = [(path.name, name) for path in files for name in _imports(path) if name not in below]
    assert not upward


@pytest.mark.parametrize(("room", "shelf"), [(room, shelf) for room, shelves in SHELVES.items() for shelf in shelves])
def test_a_shelf_imports_only_from_shelves_before_it(room, shelf):
    place, shelves = PACKAGE / room, SHELVES[room]
    below = {*shelves[: shelves.index(shelf)], shelf}
    files = [place / f"{shelf}.py"] if (place / f"{shelf}.py").exists() else sorted((place / shelf).rglob("*.py"))
    assert not [(path.name, name) for path in files for name in _imports(path, place) if name not in below]


@pytest.mark.parametrize("room", SHELVES)
def test_every_module_of_a_room_with_shelves_has_its_place(room):
    there = {
        path.stem for path in (PACKAGE / room).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__"} <= set(SHELVES[room])


def test_every_package_has_its_place():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__", "__main__", "__version__"} <= set(ROOMS)


def test_the_table_of_packages_lists_the_rooms_in_their_order():
    page = (PACKAGE.parents[1] / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|", page.partition("## The packages")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert re.findall(r"`(\w+)`", " ".join(rows)) == [room for room in ROOMS if room != "__version__"]
