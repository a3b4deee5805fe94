"""What bounds each matmul of a layer, and which numbers of the hardware a prediction depends on."""

from collections.abc import Iterator, Sequence

from sightline.answers import labels, summary, units
from sightline.answers.outline import BAD, GOOD, Charts, Outline, Rows, Said, Section, Step, Steps
from sightline.answers.profile import BETTER, profile_outline, short_answer
from sightline.explanation.answer import Advice
from sightline.prediction.results import sensitivity_to_dict
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.prediction.sensitivity import Sensitivity
from sightline.profile.metrics import metric_of
from sightline.quantities import percent

Named = Sequence[tuple[str, RooflineTable]]
"""Tables with the names of their scenarios."""


def roofline_outline(named: Named) -> Outline:
    """Return which matmuls of a layer arithmetic bounds and which memory."""
    lines = list(_counts(named))
    label = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    return Outline(
        title="Matmuls of a layer on the roofline",
        said=lines,
        parts=[Charts(answer=list(named), label=label), *(_matmuls(name, table) for name, table in named)],
    )


def _counts(named: Named) -> Iterator[Said]:
    """Yield for each table and phase how many matmuls are bound by what."""
    for name, table in named:
        for phase in dict.fromkeys(row.phase for row in table.rows):
            bounds = [row.bound for row in table.rows if row.phase == phase]
            counts = ", ".join(f"{bounds.count(bound)} bound by {bound}" for bound in dict.fromkeys(bounds))
            says = f"{_of_device(name, table)}: {len(bounds)} matmuls, {counts}; ridge {ridges(table)} FLOP/byte"
            yield Said(asks=phase, says=says)


def _of_device(name: str, table: RooflineTable) -> str:
    device = table.scenario.cluster.device.name
    return name if device in name else f"{name} on {device}"


def ridges(table: RooflineTable) -> str:
    """Return the ridge of every type that the matmuls are computed in."""
    return " and ".join(units.digits(ridge) for ridge in sorted({row.ridge for row in table.rows}))


def _matmuls(name: str, table: RooflineTable) -> Rows:
    """A line per matmul, by phase and kind of layer."""
    several = len({row.layer for row in table.rows}) > 1
    return Rows(
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


LABELS = {
    "device.peak_flops": "device: peak FLOP/s",
    "device.memory_bandwidth": "device: memory bandwidth",
    "device.l2_bandwidth": "device: L2 bandwidth",
    "device.l2_bytes": "device: L2 size",
    "device.vector_flops": "device: element-wise FLOP/s",
    "intra_node.bandwidth": "links: bandwidth",
    "intra_node.latency_s": "links: latency",
    "network.bandwidth_per_node": "network: bandwidth",
    "network.latency_s": "network: latency",
}
_NEGLIGIBLE = 0.005
"""Elasticities below this would be 0.00 in the table."""


def sensitivities_outline(found: Sequence[Sensitivity], changes: Sequence[Sequence[Advice]] = ()) -> Outline:
    """Return one sensitivity or several; ``changes`` are those that would help each most, best first."""
    helps = list(changes) or [()] * len(found)
    if len(found) == 1:
        return sensitivity_outline(found[0], changes=helps[0])
    names = labels.variant_labels([one.answer.scenario for one in found])
    parts = [
        Section(title=name, parts=[sensitivity_outline(one, f"chart{at}", changes=helps[at])])
        for at, (name, one) in enumerate(zip(names, found, strict=True))
    ]
    return Outline(title=f"Sensitivity of {len(found):,} scenarios", parts=parts)


def sensitivity_outline(found: Sensitivity, start: str = "chart", *, changes: Sequence[Advice] = ()) -> Outline:
    """Return which numbers a prediction depends on, and what other plans bring; ``start`` is that of charts' ids."""
    scenario, numbers = found.answer.scenario, _elasticities(found)
    label = "; ".join(f"{name} {', '.join(cells)}" for name, *cells in numbers[:4])
    keys = [metric_of(key).label for key in next(iter(found.elasticity.values()), {})]
    return Outline(
        title=f"Sensitivity of {labels.title(scenario)}",
        about=labels.subtitle(scenario),
        said=list(short_answer(found.answer, changes)),
        sentences=summary.anchor_sentences([found.answer]),
        parts=[
            Charts(answer=found, label=label, start=start),
            Steps(title=BETTER, steps=[Step(one.sentence, one.command) for one in changes]),
            Rows(title="Effect of raising an input by 1 %, in percent", headings=("number", *keys), rows=numbers),
            _neighbours(found),
            Section(
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


def _neighbours(found: Sensitivity) -> Rows:
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
    return Rows(
        title="Plans with a single change",
        headings=("plan", "step time", "change", "memory", "fits"),
        rows=rows,
        kinds={"yes": GOOD, "no": BAD},
    )
