"""The report of a sensitivity: which numbers a prediction depends on, and what other plans would bring."""

from collections.abc import Sequence

from sightline.explanation.answer import Advice
from sightline.prediction.results import sensitivity_to_dict
from sightline.prediction.sensitivity import Sensitivity
from sightline.quantities import percent
from sightline.report import labels, pieces, units
from sightline.report.document import document
from sightline.report.explained.why import changes_piece
from sightline.report.pages.charts import charts_piece
from sightline.report.pages.profile import profile_piece, short_answer
from sightline.report.pieces import FAINT, Piece
from sightline.report.terminal.analysis import LABELS, NEGLIGIBLE

NEIGHBOURS = ("plan", "step time", "change", "memory", "fits")


def sensitivity_page(
    found: Sequence[Sensitivity], *, command: str = "", changes: Sequence[Sequence[Advice]] = ()
) -> str:
    """Return the report of one sensitivity or of several as one page.

    Args:
        found: The sensitivities.
        command: What asked for them.
        changes: Of each the changes that would help it most, best first.
    """
    helps = list(changes) or [()] * len(found)
    if len(found) == 1:
        title = f"Sensitivity of {labels.title(found[0].answer.scenario)}"
        return document(
            title, pieces.joined(pieces.headline(title), sensitivity_piece(found[0], changes=helps[0])), command=command
        )
    title = f"Sensitivity of {len(found):,} scenarios"
    named = zip(labels.variant_labels([one.answer.scenario for one in found]), found, strict=True)
    sections = (
        pieces.section(name, sensitivity_piece(one, f"chart{position}", level=3, changes=helps[position]))
        for position, (name, one) in enumerate(named)
    )
    return document(title, pieces.joined(pieces.headline(title), *sections), command=command)


def sensitivity_piece(
    found: Sensitivity, identifier: str = "chart", *, level: int = 2, changes: Sequence[Advice] = ()
) -> Piece:
    """Return what stands on the page of a sensitivity; ``identifier`` starts the ids of its charts."""
    said = "; ".join(f"{name} {', '.join(cells)}" for name, *cells in elasticity_rows(found)[:4])
    return pieces.joined(
        pieces.paragraphs(labels.subtitle(found.answer.scenario), FAINT),
        pieces.short_answer(short_answer(found.answer, changes)),
        charts_piece(found, said, identifier),
        changes_piece(changes, level=level),
        pieces.section(
            "Effect of raising an input by 1 %, in percent",
            pieces.table(("number", *_keys(found)), elasticity_rows(found), label="elasticities"),
            level=level,
        ),
        pieces.section("Plans with a single change", _neighbours(found), level=level),
        pieces.folded("Full prediction", profile_piece(found.answer, f"{identifier}-own", level=level + 1)),
    )


def elasticity_rows(found: Sensitivity) -> list[tuple[str, ...]]:
    """Return a row for each number that matters, the one that matters most first."""
    largest = {name: max(abs(v) for v in values.values()) for name, values in found.elasticity.items()}
    names = sorted((name for name in largest if largest[name] >= NEGLIGIBLE), key=lambda name: -largest[name])
    return [(LABELS[name], *(f"{value:+.2f}" for value in found.elasticity[name].values())) for name in names]


def neighbour_rows(found: Sensitivity) -> list[tuple[str, ...]]:
    """Return a row for each plan that differs in one decision, under `NEIGHBOURS`, the fastest first."""
    own = float(found.answer.step_time_s) if found.neighbours else 0.0
    return [
        (
            one["change"],
            units.seconds(one["step_time_s"]),
            percent(one["step_time_s"] / own - 1, 1, signed=True),
            units.gib(one["memory_bytes"]),
            "yes" if one["fits"] else "no",
        )
        for one in sensitivity_to_dict(found)["neighbours"]
    ]


def _keys(found: Sensitivity) -> list[str]:
    keys = next(iter(found.elasticity.values()))
    return [key.removesuffix("_s").replace("_", " ") for key in keys]


def _neighbours(found: Sensitivity) -> str:
    rows = neighbour_rows(found)
    return pieces.table(NEIGHBOURS, rows, label="plans with a single change") if rows else ""
