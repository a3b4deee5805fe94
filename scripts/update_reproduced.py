"""Reproduce the sources; write docs/accuracy/findings.csv and reproduced.json, and the figures of docs/reproducing.md.

python scripts/update_reproduced.py [SOURCE ...]
"""

import argparse
import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generated import csv_text, markdown_table, replace_part

from sightline.answers.reproduction import line_of, missed
from sightline.reproduction.outcomes import Reproduction
from sightline.reproduction.reproduce import SOURCES, reproduce

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FINDINGS, VERDICTS = (
    DOCS / "reproducing.md",
    DOCS / "accuracy" / "findings.csv",
    DOCS / "accuracy" / "reproduced.json",
)
COLUMNS = (
    "source",
    "id",
    "finding",
    "expected",
    "ours",
    "criterion",
    "reproduced",
    "interpretation",
    "holds",
    "reason",
)
SECTIONS = ("one by one", "together", "likeliest", "every", "choices")


def main() -> None:
    """Reproduce the sources and rewrite their findings and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="*", help="reproduce these sources alone")
    verdicts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    verdicts |= json.loads(VERDICTS.read_text(encoding="utf-8"))
    rows = {name: [line for line in read_findings() if line["source"] == name] for name in SOURCES}
    for name in parser.parse_args().source or SOURCES:
        answer = reproduce(name)
        rows[name] = findings(name, answer)
        verdicts["one by one"][name] = {one.finding.id: one.reproduced for one in answer.outcomes}
        verdicts["together"][name] = list(answer.together)
        verdicts["likeliest"][name] = [one.finding.id for one in answer.outcomes if one.reproduced_likeliest]
        verdicts["every"][name] = [one.finding.id for one in answer.outcomes if one.reproduced_always]
        verdicts["choices"][name] = dict(answer.choices)
    VERDICTS.write_text(json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = [line for own in rows.values() for line in own]
    FINDINGS.write_text(csv_text(COLUMNS, [list(line.values()) for line in lines]), encoding="utf-8")
    replace_part(PAGE, "summary", summary(verdicts))
    replace_part(PAGE, "missed", missed_list(lines))


def read_findings() -> list[dict[str, str]]:
    """Return the lines that the table has."""
    return list(csv.DictReader(FINDINGS.read_text(encoding="utf-8").splitlines()))


def findings(name: str, answer: Reproduction) -> list[dict[str, str]]:
    """Return a line for each finding of a source, with the reason where it is not reproduced."""
    reasons = {one.finding.id: one.reason for one in missed(answer)}
    lines = [(name, *line_of(one), reasons.get(one.finding.id, "")) for one in answer.outcomes]
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def summary(verdicts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how many findings of each source are reproduced, by what may be chosen of open settings."""
    rows = [
        [
            name,
            f"{sum(reproduced.values())} of {len(reproduced)}",
            *(f"{len(verdicts[how][name])} of {len(reproduced)}" for how in ("together", "likeliest", "every")),
        ]
        for name, reproduced in verdicts["one by one"].items()
    ]
    headings = ("source", "findings reproduced", "together", "in the likeliest interpretation", "in every one")
    return markdown_table(list(headings), rows)


def missed_list(lines: Iterable[Mapping[str, str]]) -> str:
    """Return what is not reproduced, and why."""
    missing = [line for line in lines if line["reason"]]
    return "\n".join(f"- **{one['id']}** {one['finding']} (ours {one['ours']}): {one['reason']}" for one in missing)


if __name__ == "__main__":
    main()
