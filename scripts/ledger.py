"""The ledger of predictions: scenarios with their answers, which a change of the code must not move by accident.

    python scripts/ledger.py compare [AREA ...]   what differs from the ledger today, by area
    python scripts/ledger.py rewrite [AREA ...]   take today's answers as the ledger's, of these areas or of all
    python scripts/ledger.py list --data DIR      draw the list of scenarios anew (seeded; then frozen)

An area is the first part of a scenario's key, such as ``training/megatron``. A rewrite belongs into a commit of its own
that says why the answers moved.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import isclose, isnan
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).parents[1] / "tests" / "ledger"
SCENARIOS, ANSWERS = LEDGER / "scenarios.jsonl", LEDGER / "answers.jsonl"
TOLERANCE = 1e-6
DIGITS = 10
REFUSED = "refused"


def main() -> int:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("compare", "rewrite", "list"))
    parser.add_argument("areas", nargs="*", help="areas or their beginnings; none means all")
    parser.add_argument("--data", type=Path, help="folder with the published data sets (list)")
    asked = parser.parse_args()
    if asked.command == "list":
        from ledger_list import draw_scenarios

        write_lines(SCENARIOS, draw_scenarios(asked.data))
        return 0
    if asked.command == "rewrite":
        rewrite(asked.areas)
        return 0
    found = list(differences(asked.areas))
    print(summary(found) or "no answer differs")
    return bool(found)


def rewrite(areas: list[str]) -> None:
    """Write today's answers of ``areas`` into the ledger; those of other areas stay."""
    kept = {} if not ANSWERS.exists() else {line["key"]: line for line in read_lines(ANSWERS)}
    lines = []
    for line in read_lines(SCENARIOS):
        key = line["key"]
        if key not in kept or _asked(key, areas):
            kept[key] = {"key": key, **answer_of(line["scenario"])}
        lines.append(kept[key])
    write_lines(ANSWERS, lines)


def differences(areas: Iterable[str] = (), every: int = 1) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield key, quantity, the ledger's value and today's, for all that differ, or for ``every`` so many-th scenario."""
    known = {line.pop("key"): line for line in read_lines(ANSWERS)}
    asked = [line for line in read_lines(SCENARIOS) if _asked(line["key"], areas)]
    for line in asked[::every]:
        today = json.loads(json.dumps(answer_of(line["scenario"])))
        yield from ((line["key"], *each) for each in _different(known.get(line["key"], {}), today))


def _asked(key: str, areas: Iterable[str]) -> bool:
    return not (areas := list(areas)) or any(key.startswith(area) for area in areas)


def summary(found: list[tuple[str, str, Any, Any]]) -> str:
    """Return the differences in words: how many scenarios of each area, the most moved quantities, and examples."""
    areas: dict[str, list[tuple[str, str, Any, Any]]] = {}
    for difference in found:
        areas.setdefault(difference[0].rsplit("/", 1)[0], []).append(difference)
    lines = []
    for area, all_of in sorted(areas.items()):
        quantities = Counter(name for _, name, *_ in all_of).most_common(6)
        scenarios = len({key for key, *_ in all_of})
        lines.append(f"{area}: {scenarios} scenarios; " + ", ".join(f"{name} {n}" for name, n in quantities))
        worst = sorted(all_of, key=lambda one: -_distance(*one[2:]))[:3]
        lines += [f"    {key} {name}: {old} -> {new}" for key, name, old, new in worst]
    return "\n".join(lines)


def answer_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is held of the answer to a scenario: times, phases, memory, intervals, evidence, sums of rows."""
    import sightline as sl
    from sightline.errors import SightlineError

    try:
        asked: Any = sl.load(dict(scenario))
        profile: Any = sl.predict(asked)
    except SightlineError as refusal:
        return {REFUSED: str(refusal)}
    names: tuple[str, ...] = (
        "step_time_s",
        "ttft_s",
        "tpot_s",
        "time_s",
        "flops",
        "bytes",
        "energy_per_step_j",
        "energy_j",
    )
    names += ("model_flops", "hardware_flops", "bound", "fits")
    held: dict[str, Any] = {name: getattr(profile, name) for name in names if _has(profile, name)}
    for name in ("phases", "memory_bytes", "limits", "evidence", "interval"):
        if _has(profile, name):
            held[name] = getattr(profile, name)
    rows = getattr(profile, "rows", ())
    if len(rows):
        held["rows"] = _row_sums(rows)
    rounded: dict[str, Any] = _rounded(held)
    return rounded


def _has(profile: Any, name: str) -> bool:
    return getattr(profile, name, None) not in (None, {})


def _row_sums(rows: Iterable[Any]) -> dict[str, Any]:
    """Sums over the rows, and by phase the seconds that they run and that they add to the whole."""
    sums: dict[str, Any] = {
        "time_s": Counter(),
        "exposed_s": Counter(),
        "flops": 0.0,
        "bytes": 0.0,
        "network_bytes": 0.0,
    }
    for row in rows:
        for name in ("time_s", "exposed_s"):
            sums[name][row.phase] += float(getattr(row, name))
        for name in ("flops", "bytes", "network_bytes"):
            sums[name] += float(getattr(row, name))
    return sums


def _rounded(value: Any) -> Any:
    """Plain values, numbers to ten significant digits."""
    if isinstance(value, Mapping):
        return {str(name): _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    if isinstance(value, str | bool | None):
        return value
    if str(getattr(value, "dtype", "")) == "bool":
        return bool(value)
    return value if isinstance(value, int) else float(f"{float(value):.{DIGITS}g}")


def _different(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _different(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _different(a, b, f"{name}[{i}]")
    elif _distance(old, new) > TOLERANCE:
        yield name, old, new


def _distance(old: Any, new: Any) -> float:
    """Relative distance of two numbers; infinite between things that are no equal numbers."""
    if old == new:
        return 0.0
    if isinstance(old, int | float) and isinstance(new, int | float) and not (isnan(old) or isnan(new)):
        if isclose(old, new, rel_tol=TOLERANCE, abs_tol=1e-15):
            return 0.0
        return abs(new - old) / max(abs(old), abs(new))
    # A part that is not there takes no time and no bytes.
    return 0.0 if _is_nothing(old) and _is_nothing(new) else float("inf")


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and value == 0)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON document a line."""
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
