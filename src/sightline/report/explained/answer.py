"""The answer that is read in five seconds: does it fit, how fast, what binds it, what does it cost, what to change."""

from collections.abc import Iterator

from sightline.explanation.answer import Advice, Explanation
from sightline.explanation.reasons import said
from sightline.profile import Profile
from sightline.report import summary, units
from sightline.report.pieces import BAD, GOOD, PERHAPS, Said
from sightline.report.summary import Part

MOST_MODULES = 8
WHOLE_WORDS = {"step_time_s": "step time", "latency_s": "latency", "latency_s.mean": "mean latency", "time_s": "time"}
"""What the explained time is called."""


def short_answer(explanation: Explanation) -> list[Said]:
    """Return the lines of the short answer."""
    return [*_fits(explanation), _fast(explanation), *_binds(explanation), *_costs(explanation)]


def _fits(explanation: Explanation) -> Iterator[Said]:
    own = explanation.answer
    if own is not None and own.memory_bytes:
        kind = BAD if own.fits is False else PERHAPS if own.tight else GOOD
        yield Said(asks="fits in memory", says=summary.fit_sentence(own), kind=kind)


def whole_name(explanation: Explanation) -> str:
    """Return what the explained time is called."""
    return WHOLE_WORDS.get(explanation.whole, explanation.whole)


def _fast(explanation: Explanation) -> Said:
    if not explanation.whole_s:
        return Said(asks="how fast", says="no request is answered", kind=BAD)
    time = f"{whole_name(explanation)} {units.seconds(explanation.whole_s)}"
    own = explanation.answer
    if own is None or explanation.source != "predicted":
        return Said(asks="how fast", says=f"{explanation.source} {time}")
    span = interval_of(explanation)
    span = f" ({span})" if span else ""
    rate = next((key for key in own.task.rates if own.figure(key) is not None), None)
    figures = [_rate(own, rate)] if rate else []
    figures += [f"MFU {summary.figure(own, 'mfu')}"] if "mfu" in own.task.metrics else []
    return Said(asks="how fast", says=", ".join([f"{time}{span}", *figures]))


def interval_of(explanation: Explanation) -> str:
    """Return the 80 % interval of the explained time; empty where it is not known, as of a measurement."""
    own = explanation.answer if explanation.source == "predicted" else None
    low, high = (None, None) if own is None else own.interval.get(explanation.whole, (None, None))
    if low is None or high is None:
        return ""
    return f"80 %: {units.seconds(float(low))} to {units.seconds(float(high))}"


def _rate(own: Profile, key: str) -> str:
    shown = summary.figure(own, key)
    return f"{shown} tokens/s" if own.task.figures[key].unit == "tokens/s" else shown


def _binds(explanation: Explanation) -> Iterator[Said]:
    found = [f"{one.limit} {100 * one.share:.0f} %" for one in explanation.limits if one.share >= 0.005]
    if found:
        yield Said(asks="bound by", says=", ".join(found))


def _costs(explanation: Explanation) -> Iterator[Said]:
    own = explanation.answer
    if own is None:
        return
    keys = ("cost_usd", "cost_usd_per_million_tokens", "usd_per_hour")
    key = next((key for key in keys if key in own.task.metrics and own.figure(key) is not None), None)
    if key is not None:
        yield Said(asks="what it costs", says=f"{summary.figure(own, key)} {own.task.metrics[key].label}")


def change(explanation: Explanation) -> Said:
    """Return what to change, in a few words."""
    if not explanation.advice:
        return Said(asks="what to change", says="nothing that was tried helps beyond the noise of the prediction")
    return changed(explanation.advice[0], explanation.answer)


def changed(advice: Advice, own: Profile | None) -> Said:
    """Return one change in a few words, and what it brings to the answer ``own``; None of a trace."""
    what = said(advice.set) if advice.set else advice.sentence.partition(".")[0]
    is_timed = own is None or bool(own.whole_s)
    brings = ["fits"] * (own is not None and own.fits is False) + [percent_of(advice)] * is_timed
    return Said(asks="what to change", says=f"{what}: {', '.join(brings)}", kind=GOOD)


def percent_of(advice: Advice) -> str:
    """Return the gain of a change: how much less time, or how much more."""
    return f"{100 * abs(advice.gain):.0f} % {'less' if advice.gain >= 0 else 'more'} time"


def phases(explanation: Explanation) -> list[Part]:
    """Return the phases, in their order."""
    whole = explanation.whole_s or 1.0
    return [
        Part(key=name, label=summary.LABELS.get(name, name), value=value, share=value / whole)
        for name, value in explanation.phases.items()
        if value > 0
    ]


def modules(explanation: Explanation, most: int = MOST_MODULES) -> list[Part]:
    """Return exposed seconds by phase and module, longest first; the rest added up."""
    by: dict[tuple[str, str], float] = {}
    for row in explanation.rows:
        if float(row.exposed_s) > 0 and row.phase not in ("host", "pipeline_bubble"):
            by[row.phase, row.module] = by.get((row.phase, row.module), 0.0) + float(row.exposed_s)
    ranked = sorted(by.items(), key=lambda item: -item[1])
    whole = explanation.whole_s or 1.0
    cut = ranked[: most - 1] if len(ranked) > most else ranked
    found = [
        Part(key=phase, label=f"{phase.removesuffix('_exposed')}: {module}", value=value, share=value / whole)
        for (phase, module), value in cut
    ]
    if rest := sum(value for _, value in ranked[len(cut) :]):
        found.append(Part(key="", label="everything else", value=rest, share=rest / whole))
    return found
