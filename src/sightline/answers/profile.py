"""One profile of any task: the short answer, where its time and memory go, what would be better, what it rests on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sightline.answers import labels, summary, units
from sightline.answers import outline as out
from sightline.profile import COMMUNICATION, SERVING, Profile, overlapped_s, seconds_by_limit
from sightline.profile.metrics import STATISTICS, limits_in_words
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.planning.plan_answer import NearestPlan

_CONSTANTS_OF = {"training": "this framework on this device", "generation": "this engine", "serving": "this engine"}
"""What the constants that decide most about an interval are of."""
COSTS = "what it costs"
"""What the line of costs answers."""
BETTER = "Recommended changes"
_LEAST_SHARE = 0.005
"""Of the time, from which on a limit is named."""


def profile_outline(
    profile: Profile,
    *,
    changes: "Sequence[Advice]" = (),
    nearest: "Sequence[NearestPlan]" = (),
    first: Iterable[out.Said] = (),
    between: Sequence[out.Part] = (),
    start: str = "chart",
    most_charts: int = 8,
    is_narrow: bool = True,
) -> out.Outline:
    """Return everything about one profile.

    Args:
        profile: Of any task, predicted or measured.
        changes: What would help it most, best first; the first stands in the short answer.
        nearest: What would fit in place of a plan that does not.
        first: Lines of the short answer before its own.
        between: What stands between its key figures and its charts.
        start: Of the ids of its charts.
        most_charts: How many of its charts are shown, the ones that say most.
        is_narrow: Whether its charts have a form for narrow screens.
    """
    charts = out.Charts(answer=profile, label=label_of(profile), start=start, most=most_charts, is_narrow=is_narrow)
    return out.Outline(
        title=labels.title(profile.scenario),
        about=labels.subtitle(profile.scenario),
        said=[*first, *short_answer(profile, changes)],
        warnings=(*profile.scenario.warnings, *profile.warnings),
        parts=[
            out.Figures(figures=_figures(profile)),
            *between,
            out.Lines(lines=list(_sentences(profile, changes))),
            out.Lines(lines=_intervals(profile), kind=out.FAINT),
            *_requests(profile),
            *([charts] if most_charts else []),
            *bars_of(profile),
            out.Steps(title=BETTER, steps=[out.Step(one.sentence, one.command, percent_of(one)) for one in changes]),
            out.Steps(
                title="What would fit",
                steps=[out.Step(f"{labels.setting(one.set)}: {one.sentence}", one.command) for one in nearest],
            ),
            out.Section(parts=lambda: _details(profile), is_detail=True),
        ],
        scenario=profile.scenario,
    )


def short_answer(profile: Profile, changes: "Sequence[Advice]" = ()) -> Iterator[out.Said]:
    """Yield whether it fits, how fast it is, what binds it, what it costs and what to change."""
    yield from of_profile(profile)
    if changes:
        yield changed(changes[0], profile)
    elif profile.advice and (profile.task is SERVING or profile.memory_bytes["total"] <= profile.usable_bytes):
        yield out.Said(asks="reason", says=profile.advice[0], kind=out.BAD)
    elif profile.advice:
        from sightline.prediction.changes import largest_part

        part, size = largest_part(profile)
        yield out.Said(asks="largest part", says=f"{summary.LABELS.get(part, part)} {units.gib(size)}", kind=out.BAD)


def of_profile(profile: Profile) -> Iterator[out.Said]:
    """Yield whether a profile fits and keeps its objective, how fast it is, what binds it and what it costs."""
    yield from fits(profile)
    yield from objective(profile)
    if speeds := summary.speeds(profile, in_full=True):
        yield out.Said(asks="how fast", says=" · ".join(speeds))
    if profile.bottleneck is not None:
        yield out.Said(asks="bound by", says=_bounds(profile))
    yield from costs(profile)
    yield from rests_on(profile)


def rests_on(profile: Profile) -> Iterator[out.Said]:
    """Yield the evidence of the framework's constants, which decides most about the interval, and what it lacks."""
    is_served = profile.task is SERVING and profile.completed
    if profile.source == "predicted" and (profile.interval or is_served) and profile.task.name in _CONSTANTS_OF:
        evidence = profile.evidence.get("framework", "estimated")
        lacking = "; ".join(profile.missing.values()) or f"constants of {_CONSTANTS_OF[profile.task.name]}"
        yield out.Said(asks="evidence", says=f"{evidence}: {lacking}")


