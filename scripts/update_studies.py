"""Write what the page of built-in studies takes from running them: what each finds, in its own sentences.

`draw_images.py` draws their pictures.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from generated import replace_part

from sightline.exploration.answer import StudyAnswer
from sightline.exploration.explore import explore
from sightline.exploration.listed import BUILT_IN

PAGE = Path(__file__).parents[1] / "docs" / "studies.md"


def main() -> None:
    """Rewrite the generated part of each study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", nargs="*", help="rewrite these studies alone")
    for name in parser.parse_args().study or BUILT_IN:
        replace_part(PAGE, name, found(explore(name)))


def found(answer: StudyAnswer) -> str:
    """Return what a study finds and what it assumes, as two lists."""
    return f"{_listed(answer.reading)}\n\nIt assumes:\n\n{_listed(answer.assumptions)}"


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


if __name__ == "__main__":
    main()
