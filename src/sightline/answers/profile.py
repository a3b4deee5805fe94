"""One profile of any task: the short answer, where its time and memory go, what would be better, what it rests on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sightline.answers import labels, summary, units
from sightline.answers import outline as out
from sightline.answers.changes import what_to_change
from sightline.prediction.changes import RUNS_OUT_LATER, largest_part
from sightline.profile import COMMUNICATION, SERVING, Profile, overlapped_s, seconds_by_limit
from sightline.profile.metrics import STATISTICS, limits_in_words
from sightline.quantities import Number, percent, relative

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.planning.plan_answer import NearestPlan

COST = "cost"
"""The key of the card of costs."""
_LEAST_SHARE = 0.005
"""Of the time, from which on a limit is named."""
_LIMITS = {"memory": "memory bandwidth"}
"""Names of limits that are not their keys."""
_SAME = 1e-3
"""Below it a difference to a baseline is none."""


def profile_outline(
    profile: Profile,
    *,
    baseline: Profile | None = None,
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
        baseline: What the short answer says its differences to.
        changes: What would help it most, best first.
        nearest: What would fit in place of a plan that does not.
        first: Lines of the short answer before its own.
        between: What stands between its key figures and its charts.
        start: Of the ids of its charts.
        most_charts: How many of its charts are shown, the ones that say most.
        is_narrow: Whether its charts have a form for narrow screens.
    """
    advised = what_to_change(profile, changes, nearest)
    charts = out.Charts(answer=profile, label=label_of(profile), start=start, most=most_charts, is_narrow=is_narrow)
    return out.Outline(
        title=labels.title(profile.scenario),
        about=labels.subtitle(profile.scenario),
        urgent=advised if profile.fits is False else (),
        said=[*first, *short_answer(profile, baseline)],
        warnings=(*profile.scenario.warnings, *profile.warnings),
        parts=[
            *(() if profile.fits is False else advised),
            *between,
            out.Lines(lines=list(_sentences(profile, is_advised=bool(advised)))),
            *_requests(profile),
            *([charts] if most_charts else []),
            *bars_of(profile),
            out.Section(parts=lambda: _details(profile), is_detail=True),
        ],
        scenario=profile.scenario,
    )


def short_answer(profile: Profile, baseline: Profile | None = None) -> Iterator[out.Said]:
    """Yield whether it fits, how fast it is, what binds it, what it costs, and what that rests on.

    The first four are cards, which say how they differ from a ``baseline`` of the same task. What a plan that does not
    fit would reach is faint.
    """
    baseline = baseline if baseline is not None and baseline.task is profile.task else None
    for line in (line for card in (fits, _speed, _bound, costs) for line in card(profile, baseline)):
        is_idle = profile.fits is False and line.key != "fits"
        detail = "if it fitted" + f" · {line.detail}" * bool(line.detail)
        yield replace(line, detail=detail, kind=out.FAINT) if is_idle else line
    yield from objective(profile)
    yield from rests_on(profile)
    if profile.advice and (profile.task is SERVING or summary.memory_needed(profile)[0] <= profile.usable_bytes):
        yield out.Said(asks="reason", says=profile.advice[0], kind=out.BAD)


def rests_on(profile: Profile) -> Iterator[out.Said]:
    """Yield the evidence of the framework's constants, which decides most about the interval, and what it lacks."""
    is_served = profile.task is SERVING and profile.completed
    if profile.source == "predicted" and (profile.interval or is_served) and profile.task.name in summary.CONSTANTS_OF:
        evidence = profile.evidence.get("framework", "estimated")
        lacking = "; ".join(profile.missing.values()) or f"constants of {summary.CONSTANTS_OF[profile.task.name]}"
        yield out.Said(asks="evidence", says=f"{evidence}: {lacking}")


def fits(profile: Profile, baseline: Profile | None = None) -> Iterator[out.Said]:
    """Yield whether memory is enough: green where it is, amber where its interval says perhaps, else red."""
    if not profile.memory_bytes:
        return
    (needed, cache), usable = summary.memory_needed(profile), float(profile.usable_bytes)
    if not needed:
        yield out.Said(asks="fits", key="fits", value="not known", detail="device memory was not measured")
        return
    low, high = profile.interval.get("memory_bytes.total", (None, None))
    likely = f"; {percent(profile.fits_probability)} likely to fit" if profile.tight else ""
    span = f" (80 %: {_gib(low)} to {units.gib(float(high))}{likely})" if low and high else ""
    details = [f"{_gib(needed)} of {units.gib(usable)}{span}"]
    parts = [out.Bar("memory_bytes", "needed", units.gib(needed), needed / usable)]
    if not profile.fits:
        part, size = largest_part(profile)
        largest = f"largest part {summary.LABELS.get(part, part)}, {units.gib(size)}"
        details = [f"needs {summary.times_of_memory(profile)}: {details[0]}", largest]
    elif cache:
        parts.append(out.Bar("kv_cache", "KV cache", units.gib(cache), cache / usable))
        details.append(f"{units.gib(cache)} left for the KV cache")
    yield out.Said(
        asks="fits",
        key="fits",
        value="no" if not profile.fits else "tight" if profile.tight else "yes",
        kind=out.BAD if not profile.fits else out.PERHAPS if profile.tight else out.GOOD,
        detail=" · ".join(details),
        bar=parts,
        **_against(baseline, profile, lambda one: summary.memory_needed(one)[0], "less memory", "more memory"),
    )


