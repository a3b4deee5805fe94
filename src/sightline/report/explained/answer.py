"""The answer that is read in five seconds: does it fit, how fast, what binds it, what does it cost, what to change."""

from collections.abc import Iterator, Sequence

from sightline.explanation.answer import Advice, Explanation, Limit
from sightline.explanation.limits import limits_of
from sightline.prediction.changes import said
from sightline.profile import SERVING, Profile
from sightline.profile.metrics import OPERATOR
from sightline.quantities import percent
from sightline.report import summary, units
from sightline.report.pieces import BAD, GOOD, PERHAPS, Said
from sightline.report.summary import Part

MOST_MODULES = 8
COSTS = "what it costs"
"""What the line of costs answers."""
WHOLE_WORDS = {"step_time_s": "step time", "latency_s": "latency", "latency_s.mean": "mean latency", "time_s": "time"}
"""What the explained time is called."""


def short_answer(explanation: Explanation) -> list[Said]:
    """Return the lines of the short answer."""
    own = explanation.answer
    if own is not None and explanation.source == "predicted" and explanation.whole_s:
        return list(of_profile(own))
    fits = [] if own is None else _fits(own)
    return [*fits, _fast(explanation), *_binds(explanation), *([] if own is None else _costs(own))]


def of_profile(profile: Profile) -> Iterator[Said]:
    """Yield whether a profile fits, how fast it is with its 80 % interval, what binds it and what it costs."""
    yield from _fits(profile)
    if speeds := summary.speeds(profile):
        first = next(key for key in profile.task.headline if profile.figure(key) is not None)
        span = summary.interval_of(profile, first)
        yield Said(
            asks="how fast", says=" · ".join([f"{speeds[0]} (80 %: {span})" if span else speeds[0], *speeds[1:]])
        )
    if profile.bottleneck is not None:
        yield Said(asks="bound by", says=_bounds(profile))
    yield from _costs(profile)


def _bounds(profile: Profile) -> str:
    """Shares of the time by limit; of a load in words, and of what was measured what is known."""
    limits = limits_of(profile) if profile.task is not SERVING and profile.limits and profile.whole_s else []
    return _shares(limits) or summary.bound_by(profile)


def _fits(own: Profile) -> Iterator[Said]:
    if own.memory_bytes:
        yield Said(asks="fits in memory", says=summary.fit_sentence(own), kind=class_of_fit(own))


def class_of_fit(profile: Profile) -> str:
    """Return green where memory is enough, amber where its interval says perhaps, red where it is not."""
    return BAD if profile.fits is False else PERHAPS if profile.tight else GOOD


def whole_name(explanation: Explanation) -> str:
    """Return what the explained time is called."""
    return WHOLE_WORDS.get(explanation.whole, explanation.whole)


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
    if found := _shares(explanation.limits):
        yield Said(asks="bound by", says=found)


def _shares(limits: Sequence[Limit]) -> str:
    return ", ".join(f"{one.limit} {percent(one.share)}" for one in limits if one.share >= 0.005)


def _costs(own: Profile) -> Iterator[Said]:
    is_hourly = "usd_per_hour" in own.task.metrics and not any(
        own.figure(key) for key in own.task.totals if "usd" in key
    )
    keys = (*own.task.totals, *["usd_per_hour"] * is_hourly)
    if costs := summary.figures(own, keys):
        yield Said(asks=COSTS, says=" · ".join(f"{label} {value}" for label, value in costs))


def change(explanation: Explanation) -> Said:
    """Return what to change, in a few words."""
    if not explanation.advice:
        tried = explanation.scenario
        says = (
            "no candidate change helps by more than the uncertainty of the prediction"
            if tried
            else ("no change recommended")
        )
        if explanation.answer is not None and explanation.answer.fits is False:
            says = "no candidate change makes it fit"
        elif explanation.answer is not None and explanation.answer.task is OPERATOR:
            says = "an operator has no plan to change"
        return Said(asks="recommended change", says=says)
    return changed(explanation.advice[0], explanation.answer)


def changed(advice: Advice, own: Profile | None) -> Said:
    """Return one change in a few words, and what it brings to the answer ``own``; None of a trace."""
    what = said(advice.set) if advice.set else advice.sentence.partition(".")[0]
    is_timed = own is None or bool(own.whole_s)
    brings = ["fits"] * (own is not None and own.fits is False) + [percent_of(advice)] * is_timed
    return Said(asks="recommended change", says=f"{what}: {', '.join(brings)}", kind=GOOD)


def percent_of(advice: Advice) -> str:
    """Return the gain of a change: how much less time, or how much more."""
    return f"{percent(abs(advice.gain))} {'less' if advice.gain >= 0 else 'more'} time"


def phases(explanation: Explanation) -> list[Part]:
    """Return the phases, in their order."""
    whole = explanation.whole_s or 1.0
    return [
        Part(key=name, label=summary.LABELS.get(name, name), value=value, share=value / whole)
        for name, value in explanation.phases.items()
        if value > 0
    ]


def modules(explanation: Explanation, most: int = MOST_MODULES) -> list[Part]:
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
        Part(key=phase, label=f"{phase.removesuffix('_exposed')}: {module}", value=value, share=value / whole)
        for (phase, module), value in cut
    ]
    if rest := sum(value for _, value in ranked[len(cut) :]):
        found.append(Part(key="", label="everything else", value=rest, share=rest / whole))
    return found