def fits(profile: Profile) -> Iterator[out.Said]:
    """Yield whether memory is enough: green where it is, amber where its interval says perhaps, else red."""
    if profile.memory_bytes:
        kind = out.BAD if profile.fits is False else out.PERHAPS if profile.tight else out.GOOD
        low, high = profile.interval.get("memory_bytes.total", (None, None))
        ends = [units.gib(float(end)) for end in (low, high) if end is not None]
        likely = f"; {percent(profile.fits_probability)} likely to fit" if profile.tight else ""
        span = f" (80 %: {ends[0].removesuffix(' GiB')} to {ends[1]}{likely})" if len(ends) > 1 else ""
        yield out.Said(asks="fits in memory", says=summary.fit_sentence(profile) + span, kind=kind)


def objective(profile: Profile) -> Iterator[out.Said]:
    """Yield whether a load keeps its objective, if it has one."""
    kept, slo = (profile.good_share, profile.scenario.workload.slo) if profile.task is SERVING else (None, None)
    if kept is not None and slo is not None:
        from sightline.simulation.results.summary import short_of_rate

        is_met, short = summary.keeps_slo(profile), short_of_rate(profile)
        share = f"{units.percent(kept)} of the requests"
        if profile.good_shares:
            at, times_s = f"p{float(slo.percentile):g}", profile.class_times_s or {}
            share = ", ".join(
                f"{units.percent(of)} of {name}"
                + (f" ({at} {limits_in_words(times_s[name])})" if times_s.get(name) else "")
                for name, of in profile.good_shares.items()
            )
        limits = "of its class" if slo.classes else f"({limits_in_words(slo.limits)})"
        yield out.Said(
            asks="objective",
            says=f"SLO {'met' if is_met else 'missed'}: {share} meet every limit {limits}, "
            f"{float(slo.percentile):g} % required{short and f'; {short}'}",
            kind=out.GOOD if is_met else out.BAD,
        )


def _bounds(profile: Profile) -> str:
    """Shares of the time by limit; of a load in words, and of what was measured what is known."""
    if profile.task is SERVING or not profile.limits or not profile.whole_s:
        return summary.bound_by(profile)
    whole_s = float(profile.whole_s)
    limits = {limit: float(seconds) / whole_s for limit, seconds in seconds_by_limit(profile).items()}
    return shares(limits) or summary.bound_by(profile)


def shares(limits: Mapping[str, float]) -> str:
    """Return limits with their shares of the time, the largest first, without those of next to nothing."""
    ranked = sorted(limits.items(), key=lambda item: -item[1])
    return ", ".join(f"{limit.replace('_', ' ')} {percent(share)}" for limit, share in ranked if share >= _LEAST_SHARE)


def costs(profile: Profile) -> Iterator[out.Said]:
    """Yield what the whole run or batch takes and costs; where that is not known the rent per hour."""
    is_hourly = "usd_per_hour" in profile.task.metrics and not any(
        profile.figure(key) for key in profile.task.totals if "usd" in key
    )
    keys = (*profile.task.totals, *["usd_per_hour"] * is_hourly)
    if known := summary.figures(profile, keys):
        yield out.Said(asks=COSTS, says=" · ".join(f"{label} {value}" for label, value in known))


def changed(advice: "Advice", profile: Profile | None) -> out.Said:
    """Return one change in a few words, and what it brings to ``profile``; None of a trace."""
    from sightline.prediction.changes import said

    what = said(advice.set) if advice.set else advice.sentence.partition(".")[0]
    is_timed = profile is None or bool(profile.whole_s)
    brings = ["fits"] * (profile is not None and profile.fits is False) + [percent_of(advice)] * is_timed
    return out.Said(asks="recommended change", says=f"{what}: {', '.join(brings)}", kind=out.GOOD)


def percent_of(advice: "Advice") -> str:
    """Return the gain of a change: how much less time, or how much more."""
    return f"{percent(abs(advice.gain))} {'less' if advice.gain >= 0 else 'more'} time"


def label_of(profile: Profile) -> str:
    """Return what a profile's chart shows, with its main figures, for readers who do not see it."""
    is_timed = profile.task is not SERVING or profile.completed
    times = [f"{part.label} {units.seconds(part.value)}" for part in (summary.phases(profile) if is_timed else ())]
    memory = (
        [f"{part.label} {units.gib(part.value)}" for part in summary.memory(profile)] if profile.memory_bytes else []
    )
    said = [f"time by phase: {', '.join(times)}"] * bool(times) + [f"memory: {', '.join(memory)}"] * bool(memory)
    return "; ".join([labels.title(profile.scenario), *said])


