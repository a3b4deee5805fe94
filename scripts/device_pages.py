"""What calibration files say, as the data tables of docs/devices: their sources, remaining errors and constants."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[str, ...]
SKIPPED = ("surface", "covered", "rows", "residuals", "surface_residuals", "sources", "evidences")
"""Keys of an entry that hold no constants."""
STATISTICS = ("rows", "median", "p90", "bias")
SOURCES = ("family", "part", "kernel", "source", "filters", "fitted", "made_again_by")
ERRORS = ("family", "part", "case", *STATISTICS)
CONSTANTS = ("family", "part", "kernel", "constant", "value")


def sources(family: str, part: str, entry: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield where each kernel's measurements come from, the part's own source first."""
    filters, fitted, command = "; ".join(entry.get("filters", ())), entry["date"], entry.get("written_by")
    for path, node in _nodes(entry, ()):
        if "source" in node:
            yield family, part, " ".join(path), node["source"], filters, fitted, command


def errors(family: str, part: str, entry: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield what each fit leaves unexplained: predicted over measured time, minus 1, as fractions."""
    for where, node in _nodes(entry, ()):
        for key, prefix in (("residuals", ""), ("surface_residuals", "with the surface, ")):
            for place, statistics in _statistics(node.get(key, {}), ()):
                yield family, part, " ".join((*where, prefix + " ".join(place))).strip(), *statistics


def constants(family: str, part: str, entry: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield every constant that was measured here, in SI units, and the knots of each residual surface."""
    borrowed = [path for path, node in _nodes(entry, ()) if _borrowed(node)]
    for path, node in _nodes(entry, ()):
        if not any(path[: len(other)] == other for other in borrowed):
            for name, value in node.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield family, part, " ".join(path), str(name), f"{value:.6g}"
        if "surface" in node:
            knots = " x ".join(str(axis[2]) for axis in node["surface"]["axes"])
            yield family, part, " ".join(path), "surface_knots", knots


def _nodes(node: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every mapping of constants with the keys that lead to it."""
    yield path, node
    for key, inner in node.items():
        if isinstance(inner, Mapping) and key not in SKIPPED:
            yield from _nodes(inner, (*path, *(() if key in {"kernels", "constants", "versions"} else (str(key),))))


def _borrowed(node: Mapping[str, Any]) -> bool:
    """Whether constants were not measured here, but estimated or taken from a relative."""
    return node.get("evidence") == "extrapolated" or "of" in node


def _statistics(node: Any, path: Path) -> Iterator[tuple[Path, list[float]]]:
    """Errors as fits state them: a mapping of fractions, or a list of rows and per cent."""
    if isinstance(node, Mapping) and "median" in node:
        yield path, [node[key] for key in STATISTICS]
    elif isinstance(node, list) and len(node) == len(STATISTICS):
        yield path, [node[0], *(round(value / 100, 6) for value in node[1:])]
    elif isinstance(node, Mapping):
        for key, inner in node.items():
            yield from _statistics(inner, (*path, str(key).replace("_", " ")))
