"""What was measured: stored runs, and predictions against published and measured results."""

from collections.abc import Sequence

from sightline.notebook import pieces
from sightline.notebook.view import View
from sightline.profile.results import flatten
from sightline.quantities import percent
from sightline.report.terminal import accuracy
from sightline.report.terminal import runs as listed
from sightline.runs import Run
from sightline.validation.suite import Result


def validated(result: Result) -> View:
    """Return the errors of one part of a suite, and its cases as a chart."""
    return validation([result], with_charts=True)


def validation(results: Sequence[Result], *, with_charts: bool = False) -> View:
    """Return the errors of several parts of suites."""
    from sightline.report.charts.accuracy import validation_chart

    errors = ("mean", "median", "largest", "bias", "inside", "half-width")
    headings = ("suite", "quantity", "part", "cases", "unanswered", *errors)
    rows = [
        (
            *(one.suite, accuracy.quantity_name(one.quantity), one.split, f"{one.cases:,}", f"{one.unanswered:,}"),
            *map(_percent, (one.mape, one.median_ape, one.max_ape)),
            "-" if one.bias is None else percent(one.bias, 1, signed=True),
            *map(_percent, (one.coverage, one.half_width)),
        )
        for one in results
    ]
    numbers = [position > 2 for position in range(len(headings))]
    said = "errors of predictions relative to what was measured; inside: measurements within the 80 % interval"
    html = pieces.title("Predicted against measured") + pieces.table(headings, rows, numbers=numbers)
    charts = [validation_chart(results)] if with_charts else []
    return View(html=html + pieces.paragraphs([said], "faint"), text=accuracy.error_table(results), charts=charts)


def _percent(value: float | None) -> str:
    return accuracy.NOTHING if value is None else percent(value, 1)


def run(stored: Run) -> View:
    """Return a stored run: how it ended and its result; environment and scenario folded."""
    said = [(key, str(getattr(stored, key))) for key in ("id", "status", "reason", "suite", "created", "version")]
    result = _section("result", stored.result)
    others = "".join(_section(name, getattr(stored, name)) for name in ("environment", "scenario"))
    title = pieces.title(stored.name or stored.id)
    return View(html=title + pieces.rows_of(said) + result + others, text=listed.listing([stored]))


def _section(name: str, content: object) -> str:
    pairs = [(key, _short(value)) for key, value in flatten(content).items()]  # type: ignore[arg-type]
    return pieces.folded(name, pieces.rows_of(pairs))


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def runs(stored: Sequence[Run]) -> View:
    """Return a line for each stored run."""
    rows = [(one.id, one.status, one.reason, one.name) for one in stored]
    table = pieces.table(("run", "status", "reason", "name"), rows, numbers=False)
    return View(html=table, text=listed.listing(stored))