def bars_of(profile: Profile) -> list[out.Bars]:
    """Return the parts of the time by phase and by module, and of the fullest device's memory."""
    whole = profile.task.figures[profile.task.whole].label
    times = profile.phases and profile.whole_s and (profile.task is not SERVING or profile.completed)
    found = []
    if times:
        modules = [timed(part) for part in summary.longest_modules(profile)]
        phases = list(_phases(profile))
        found.append(out.Bars(title=f"{whole[:1].upper()}{whole[1:]} by phase", bars=phases, is_charted=True))
        found.append(out.Bars(title="Device time by module", bars=modules, is_charted=True, is_folded=True))
    if profile.memory_bytes:
        held = [out.Bar(part.key, part.label, units.gib(part.value), part.share) for part in summary.memory(profile)]
        found.append(
            out.Bars(
                title="Memory of the fullest device",
                bars=[bar._replace(key="memory_bytes") for bar in held],
                headings=("part", "bytes", "share"),
                kind="" if profile.fits else out.BAD,
                is_charted=True,
                is_folded=True,
            )
        )
    return [one for one in found if one.bars]


def _phases(profile: Profile) -> Iterator[out.Bar]:
    """The phases, and below communication what of it compute hides, which is no part of the time."""
    hidden_s = overlapped_s(profile.rows)
    for part in summary.phases(profile):
        yield timed(part)
        if part.key in COMMUNICATION and hidden_s > 0:
            share = hidden_s / float(profile.whole_s)
            yield out.Bar(out.FAINT, "overlapped communication", units.seconds(hidden_s), share)


def timed(part: summary.Part) -> out.Bar:
    """Return the bar of a part of the time."""
    return out.Bar(part.key, part.label, units.seconds(part.value), part.share)


def _sentences(profile: Profile, changes: "Sequence[Advice]") -> Iterator[str]:
    yield from summary.serving_sentences(profile)
    # The first stands in the short answer, unless a change does.
    yield from profile.advice[0 if changes else 1 :]
    if profile.fits and profile.tight:
        from sightline.prediction.changes import RUNS_OUT_LATER

        yield RUNS_OUT_LATER
    yield from summary.measured_sentences(profile)
    yield from summary.anchor_sentences([profile])


def _figures(profile: Profile) -> list[tuple[str, str]]:
    task = profile.task
    found = summary.figures(profile, (*task.headline, *task.details, *task.totals))
    return [(label, value) for label, value in found if value != units.NOTHING]


def _requests(profile: Profile) -> Iterator[out.Rows]:
    """Mean and percentiles of the times of requests, and how a load went."""
    if profile.task is not SERVING:
        return
    if profile.completed:
        rows = [
            (metric.spoken, *(units.seconds(times[name]) for name in profile.latency_s))
            for key, metric in profile.task.metrics.items()
            if metric.parts == STATISTICS and (times := getattr(profile, key)) is not None
        ]
        yield out.Rows(headings=("", *profile.latency_s), rows=rows)
    yield out.Rows.of_pairs(list(_load(profile)))


def _load(profile: Profile) -> Iterator[tuple[str, str]]:
    """How requests ended, and what the engine did meanwhile."""
    yield "requests", _ended(profile)
    talks = profile.scenario.workload.sessions
    if talks is not None and talks.requests > 1.0 and profile.completed:
        rate = units.digits(float(profile.requests_per_s) / talks.requests)
        yield "conversations", f"{rate}/s, {units.digits(talks.requests)} requests each"
    yield from summary.figures(profile, ("capacity_requests_per_s",))
    if profile.completed:
        yield from summary.figures(profile, ("queue_s", "duration_s"))
    yield from summary.figures(profile, ("transfer_s",))
    for name, pool in (profile.pools or {}).items():
        yield name, f"{pool['replicas']} x {units.percent(pool['busy'])} busy"
    if profile.prefix_hit_rate:
        yield from summary.figures(profile, ("prefix_hit_rate",))
    for name, tier in (profile.kv_tiers or {}).items():
        yield f"hits in {name}", f"{units.percent(tier['hit_rate'])}, loaded in {units.seconds(tier['load_s'])}"
    if profile.kv_use is not None:
        mean, most = (units.percent(float(profile.kv_use[key])) for key in ("mean", "max"))
        yield "KV cache", f"{mean} used on average, {most} peak"
    if profile.preemptions:
        yield "preemptions", f"{profile.preemptions:,}"


def _ended(profile: Profile) -> str:
    """How many requests ended how."""
    others = {"failed": profile.failed, **profile.refused}
    total = profile.completed + sum(others.values())
    if profile.completed == total:
        return f"{total:,} completed"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in others.items() if count)
    return f"{profile.completed:,} of {total:,} completed; {reasons}"


