"""Write what docs/reproducing.md says of each source: its findings, and why some are not reproduced.

python scripts/update_reproduced.py [SOURCE ...]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generated import markdown_table, replace_part

from sightline.report.reproduced.words import HEADINGS, line_of, missed
from sightline.reproduction.answer import Reproduction
from sightline.reproduction.reproduce import SOURCES, reproduce

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FIGURES = DOCS / "reproducing.md", DOCS / "accuracy" / "reproduced.json"


def main() -> None:
    """Reproduce the sources and rewrite their parts and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="*", help="rewrite these sources alone")
    verdicts: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for name in parser.parse_args().source or SOURCES:
        answer = reproduce(name)
        replace_part(PAGE, name, findings(answer))
        verdicts[name] = {one.finding.id: one.reproduced for one in answer.outcomes}
    FIGURES.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    replace_part(PAGE, "summary", summary(verdicts))


def summary(verdicts: Mapping[str, Mapping[str, bool]]) -> str:
    """Return how many findings of each source are reproduced."""
    rows = [[name, f"{sum(found.values())} of {len(found)}"] for name, found in verdicts.items()]
    return markdown_table(["source", "findings reproduced"], rows)


def findings(answer: Reproduction) -> str:
    """Return the findings as a table, and what lies behind those that are not reproduced."""
    parts = [markdown_table(list(HEADINGS), [list(line_of(one)) for one in answer.outcomes])]
    if left := missed(answer):
        parts.append("Not reproduced:")
        parts.append(_listed([f"**{one.finding.id}**: {one.reason}" for one in left]))
    return "\n\n".join(parts)


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


if __name__ == "__main__":
    main()