def _gib(size: Number) -> str:
    return units.gib(float(size)).removesuffix(" GiB")


def _against(
    baseline: Profile | None,
    own: Profile,
    measure: Callable[[Profile], Any],
    less: str = "faster",
    more: str = "slower",
) -> dict[str, Any]:
    """The difference of a figure of which less is better to that of a baseline."""
    before, now = (None if one is None else measure(one) for one in (baseline, own))
    if not before or not now:
        return {}
    if abs(now / before - 1.0) < _SAME:
        return {"change": "as the baseline"}
    said = f"{relative(now / before, less, more)} than the baseline"
    return {"change": said, "change_kind": out.GOOD if now < before else out.BAD}


def _speed(profile: Profile, baseline: Profile | None) -> Iterator[out.Said]:
    said = summary.speed(profile) if profile.task is not SERVING or profile.completed else {}
    if not said:
        yield out.Said(asks="speed", key="speed", value="no request answered", kind=out.BAD)
        return
    main, *_ = said
    timed_key = next((key for key in said if "(80 %" in said[key]), None)
    whisker = None
    if timed_key is not None:
        low, high = profile.interval[timed_key]
        label = f"80 % interval of the {profile.task.declared(timed_key).spoken}: {said[timed_key]}"
        whisker = out.Whisker(
            float(low), float(profile.figure(timed_key)), None if high is None else float(high), label
        )
    yield out.Said(
        asks="speed",
        key="speed",
        value=said[main].removeprefix("time "),
        detail=" · ".join(list(said.values())[1:]),
        whisker=whisker,
        # A rate counts as the time of a token.
        **_against(
            baseline, profile, lambda one: one.figure(main) and one.figure(main) ** (1 if main == "time_s" else -1)
        ),
    )


def _bound(profile: Profile, baseline: Profile | None) -> Iterator[out.Said]:
    if profile.bottleneck is not None:
        said, *before = (
            bound_by(seconds_by_limit(one), summary.bound_by(one)) for one in (profile, baseline) if one is not None
        )
        others = [f"baseline: {one.value}" for one in before if one.value != said.value]
        yield replace(said, change="".join(others))


def bound_by(limits: Mapping[str, Number], otherwise: str = "") -> out.Said:
    """Return the card of what binds, by seconds or shares of limits: largest first, without those that hardly do."""
    whole = float(sum(limits.values())) or 1.0
    shares = sorted(((of, float(size) / whole) for of, size in limits.items()), key=lambda one: -one[1])
    parts = [
        out.Bar(of, _LIMITS.get(of, of.replace("_", " ")), percent(share), share)
        for of, share in shares
        if share >= _LEAST_SHARE
    ]
    said = [f"{part.label} {part.value}" for part in parts] or [otherwise]
    return out.Said(asks="bound by", key="bound", value=said[0], detail=", ".join(said[1:]), bar=parts)


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
            f"{float(slo.percentile):g} % required{short and f'; {short}'}; "
            f"goodput {summary.figure(profile, 'goodput_requests_per_s')}",
            kind=out.GOOD if is_met else out.BAD,
        )


def costs(profile: Profile, baseline: Profile | None = None) -> Iterator[out.Said]:
    """Yield what a million tokens cost, and the whole run, or where that is not known the rent per hour."""
    if "usd_per_hour" not in profile.task.metrics or (profile.task is SERVING and not profile.completed):
        return
    usd, run_s = summary.usd_per_million(profile), getattr(profile, "run_time_s", None)
    details = [f"{summary.figure(profile, 'usd_per_hour')} per hour"] if usd else ["set cluster.device.price for costs"]
    if run_s is not None:
        rent = [summary.figure(profile, "cost_usd")] if usd else []
        run = ", ".join([units.seconds(float(run_s)), *rent])
        details.insert(0, f"{summary.figure(profile, 'total_tokens')} in {run}")
    yield out.Said(
        asks="cost",
        key=COST,
        value=f"{units.money(usd)} per million tokens" if usd else "no price",
        detail=" · ".join(details),
        **_against(baseline, profile, summary.usd_per_million, "cheaper", "more expensive"),
    )


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


def _sentences(profile: Profile, *, is_advised: bool) -> Iterator[str]:
    yield from summary.serving_sentences(profile)
    # The first stands in the short answer.
    yield from () if is_advised else profile.advice[1:]
    if profile.fits and profile.tight:
        yield RUNS_OUT_LATER
    yield from summary.measured_sentences(profile)
    yield from summary.anchor_sentences([profile])


def figures_table(profile: Profile) -> out.Rows:
    """Return every figure that no card shows, with its 80 % interval."""
    task, costs = profile.task, ("cost_usd_per_million_tokens", "total_tokens", "run_time_s", "cost_usd")
    shown = {*summary.speed(profile), *costs}
    keys = [key for key in dict.fromkeys((*task.headline, *task.details, *task.totals)) if key not in shown]
    rows = [
        (task.declared(key).spoken, value, summary.interval_of(profile, key), task.declared(key).meaning)
        for key in keys
        if (value := summary.figure(profile, key)) != units.NOTHING
    ]
    headings, numbers = ("figure", "value", "80 %", "meaning"), (False, True, True, False)
    return out.Rows(title="All figures", headings=headings, rows=rows, numbers=numbers, is_folded=True)


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
        figures_table(profile),
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
