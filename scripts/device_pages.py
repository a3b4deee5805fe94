"""What a calibration file says, as Markdown: its origin, what its fit leaves unexplained, and its constants."""

from collections.abc import Iterator, Mapping
from typing import Any

from generated import markdown_table

Path = tuple[str, ...]
LEFT_OUT = ("surface", "covered", "rows", "residuals", "surface_residuals", "sources", "evidences")
"""Keys of an entry that are no constants."""
WIDE = 6
"""Constants that still fit in columns."""
FIGURES = ("rows", "median", "p90", "bias")


def part_page(part: str, entry: Mapping[str, Any]) -> str:
    """Return the section of one part of a calibration."""
    blocks = [f"## {part.replace('_', ' ').capitalize()}", _origin(entry)]
    errors = list(_errors(entry, ()))
    if errors:
        headings = ["cases", "rows", "median", "90th percentile", "bias"]
        blocks += ["Errors (predicted over measured time, minus 1):", markdown_table(headings, errors)]
    blocks += ["Constants:", *_constants(entry)]
    if borrowed := [" ".join(path) for path, node in _nodes(entry, ()) if _borrowed(node)]:
        blocks.append(f"Not measured here, so estimated from these or taken from relatives: {', '.join(borrowed)}.")
    if surfaces := [_surface(path, node) for path, node in _nodes(entry, ()) if "surface" in node]:
        blocks.append("\n".join(surfaces))
    return "\n\n".join(blocks)


def _origin(entry: Mapping[str, Any]) -> str:
    made = entry.get("written_by")
    lines = [f"- Source: {entry['source']}" if "source" in entry else "- Source: each kernel names its own"]
    lines += [f"- {' '.join(path)}: {node['source']}" for path, node in _nodes(entry, ()) if path and "source" in node]
    lines += [f"- {rule.capitalize()}" for rule in entry.get("filters", ())]
    lines.append(f"- Fitted {entry['date']}, made again by `{made}`" if made else f"- Fitted {entry['date']}")
    return "\n".join(lines)


def _nodes(node: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every mapping of constants with the keys that lead to it."""
    yield path, node
    for key, inner in node.items():
        if isinstance(inner, Mapping) and key not in LEFT_OUT:
            yield from _nodes(inner, (*path, *(() if key in {"kernels", "constants", "versions"} else (str(key),))))


def _borrowed(node: Mapping[str, Any]) -> bool:
    return node.get("evidence") == "extrapolated" or "of" in node


def _own(node: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The mappings of constants that are not borrowed."""
    borrowed = [inner for inner, found in _nodes(node, path) if _borrowed(found)]
    for inner, found in _nodes(node, path):
        if not any(inner[: len(other)] == other for other in borrowed):
            yield inner, found


def _errors(entry: Mapping[str, Any], path: Path) -> Iterator[list[str]]:
    for where, node in _nodes(entry, path):
        for key, what in (("residuals", ""), ("surface_residuals", "with the surface, ")):
            for place, figures in _statistics(node.get(key, {}), ()):
                yield [" ".join((*where, what + " ".join(place))).strip(), *figures]


def _statistics(node: Any, path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Errors as fits state them: a mapping of shares, or a list of rows and per cent."""
    if isinstance(node, Mapping) and "median" in node:
        shares = [f"{100 * node[key]:.1f} %" for key in FIGURES[1:3]]
        yield path, [f"{node['rows']:,}", *shares, f"{100 * node['bias']:+.1f} %"]
    elif isinstance(node, list) and len(node) == len(FIGURES):
        yield path, [f"{node[0]:,}", f"{node[1]:.1f} %", f"{node[2]:.1f} %", f"{node[3]:+.1f} %"]
    elif isinstance(node, Mapping):
        for key, inner in node.items():
            yield from _statistics(inner, (*path, str(key).replace("_", " ")))


def _constants(entry: Mapping[str, Any]) -> list[str]:
    """One table per set of names: constants in columns where they are few, else in rows."""
    groups: dict[tuple[str, ...], list[tuple[str, Mapping[str, float]]]] = {}
    for path, node in _own(entry, ()):
        numbers = {str(k): v for k, v in node.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        if numbers:
            groups.setdefault(tuple(sorted(numbers)), []).append((" ".join(path) or "all", numbers))
    return [_table(sets) for sets in groups.values()]


def _table(sets: list[tuple[str, Mapping[str, float]]]) -> str:
    names = list(sets[0][1])
    if len(names) <= WIDE:
        return markdown_table(["", *names], [[name, *(_value(n, v[n]) for n in names)] for name, v in sets])
    return markdown_table(["", *(n for n, _ in sets)], [[n, *(_value(n, v[n]) for _, v in sets)] for n in names])


def _value(name: str, value: float) -> str:
    return f"{value * 1e6:.3g} us" if name.endswith("_s") and value < 1e-3 else f"{value:.3g}"


def _surface(path: Path, node: Mapping[str, Any]) -> str:
    axes = " x ".join(str(axis[2]) for axis in node["surface"]["axes"])
    return f"- {' '.join(path)}: a residual surface of {axes} knots corrects the formula; it fades outside the measured range."
