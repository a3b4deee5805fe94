"""Write what docs/reproducing.md says of each source: its findings, and why some are not reproduced.

python scripts/update_reproduced.py [SOURCE ...]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generated import markdown_table, replace_part

from sightline.report.reproduced import CHOICE_HEADINGS, HEADINGS, line_of, missed, together
from sightline.reproduction.answer import Reproduction
from sightline.reproduction.reproduce import SOURCES, reproduce

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FIGURES = DOCS / "reproducing.md", DOCS / "accuracy" / "reproduced.json"


def main() -> None:
    """Reproduce the sources and rewrite their parts and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="*", help="rewrite these sources alone")
    verdicts: dict[str, dict[str, Any]] = {"one by one": {}, "together": {}, "likeliest": {}, "every": {}}
    if FIGURES.exists():
        verdicts |= json.loads(FIGURES.read_text(encoding="utf-8"))
    for name in parser.parse_args().source or SOURCES:
        answer = reproduce(name)
        replace_part(PAGE, name, findings(answer))
        verdicts["one by one"][name] = {one.finding.id: one.reproduced for one in answer.outcomes}
        verdicts["together"][name] = list(answer.together)
        verdicts["likeliest"][name] = [one.finding.id for one in answer.outcomes if one.reproduced_likeliest]
        verdicts["every"][name] = [one.finding.id for one in answer.outcomes if one.reproduced_always]
    FIGURES.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    replace_part(PAGE, "summary", summary(verdicts))


def summary(verdicts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how many findings of each source are reproduced, by what may be chosen of open settings."""
    rows = [
        [
            name,
            f"{sum(found.values())} of {len(found)}",
            *(f"{len(verdicts[how][name])} of {len(found)}" for how in ("together", "likeliest", "every")),
        ]
        for name, found in verdicts["one by one"].items()
    ]
    headings = ("source", "findings reproduced", "together", "in the likeliest interpretation", "in every one")
    return markdown_table(list(headings), rows)


def findings(answer: Reproduction) -> str:
    """Return the findings as a table, and what lies behind those that are not reproduced."""
    parts = [markdown_table(list(HEADINGS), [list(line_of(one)) for one in answer.outcomes])]
    if answer.choices:
        parts.append(f"Together, {together(answer)}:")
        parts.append(markdown_table(list(CHOICE_HEADINGS), [list(one) for one in answer.choices.items()]))
    if left := missed(answer):
        parts.append("Not reproduced:")
        parts.append(_listed([f"**{one.finding.id}**: {one.reason}" for one in left]))
    return "\n\n".join(parts)


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


if __name__ == "__main__":
    main()
