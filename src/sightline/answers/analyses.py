"""What limits an answer, what bounds each matmul of it, and which numbers of the hardware it depends on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sightline.answers import labels, summary, units
from sightline.answers import outline as out
from sightline.answers.changes import Linking, what_to_change
from sightline.answers.profile import bound_by, costs, fits, profile_outline, short_answer, timed
from sightline.content import grouped
from sightline.explanation.advice import LABELS
from sightline.explanation.answer import Advice, Explanation
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.prediction.sensitivity import Sensitivity, sensitivity_to_dict
from sightline.profile import Row
from sightline.profile.metrics import OPERATOR, metric_of
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.planning.plan_answer import NearestPlan

MOST_MODULES = 7
"""Modules that are named; the others are added up."""
_SEEN = 5e-4
"""Share of the time from which on a limit has a line."""
_MOST_OF_PHASE, _MOST_OPERATORS = 24, 40
"""Modules of a phase and operators of a module; what is left out takes the least, and is in the CSV of the command."""


def explained_outline(explanation: Explanation, *, link: Linking | None = None, search: str = "") -> out.Outline:
    """Return everything about an explanation; ``link`` and ``search`` are those of `better`."""
    about = () if explanation.answer is None else labels.subtitle(explanation.answer.scenario)
    whole = whole_name(explanation)
    limited = ", ".join(f"{one.limit} {units.seconds(one.time_s)}" for one in explanation.limits)
    label = f"what limits the {whole} of {explanation.title}: {limited}"
    own = explanation.answer
    is_unfit, advised = own is not None and own.fits is False, better(explanation, link, search=search)
    chart = out.Charts(answer=explanation, label=label, start="explained", names=("explanation",), titled=False)
    return out.Outline(
        title=explanation.title,
        about=about,
        urgent=[advised] if is_unfit else (),
        said=list(explained_answer(explanation)),
        warnings=explanation.warnings,
        # The short answer says the first sentence.
        sentences=explanation.sentences[1:],
        parts=[
            *([] if is_unfit else [advised]),
            *([chart] if explanation.limits else []),
            limits(explanation),
            out.Bars(title=f"{whole[:1].upper()}{whole[1:]} by phase", bars=phases(explanation)),
            out.Bars(title="Longest modules", bars=modules(explanation), is_folded=True),
            out.Section(
                title="Time by phase, module and operator", parts=lambda: list(_drill(explanation)), is_long=True
            ),
        ],
    )


def limits_outline(explanation: Explanation) -> out.Outline:
    """Return what limits an answer, to stand next to it."""
    return out.Outline(title="What limits it", sentences=explanation.sentences, parts=[limits(explanation)])


def better(
    explanation: Explanation, link: Linking | None = None, *, search: str = "", nearest: "Sequence[NearestPlan]" = ()
) -> out.Section:
    """Return what to change, with links where ``link`` gives the addresses of changes; what does not help is said."""
    own = explanation.answer
    is_tried = bool(explanation.scenario) and (own is None or own.task is not OPERATOR)
    found = what_to_change(own, explanation.advice, nearest, link=link, search=search, is_tried=is_tried)
    return out.Section(parts=found)


def explained_answer(explanation: Explanation) -> list[out.Said]:
    """Return the lines of the short answer."""
    own = explanation.answer
    if own is not None and explanation.source == "predicted" and explanation.whole_s:
        return list(short_answer(own))
    first = [] if own is None else fits(own)
    bound = [bound_by({one.limit: one.share for one in explanation.limits})] if explanation.limits else []
    return [*first, _fast(explanation), *bound, *([] if own is None else costs(own))]


def whole_name(explanation: Explanation) -> str:
    """Return what the explained time is called."""
    return metric_of(explanation.whole).label


def _fast(explanation: Explanation) -> out.Said:
    if not explanation.whole_s:
        is_operator = explanation.answer is not None and explanation.answer.task.name == "operator"
        says = "takes no time" if is_operator else "no request answered"
        return out.Said(asks="speed", key="speed", value=says, kind="" if is_operator else out.BAD)
    time = units.seconds(explanation.whole_s)
    return out.Said(asks="speed", key="speed", value=time, detail=f"{explanation.source} {whole_name(explanation)}")


def interval_of(explanation: Explanation) -> str:
    """Return the 80 % interval of the explained time; empty where it is not known, as of a measurement."""
    own = explanation.answer if explanation.source == "predicted" else None
    ends = "" if own is None else summary.interval_of(own, explanation.whole)
    return f"80 %: {ends}" if ends else ""


def limits(explanation: Explanation) -> out.Bars:
    """Return each limit with its seconds and share, what the whole would take if it alone held, and how far that is."""
    return out.Bars(
        title=f"What limits the {whole_name(explanation)}",
        bars=[
            out.Bar(
                one.limit,
                one.limit.replace("_", " "),
                units.seconds(one.time_s),
                one.share,
                [
                    units.seconds(one.alone_s),
                    units.seconds(None if one.alone_s is None else max(explanation.whole_s - one.alone_s, 0.0)),
                ],
            )
            for one in explanation.limits
            if one.share >= _SEEN
        ],
        headings=("limit", "time", "share", "if nothing else limited it", "distance to limit"),
    )


def phases(explanation: Explanation) -> list[out.Bar]:
    """Return the phases, in their order."""
    return list(map(timed, summary.parts(explanation.phases, explanation.phases, explanation.whole_s or 1.0)))


def modules(explanation: Explanation, most: int = MOST_MODULES) -> list[out.Bar]:
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
        out.Bar(phase, _label(phase, module), units.seconds(value), value / whole) for (phase, module), value in cut
    ]
    if rest := sum(value for _, value in ranked[len(cut) :]):
        found.append(out.Bar("", "everything else", units.seconds(rest), rest / whole))
    return found


def _label(phase: str, module: str) -> str:
    return summary.AWAITED.get(module, f"{phase.removesuffix('_exposed')}: {module}")


def _drill(explanation: Explanation) -> Iterator[out.Section]:
    """Where the time goes, to unfold: each phase, in it its modules, in these their operators."""
    whole = explanation.whole_s or 1.0
    for phase, of_phase in _grouped(explanation.rows, lambda row: row.phase):
        inside = [
            out.Section(title=_took(module, rows, whole), parts=[_operators(rows, whole)], is_folded=True)
            for module, rows in _grouped(of_phase, lambda row: row.module)[:_MOST_OF_PHASE]
        ]
        yield out.Section(title=_took(summary.LABELS.get(phase, phase), of_phase, whole), parts=inside, is_folded=True)


def _operators(rows: Sequence[Row], whole_s: float) -> out.Rows:
    found = _grouped(rows, lambda row: row.operator)[:_MOST_OPERATORS]
    cells = [
        (operator, units.seconds(took := _seconds(own)), units.percent(took / whole_s), own[0].bound or units.NOTHING)
        for operator, own in found
    ]
    return out.Rows(
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
    by = grouped((key(row), row) for row in rows if float(row.exposed_s) > 0)
    return sorted(by.items(), key=lambda item: -_seconds(item[1]))


Named = Sequence[tuple[str, RooflineTable]]
"""Tables with the names of their scenarios."""


def roofline_outline(named: Named) -> out.Outline:
    """Return which matmuls of a layer arithmetic bounds and which memory."""
    lines = list(_counts(named))
    label = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    return out.Outline(
        title="Matmuls of a layer on the roofline",
        said=lines,
        parts=[out.Charts(answer=list(named), label=label), *(_matmuls(name, table) for name, table in named)],
    )


def _counts(named: Named) -> Iterator[out.Said]:
    """Yield for each table and phase how many matmuls are bound by what."""
    for name, table in named:
        for phase in dict.fromkeys(row.phase for row in table.rows):
            bounds = [row.bound for row in table.rows if row.phase == phase]
            counts = ", ".join(f"{bounds.count(bound)} bound by {bound}" for bound in dict.fromkeys(bounds))
            says = f"{_of_device(name, table)}: {len(bounds)} matmuls, {counts}; ridge {ridges(table)} FLOP/byte"
            yield out.Said(asks=phase, says=says)


def _of_device(name: str, table: RooflineTable) -> str:
    device = table.scenario.cluster.device.name
    return name if device in name else f"{name} on {device}"


def ridges(table: RooflineTable) -> str:
    """Return the ridge of every type that the matmuls are computed in."""
    return " and ".join(units.digits(ridge) for ridge in sorted({row.ridge for row in table.rows}))


def _matmuls(name: str, table: RooflineTable) -> out.Rows:
    """A line per matmul, by phase and kind of layer."""
    several = len({row.layer for row in table.rows}) > 1
    return out.Rows(
        title=_of_device(name, table),
        headings=("phase", "matmul", "batch, m, n, k", "FLOP/byte", "bound", "roofline", "predicted"),
        rows=[
            (
                f"{row.phase}, {row.layer}" if several else row.phase,
                row.matmul,
                _shape(row),
                units.digits(row.intensity),
                row.bound,
                units.seconds(row.roofline_s),
                units.seconds(row.predicted_s),
            )
            for row in table.rows
        ],
        numbers=(False, False, False, True, False, True, True),
        labels=2,
        grouped=1,
        least=("batch, m, n, k",),
    )


def _shape(row: RooflineRow) -> str:
    """The sizes of a matmul, with the batch where there is one."""
    sizes = (row.batch, row.m, row.n, row.k) if row.batch != 1 else (row.m, row.n, row.k)
    return "x".join(f"{size:.0f}" if size >= 10 or size == int(size) else f"{size:.1f}" for size in sizes)


_NEGLIGIBLE = 0.005
"""Elasticities below this would be 0.00 in the table."""


def sensitivities_outline(found: Sequence[Sensitivity], changes: Sequence[Sequence[Advice]] = ()) -> out.Outline:
    """Return one sensitivity or several; ``changes`` are those that would help each most, best first."""
    helps = list(changes) or [()] * len(found)
    if len(found) == 1:
        return sensitivity_outline(found[0], changes=helps[0])
    names = labels.variant_labels([one.answer.scenario for one in found])
    parts = [
        out.Section(title=name, parts=[sensitivity_outline(one, f"chart{at}", changes=helps[at])])
        for at, (name, one) in enumerate(zip(names, found, strict=True))
    ]
    return out.Outline(title=f"Sensitivity of {len(found):,} scenarios", parts=parts)


def sensitivity_outline(found: Sensitivity, start: str = "chart", *, changes: Sequence[Advice] = ()) -> out.Outline:
    """Return which numbers a prediction depends on, and what other plans bring; ``start`` is that of charts' ids."""
    scenario, numbers = found.answer.scenario, _elasticities(found)
    label = "; ".join(f"{name} {', '.join(cells)}" for name, *cells in numbers[:4])
    keys = [metric_of(key).label for key in next(iter(found.elasticity.values()), {})]
    return out.Outline(
        title=f"Sensitivity of {labels.title(scenario)}",
        about=labels.subtitle(scenario),
        said=list(short_answer(found.answer)),
        sentences=summary.anchor_sentences([found.answer]),
        parts=[
            out.Charts(answer=found, label=label, start=start),
            *what_to_change(found.answer, changes),
            out.Rows(title="Effect of raising an input by 1 %, in percent", headings=("number", *keys), rows=numbers),
            _neighbours(found),
            out.Section(
                title="Full prediction",
                parts=lambda: [profile_outline(found.answer, start=f"{start}-own")],
                is_long=True,
                is_folded=True,
            ),
        ],
    )


def _elasticities(found: Sensitivity) -> list[tuple[str, ...]]:
    """A row for each number that matters, the one that matters most first."""
    largest = {name: max(map(abs, values.values()), default=0.0) for name, values in found.elasticity.items()}
    names = sorted((name for name in largest if largest[name] >= _NEGLIGIBLE), key=lambda name: -largest[name])
    return [(LABELS[name], *(f"{round(v, 2) + 0.0:+.2f}" for v in found.elasticity[name].values())) for name in names]


def _neighbours(found: Sensitivity) -> out.Rows:
    """A row for each plan that differs in one decision, the fastest first."""
    own = float(found.answer.step_time_s) if found.neighbours else 0.0
    rows = [
        (
            one["change"],
            units.seconds(one["step_time_s"]),
            percent(one["step_time_s"] / own - 1, 1, signed=True),
            units.gib(one["memory_bytes"]),
            "yes" if one["fits"] else "no",
        )
        for one in sensitivity_to_dict(found)["neighbours"]
    ]
    return out.Rows(
        title="Plans with a single change",
        headings=("plan", "step time", "change", "memory", "fits"),
        rows=rows,
        kinds={"yes": out.GOOD, "no": out.BAD},
    )
