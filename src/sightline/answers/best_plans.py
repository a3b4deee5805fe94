"""A search of plans: the best ones, how sure the order is, why others lose, what was searched and what to try next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sightline.answers import outline as out
from sightline.answers import plan_columns, plan_sentences, summary, units
from sightline.answers.launched import launch_parts
from sightline.answers.profile import COST, profile_outline
from sightline.answers.profile import short_answer as of_profile
from sightline.planning.plan_answer import PlanAnswer

CAPACITY = "capacity_requests_per_s"
Commands = Sequence[tuple[str, str]]
"""What to try next: what each is for, and what to type."""
_MOST_DETAILS = 3
"""Plans shown in full; with more the page would load slowly."""


def plan_outline(
    answer: PlanAnswer,
    commands: Commands = (),
    *,
    addresses: Mapping[int, str] | None = None,
    tries: Sequence[str] = (),
) -> out.Outline:
    """Return what a search of plans found.

    Args:
        answer: Of a search.
        commands: What to try next.
        addresses: Of the page of each plan's prediction, by rank, where there are such pages.
        tries: Addresses of the searches in which each of the nearest plans is found, in place of their commands.
    """
    return out.Outline(
        title=plan_sentences.title(answer),
        about=plan_sentences.subtitle(answer),
        said=list(short_answer(answer)),
        warnings=answer.warnings,
        parts=[
            _nearest(answer, tries),
            *(_best(answer, addresses or {}) if answer.plans else []),
            out.Section(parts=lambda: _launch(answer), is_long=True),
            *_reasons(answer),
            *_searched(answer),
            out.Steps(title="Try next", steps=[out.Step(*one) for one in commands]),
            out.Section(title="The best plans", parts=lambda: list(_in_full(answer)), is_long=True),
        ],
        assumptions=plan_sentences.assumptions(answer),
        scenario=answer.plans[0].profile.scenario if answer.plans else None,
    )


def short_answer(answer: PlanAnswer) -> Iterator[out.Said]:
    """Yield the best plan and its short answer; where nothing fits, that."""
    if not answer.plans:
        yield out.Said(asks="best plan", says=plan_sentences.none_in_words(answer), kind=out.BAD)
        return
    best = answer.plans[0]
    yield out.Said(asks="best plan", says=plan_sentences.best_in_words(answer))
    if (interval := best.profile.interval.get(CAPACITY)) is not None:
        low, high = interval
        ends = units.span(float(low), None if high is None else float(high), "")
        rate = units.digits(float(best.profile.capacity_requests_per_s))
        yield out.Said(asks="capacity", says=f"up to {rate} requests per second (80 %: {ends})", kind=out.GOOD)
    first, _, others = plan_sentences.costs(answer).partition(", ")
    is_served = best.profile.task.name == "serving"
    detail = others if is_served else plan_sentences.costs(answer)
    for line in of_profile(best.profile):
        is_cost = first and line.key == COST
        yield replace(line, value=first if is_served else line.value, detail=detail) if is_cost else line
    if reasons := plan_sentences.why_it_wins(answer):
        yield out.Said(asks="rationale", says=reasons)


def _best(answer: PlanAnswer, addresses: Mapping[int, str]) -> Iterator[out.Part]:
    """The best plans, how sure their order is and what binds them, and their chart."""
    standing = (*plan_sentences.standing(answer), *plan_sentences.second(answer), *plan_sentences.binding(answer))
    yield _table(answer, addresses)
    anchors = summary.anchor_sentences([one.profile for one in answer.plans])
    marks = (*plan_sentences.obstacles(answer.plans), *plan_sentences.front(answer))
    yield out.Lines(lines=[*plan_sentences.too_long(answer), *standing, *marks, *anchors])
    yield _chart(answer)


def _table(answer: PlanAnswer, addresses: Mapping[int, str]) -> out.Rows:
    """The best plans: the choices in which they differ, then figures; each with a way to its prediction if any."""
    figures = plan_columns.figures(answer)
    told = {column.key for column in figures}
    chosen = [column for column in plan_columns.choices(answer) if column.key not in told]
    shown = [*chosen, *figures]
    headings = {column.key: column.heading for column in shown}
    names: list[out.Cell] = []
    for position, one in enumerate(answer.plans):
        rank, address = out.Valued(f"{one.rank}", one.rank), addresses.get(one.rank)
        name = out.Link(rank, address, f"plan {one.rank} in full") if address else rank
        names.append(out.Chipped(name, plan_sentences.chips(answer, position)))
    return out.Rows.of_columns(
        [out.Column(heading="plan", cells=names, is_number=False), *shown],
        title="The best plans",
        labels=1 + len(chosen),
        drops=[headings[key] for key in plan_columns.least_needed(answer) if key in headings],
        strong=[position for position, one in enumerate(answer.plans) if one.rank == 1],
    )


def _chart(answer: PlanAnswer) -> out.Charts:
    said = "; ".join(f"plan {plan_columns.name_of(answer, one)}" for one in answer.plans[:5])
    label = f"plans found: {said}"
    return out.Charts(answer=answer, label=label, names=("plans",), titled=False)


def _nearest(answer: PlanAnswer, tries: Sequence[str]) -> out.Steps:
    """Changes under which something fits; as links where there are pages of searches."""
    found = plan_sentences.nearest(answer)
    if answer.nearest and len(tries) >= len(found):
        steps = [out.Step("", link=out.Link(said, address)) for (said, _), address in zip(found, tries, strict=False)]
    else:
        steps = [out.Step(*one) for one in found]
    return out.Steps(title="Nearest plans that fit", steps=steps)


def _reasons(answer: PlanAnswer) -> Iterator[out.Rows]:
    """Why the best plan is the best, and what would be better."""
    compared = plan_sentences.compared_by(answer)
    for title, first, rows in (
        ("Best plan for each other value", "instead", plan_sentences.alternatives(answer)),
        ("Alternatives", "instead", plan_sentences.neighbours(answer)),
        ("Better, but excluded", "instead", plan_sentences.gains(answer)),
        ("Better hardware", "part", plan_sentences.hardware(answer)),
    ):
        yield out.Rows(
            title=f"{title}: {compared}",
            headings=(first, compared, ""),
            rows=rows,
            numbers=(False, True, False),
            sentences=True,
            is_folded=True,
            faint=[at for at, row in enumerate(rows) if row[1] == units.NOTHING],
        )


def _searched(answer: PlanAnswer) -> Iterator[out.Part]:
    """What was searched, and what of it was left out and why."""
    counts = [plan_sentences.searched(answer), *plan_sentences.left_out(answer), *plan_sentences.held_fixed(answer)]
    yield out.Lines(title="Search space", lines=counts)
    for title, headings, rows in (
        ("", ("exceed", "limit", ""), plan_sentences.beyond_limits(answer)),
        ("Invalid, by rule", ("invalid", "rule", ""), plan_sentences.rejections(answer)),
    ):
        yield out.Rows(title=title, headings=headings, rows=rows, numbers=(True, False, False), sentences=True)


def _launch(answer: PlanAnswer) -> list[out.Part]:
    """The command and the files that run the first plan that its framework can run; nothing where none can."""
    first = next((one for one in answer.plans if one.launchable), None)
    return [] if first is None else launch_parts(first.profile.scenario, f"Run plan {first.rank}")


def _in_full(answer: PlanAnswer) -> Iterator[out.Section]:
    for one in answer.plans[:_MOST_DETAILS]:
        full = profile_outline(one.profile, start=f"plan{one.rank}", most_charts=2, is_narrow=False)
        yield out.Section(title=f"Plan {plan_columns.name_of(answer, one)}", parts=[full], is_folded=True)