def _intervals(profile: Profile) -> list[str]:
    """Of a load, the 80 % intervals of its capacity and of a percentile, that of the objective if it has one."""
    if profile.task is not SERVING:
        return []
    low, high = profile.interval.get("capacity_requests_per_s", (None, None))
    found = (
        [f"80 % interval of the capacity: {units.digits(float(low))}/s to {units.digits(float(high))}/s"]
        if low and high
        else []
    )
    slo = profile.scenario.workload.slo
    name = "p90" if slo is None else f"p{float(slo.percentile):g}"
    ends = {key: summary.interval_of(profile, f"{key}.{name}") for key in profile.task.metrics}
    said = [f"{profile.task.metrics[key].spoken} {span}" for key, span in ends.items() if span]
    return [*found, f"80 % intervals of {name}: {', '.join(said)}"] if said else found


def _interval_table(profile: Profile) -> out.Rows:
    """The 80 % intervals of the mean and of every percentile of a load's times."""
    names = tuple(profile.latency_s) if profile.task is SERVING and profile.completed else ()
    spans = [
        (metric.label, *(summary.interval_of(profile, f"{key}.{name}") for name in names))
        for key, metric in profile.task.metrics.items()
        if metric.parts == STATISTICS
    ]
    rows = [row for row in spans if any(row[1:])]
    return out.Rows(title="80 % intervals of the times of requests", headings=("time", *names), rows=rows)


def _details(profile: Profile) -> list[out.Part]:
    """What everything rests on, and the tables behind the bars."""
    return [
        _interval_table(profile),
        modules_table(profile),
        *stage_tables(profile),
        evidence_part(profile),
        out.Rows.of_pairs(list(_measurement(profile)), "Measurement"),
    ]


def evidence_part(profile: Profile) -> out.Part:
    """Return what the constants of each kind of operator, and of the framework, rest on."""
    title, evidence = "Evidence of constants", profile.evidence
    if isinstance(evidence, str):
        return out.Lines(title=title, lines=[evidence] if evidence else [])
    rows = [(name, str(value)) for name, value in evidence.items()]
    return out.Rows(title=title, headings=("for", "evidence"), rows=rows, numbers=False)


def modules_table(profile: Profile) -> out.Rows:
    """Return exposed seconds by module and phase, which sum to the phases."""
    tables = summary.modules(profile)
    phases = [phase for phase in profile.task.phases if any(phase in times for _, times in tables)]
    rows = [
        (module, *(units.seconds(times[p]) if p in times else "" for p in phases), units.seconds(sum(times.values())))
        for module, times in tables
    ]
    sums = [sum(times.get(phase, 0.0) for _, times in tables) for phase in phases]
    total = [("total", *map(units.seconds, sums), units.seconds(sum(sums)))]
    heads = ("module", *(summary.LABELS.get(p, p) for p in phases), "total")
    return out.Rows(title="Time by module and phase", headings=heads, rows=[*rows, *total] if rows else [])


def stage_tables(profile: Profile) -> list[out.Rows]:
    """Return the memory of each pipeline stage by part, and by the items in the parts."""
    titles = {"parts": "Memory by pipeline stage", "items": "Memory by item and pipeline stage"}
    return [_stages(profile, title, kind) for kind, title in titles.items()]


def _stages(profile: Profile, title: str, kind: str) -> out.Rows:
    """The memory of each pipeline stage by part, or by the items in the parts."""
    stages, is_item = profile.stages, kind == "items"
    names = list(dict.fromkeys(n for stage in stages for n, v in getattr(stage, kind).items() if float(v) != 0))
    rows = [(summary.LABELS.get(n, n), *(units.gib(float(getattr(s, kind).get(n, 0))) for s in stages)) for n in names]
    if rows and not is_item:
        rows.append(("total", *(units.gib(float(stage.total)) for stage in stages)))
    headings = ("item" if is_item else "part", *(stage.stage for stage in stages))
    return out.Rows(title=title, headings=headings, rows=rows, is_folded=is_item)


def _measurement(profile: Profile) -> Iterator[tuple[str, str]]:
    from sightline.content import flatten

    for key, value in flatten(profile.measurement).items():
        if value not in (None, "", []):
            yield key, f"{value:.4g}" if isinstance(value, float) else str(value)


def ranges_outline(profile: Profile) -> out.Outline:
    """Return a profile whose numbers are arrays: the range of each figure of the headline."""
    import numpy as np

    def ends(key: str) -> str:
        values, unit = profile.figure(key), profile.task.declared(key).unit
        said = (units.shown(end(values).item(), unit) for end in (np.min, np.max))
        return " to ".join(dict.fromkeys(said))

    said: list[Any] = [
        out.Said(asks=profile.task.figures[key].label, says=ends(key))
        for key in profile.task.headline
        if profile.figure(key) is not None
    ]
    return out.Outline(title=f"{profile.source} profile of {np.size(profile.whole_s):,} plans", said=said)
