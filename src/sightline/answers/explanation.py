"""An explanation: the short answer, what limits the time and where it goes, and the changes that help most."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from sightline.answers import labels, summary, units
from sightline.answers.outline import (
    BAD,
    Bar,
    Bars,
    Charts,
    Lines,
    Link,
    Outline,
    Part,
    Rows,
    Said,
    Section,
    Step,
    Steps,
)
from sightline.answers.profile import changed, costs, fits, of_profile, percent_of, shares
from sightline.explanation.answer import Advice, Explanation
from sightline.profile import Row
from sightline.profile.metrics import OPERATOR, metric_of

MOST_MODULES = 7
"""Modules that are named; the others are added up."""
_SEEN = 5e-4
"""Share of the time from which on a limit has a line."""
_MOST_OF_PHASE, _MOST_OPERATORS = 24, 40
"""Modules of a phase and operators of a module; what is left out takes the least, and is in the CSV of the command."""
Linking = Callable[[Advice], str]
"""Returns the address that shows a change; empty for one that no address shows."""


def explained_outline(explanation: Explanation, *, link: Linking | None = None) -> Outline:
    """Return everything about an explanation; ``link`` gives the addresses of changes in place of their commands."""
    about = () if explanation.answer is None else labels.subtitle(explanation.answer.scenario)
    whole = whole_name(explanation)
    limited = ", ".join(f"{one.limit} {units.seconds(one.time_s)}" for one in explanation.limits)
    label = f"what limits the {whole} of {explanation.title}: {limited}"
    chart = Charts(answer=explanation, label=label, start="explained", names=("explanation",), titled=False)
    return Outline(
        title=explanation.title,
        about=about,
        said=[*short_answer(explanation), change(explanation)],
        warnings=explanation.warnings,
        # The short answer says the first sentence.
        sentences=explanation.sentences[1:],
        parts=[
            better(explanation, link),
            *([chart] if explanation.limits else []),
            limits(explanation),
            Bars(title=f"{whole[:1].upper()}{whole[1:]} by phase", bars=phases(explanation)),
            Bars(title="Longest modules", bars=modules(explanation), is_folded=True),
            Section(title="Time by phase, module and operator", parts=lambda: list(_drill(explanation)), is_long=True),
        ],
    )


def limits_outline(explanation: Explanation) -> Outline:
    """Return what limits an answer, to stand next to it."""
    return Outline(title="What limits it", sentences=explanation.sentences, parts=[limits(explanation)])


def better(explanation: Explanation, link: Linking | None = None) -> Part:
    """Return the changes that would help, with their commands or with links to them."""
    steps = [Step(one.sentence, one.command, percent_of(one), _link(one, link)) for one in explanation.advice]
    if link is not None and not steps:
        none = "No candidate change gains more than its uncertainty."
        return Lines(title="Recommended changes", lines=[none])
    return Steps(title="Recommended changes", steps=steps, is_ranked=True)


def _link(advice: Advice, link: Linking | None) -> Link | None:
    address = link(advice) if link else ""
    named = ", ".join(f"{key.rpartition('.')[2]}: {value}" for key, value in advice.set.items())
    return Link(f"Show it with {named}", address) if address else None


def short_answer(explanation: Explanation) -> list[Said]:
    """Return the lines of the short answer."""
    own = explanation.answer
    if own is not None and explanation.source == "predicted" and explanation.whole_s:
        return list(of_profile(own))
    first = [] if own is None else fits(own)
    return [*first, _fast(explanation), *_binds(explanation), *([] if own is None else costs(own))]


def whole_name(explanation: Explanation) -> str:
    """Return what the explained time is called."""
    return metric_of(explanation.whole).label


def _fast(explanation: Explanation) -> Said:
    if not explanation.whole_s:
        return Said(asks="how fast", says="no request answered", kind=BAD)
    time = f"{whole_name(explanation)} {units.seconds(explanation.whole_s)}"
    return Said(asks="how fast", says=f"{explanation.source} {time}")


def interval_of(explanation: Explanation) -> str:
    """Return the 80 % interval of the explained time; empty where it is not known, as of a measurement."""
    own = explanation.answer if explanation.source == "predicted" else None
    low, high = (None, None) if own is None else own.interval.get(explanation.whole, (None, None))
    if low is None or high is None:
        return ""
    return f"80 %: {units.seconds(float(low))} to {units.seconds(float(high))}"


def _binds(explanation: Explanation) -> Iterator[Said]:
    if found := shares({one.limit: one.share for one in explanation.limits}):
        yield Said(asks="bound by", says=found)


def change(explanation: Explanation) -> Said:
    """Return what to change, in a few words."""
    if not explanation.advice:
        tried = explanation.scenario
        says = (
            "no candidate change helps beyond the uncertainty of the prediction" if tried else "no change recommended"
        )
        if explanation.answer is not None and explanation.answer.fits is False:
            says = "no candidate change makes it fit"
        elif explanation.answer is not None and explanation.answer.task is OPERATOR:
            says = "an operator has no plan to change"
        return Said(asks="recommended change", says=says)
    return changed(explanation.advice[0], explanation.answer)


def limits(explanation: Explanation) -> Bars:
    """Return each limit with its seconds and share, what the whole would take if it alone held, and how far that is."""
    return Bars(
        title=f"What limits the {whole_name(explanation)}",
        bars=[
            Bar(
                one.limit,
                one.limit,
                units.seconds(one.time_s),
                one.share,
                [
                    summary.NOTHING if one.alone_s is None else units.seconds(one.alone_s),
                    summary.NOTHING
                    if one.alone_s is None
                    else units.seconds(max(explanation.whole_s - one.alone_s, 0.0)),
                ],
            )
            for one in explanation.limits
            if one.share >= _SEEN
        ],
        headings=("limit", "time", "share", "if nothing else limited it", "distance to limit"),
    )


def phases(explanation: Explanation) -> list[Bar]:
    """Return the phases, in their order."""
    whole = explanation.whole_s or 1.0
    return [
        Bar(name, summary.LABELS.get(name, name), units.seconds(value), value / whole)
        for name, value in explanation.phases.items()
        if value > 0
    ]


def modules(explanation: Explanation, most: int = MOST_MODULES) -> list[Bar]:
    """Return exposed seconds by phase and module, longest first; the rest added up.

    Modules are measured in steps of their own: where those took longer than the whole, shares are of them.
    """
    by: dict[tuple[str, str], float] = {}
    for row in explanation.rows:
        if float(row.exposed_s) > 0 and row.phase not in ("host", "pipeline_bubble"):
            by[row.phase, row.module] = by.get((row.phase, row.module), 0.0) + float(row.exposed_s)
    ranked = sorted(by.items(), key=lambda item: -item[1])
    whole = max(explanation.whole_s, sum(by.values())) or 1.0
    cut = ranked[: most - 1] if len(ranked) > most else ranked
    found = [
        Bar(phase, f"{phase.removesuffix('_exposed')}: {module}", units.seconds(value), value / whole)
        for (phase, module), value in cut
    ]
    if rest := sum(value for _, value in ranked[len(cut) :]):
        found.append(Bar("", "everything else", units.seconds(rest), rest / whole))
    return found


def _drill(explanation: Explanation) -> Iterator[Section]:
    """Where the time goes, to unfold: each phase, in it its modules, in these their operators."""
    whole = explanation.whole_s or 1.0
    for phase, of_phase in _grouped(explanation.rows, lambda row: row.phase):
        inside = [
            Section(title=_took(module, rows, whole), parts=[_operators(rows, whole)], is_folded=True)
            for module, rows in _grouped(of_phase, lambda row: row.module)[:_MOST_OF_PHASE]
        ]
        yield Section(title=_took(summary.LABELS.get(phase, phase), of_phase, whole), parts=inside, is_folded=True)


def _operators(rows: Sequence[Row], whole_s: float) -> Rows:
    found = _grouped(rows, lambda row: row.operator)[:_MOST_OPERATORS]
    cells = [
        (operator, units.seconds(took := _seconds(own)), units.percent(took / whole_s), own[0].bound or summary.NOTHING)
        for operator, own in found
    ]
    return Rows(
        title="", headings=("operator", "time", "share", "bound by"), rows=cells, numbers=(False, True, True, False)
    )


def _took(name: str, rows: Sequence[Row], whole_s: float) -> str:
    took = _seconds(rows)
    return f"{name}: {units.seconds(took)}, {units.percent(took / whole_s)}"


def _seconds(rows: Iterable[Row]) -> float:
    """What rows add to the whole."""
    return sum(float(row.exposed_s) for row in rows)


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> list[tuple[str, list[Row]]]:
    """Rows that take time by what they share, longest first."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        if float(row.exposed_s) > 0:
            by.setdefault(key(row), []).append(row)
    return sorted(by.items(), key=lambda item: -_seconds(item[1]))
