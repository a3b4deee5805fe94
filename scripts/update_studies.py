"""Run the built-in studies and write what they find: all of it to docs/studies.json, the first findings to the page.

`draw_images.py` draws their pictures.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from generated import replace_part

from sightline.exploration import BUILT_IN
from sightline.exploration.run import explore
from sightline.exploration.study_answer import StudyAnswer

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FINDINGS = DOCS / "studies.md", DOCS / "studies.json"
SHOWN = 2
"""Findings of a study that the page shows."""


def main() -> None:
    """Rewrite the findings of each study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", nargs="*", help="run these studies alone")
    known = json.loads(FINDINGS.read_text(encoding="utf-8"))
    for name in parser.parse_args().study or BUILT_IN:
        known[name] = findings(explore(name))
    FINDINGS.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, written in known.items():
        replace_part(PAGE, name, shown(written))


def findings(answer: StudyAnswer) -> dict[str, list[str]]:
    """Return what a study finds and what it assumes."""
    return {"findings": list(answer.reading), "assumptions": list(answer.assumptions)}


def shown(written: Mapping[str, Sequence[str]]) -> str:
    """Return the findings that the page shows, as a list."""
    return "\n".join(f"- {sentence}" for sentence in written["findings"][:SHOWN])


if __name__ == "__main__":
    main()
