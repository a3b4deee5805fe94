"""What people read of a profile's figures, phases, modules and memory, as texts with units."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.answers import units
from sightline.answers.outline import Column
from sightline.answers.units import NOTHING
from sightline.content import flatten, grouped, sums
from sightline.profile import COMMUNICATION, IDLE_PHASES, MEMORY_PARTS, REFERENCE, SERVING, Profile
from sightline.profile.results import answer_to_dict
from sightline.quantities import percent

LABELS = {
    "communication_exposed": "exposed communication",
    "pipeline_bubble": "pipeline bubble",
    "kv_cache": "KV cache",
}
"""Names of phases and memory parts for people, where they differ from the key."""

_HEADINGS = {"memory": "memory GiB", "bottleneck": "bound by", "interval": "80 %"}
"""Of columns that are no metrics, where they differ from the key."""
CONSTANTS_OF = {"training": "this framework on this device", "generation": "this engine", "serving": "this engine"}
"""What the constants that decide most about an interval are of."""
AWAITED = {"samples": "wait for longest samples", "devices": "wait for slowest device"}
"""What ranks wait for in the exposed communication that sends nothing, by module."""
_MOST_MODULES, _MOST_OF_TRAINING, _MANY_PHASES = 7, 4, 6
_PASSES = {"forward": "forward", "backward": "forward", "recompute": "forward"}
"""Phases of training in which the same modules run, by the one that stands for them."""


WORDS = ("fits", "bottleneck", "evidence")
"""Columns of words, by key."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One part of a whole: its key, its name for people, its size and its share."""

    key: str
    label: str
    value: float
    share: float


def figure(profile: Profile, key: str) -> str:
    """Return a metric with its unit; a dash for one that is unknown or zero."""
    value = profile.figure(key)
    return units.shown(value, profile.task.declared(key).unit) if value else NOTHING


def figures(profile: Profile, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return label and value of the metrics that are known."""
    metrics = profile.task.figures
    return [(metrics[key].label, figure(profile, key)) for key in keys if profile.figure(key) is not None]


def bound_by(profile: Profile) -> str:
    """Return what bounds the time; of a load in words that nobody takes for the size of the memory."""
    if profile.task.name != "serving" or profile.bottleneck is None:
        return NOTHING if profile.bottleneck is None else str(profile.bottleneck)
    from sightline.simulation.results.iterations import in_words

    return in_words(profile.bottleneck)


def serving_sentences(profile: Profile) -> Iterator[str]:
    """Yield what limits a served load, and how many replicas autoscaling had."""
    if profile.task.name != "serving":
        return
    if profile.limited_by:
        yield f"{profile.limited_by[:1].upper()}{profile.limited_by[1:]}."
    if said := _replicas_sentence(profile):
        yield f"{said}."


def _replicas_sentence(profile: Profile) -> str:
    """Return how many replicas an autoscaled server had; empty for others."""
    found = profile.replicas
    if not found:
        return ""
    fewest, most = f"{found['min']:.0f}", f"{found['max']:.0f}"
    between = most if fewest == most else f"{fewest} to {most}"
    noun = "replica" if between == "1" else "replicas"
    return (
        f"Autoscaling used {between} {noun}, {found['mean']:.3g} on average: {profile.replica_s:,.0f} replica-seconds"
    )


def speeds(profile: Profile) -> list[str]:
    """Return the task's headline as phrases."""
    return [_phrase(profile, key) for key in profile.task.headline if profile.figure(key) is not None]


_SPEED = {
    "training": ("tokens_per_s", "step_time_s", "mfu"),
    "generation": ("output_tokens_per_s", "latency_s", "ttft_s", "tpot_s"),
    "serving": ("output_tokens_per_s", "requests_per_s", "ttft_s.p90", "tpot_s.p90"),
    "operator": ("time_s", "flops_per_s", "bytes_per_s"),
}
"""How fast it is, by task: what is read first, and what goes with it."""


def speed(profile: Profile) -> dict[str, str]:
    """Return these figures as phrases, times with their 80 % intervals; percentiles are those of the objective."""
    promised, found = promised_percentile([profile]), {}
    for key in (key.replace(".p90", f".{promised}") for key in _SPEED[profile.task.name]):
        if profile.figure(key) is not None:
            span = interval_of(profile, key) if profile.task.declared(key).unit == "s" else ""
            found[key] = _phrase(profile, key) + (f" (80 %: {span})" if span else "")
    return found


def _phrase(profile: Profile, key: str) -> str:
    """A figure with its unit and name."""
    metric, shown = profile.task.declared(key), figure(profile, key)
    if metric.label == metric.unit:
        return shown if shown.endswith(metric.unit) else f"{shown.removesuffix('/s')} {metric.unit}"
    return f"{metric.label.removesuffix(' time')} {shown}"


def usd_per_million(profile: Profile) -> float | None:
    """Return the rent per million tokens that are trained or generated; None where it is not known."""
    if "cost_usd_per_million_tokens" in profile.task.metrics:
        usd = profile.cost_usd_per_million_tokens
    else:
        usd = None if profile.usd_per_hour is None else profile.usd_per_hour / 3600 / profile.tokens_per_s * 1e6
    return None if usd is None else float(usd)


def in_a_line(profile: Profile) -> str:
    """Return the headline as one line of a chart's subtitle."""
    return " · ".join([*speeds(profile), f"bound by {bound_by(profile)}", f"fits: {profile.fit}"])


def compared(profiles: Sequence[Profile]) -> list[Column]:
    """Return the columns of a table with one line per scenario, without those that say nothing of any."""
    task = profiles[0].task
    is_run = all(p.measurement and not p.memory_bytes for p in profiles)
    headings = {**_HEADINGS, "bottleneck": "made by"} if is_run else _HEADINGS
    promised = promised_percentile(profiles)
    found = (
        Column(
            key=key,
            heading=headings.get(key) or (key if key in WORDS else task.declared(key).short),
            cells=[_cell(profile, key) for profile in profiles],
            is_number=key not in WORDS,
        )
        for key in (key.replace(".p90", f".{promised}") for key in task.compared)
    )
    return [column for column in found if {*column.cells} != {NOTHING}]


def promised_percentile(profiles: Sequence[Profile]) -> str:
    """Return the percentile that the objective of all loads is about; p90 where there is none, or loads differ."""
    objectives = [getattr(profile.scenario.workload, "slo", None) for profile in profiles]
    promised = {"p90" if one is None else f"p{float(one.percentile):g}" for one in objectives}
    return promised.pop() if len(promised) == 1 else "p90"


def _cell(profile: Profile, key: str) -> str:
    match key:
        case "fits":
            return profile.fit
        case "memory":
            return units.gib(float(profile.memory_bytes["total"])).removesuffix(" GiB")
        case "interval":
            return spread(profile)
        case "evidence" if profile.memory_bytes:
            return str(profile.evidence.get("framework", NOTHING)) if profile.source == "predicted" else NOTHING
        case "bottleneck" | "evidence":
            how = {} if profile.memory_bytes else profile.measurement
            words = {"bottleneck": how["implementation"], "evidence": f"{how['repeats']} repeats"} if how else {}
            return str(words.get(key) or getattr(profile, key) or NOTHING)
        case _:
            # Without what its heading says already: 709 T in a column of FLOP/s.
            said = {"FLOP/s": "FLOP/s", "B/s": "B/s", "requests/s": "/s"}.get(profile.task.declared(key).unit, "")
            return figure(profile, key).removesuffix(said)


def spread(profile: Profile) -> str:
    """The interval's upper end over the time, less one; a dash without an interval."""
    _, high = profile.interval.get(profile.task.whole, (0.0, 0.0))
    return f"± {percent(float(high) / float(profile.whole_s) - 1)}" if high and profile.whole_s else NOTHING


def best(profiles: Sequence[Profile]) -> list[bool]:
    """Return which of several profiles that fit has most of what its task counts as best."""
    key = profiles[0].task.best
    rates = [float(p.figure(key) or -1.0) if p.fits and key else -1.0 for p in profiles]
    return [rate == max(rates) and rate > 0 for rate in rates]


def keeps_slo(profile: Profile) -> bool:
    """Return whether a load is served at its rate and keeps its objective; true without one."""
    # The other tasks need nothing of the simulator.
    from sightline.simulation.results.summary import keeps_slo as keeps

    return keeps(profile)


def phases(profile: Profile) -> list[Part]:
    """Return the phases that take any time, in the order they are declared."""
    return parts(profile.task.phases, profile.phases, float(profile.whole_s))


def memory(profile: Profile) -> list[Part]:
    """Return the parts of the fullest device's memory that hold anything."""
    names = (*MEMORY_PARTS[:1], REFERENCE, *MEMORY_PARTS[1:])
    return parts(names, profile.memory_bytes, float(profile.scenario.cluster.device.memory_bytes))


def modules(profile: Profile) -> list[tuple[str, dict[str, float]]]:
    """Return exposed seconds by module and phase, the module that takes longest first."""
    rows = grouped((row.module, (row.phase, float(row.exposed_s))) for row in profile.rows)
    ranked = sorted(((module, sums(of)) for module, of in rows.items()), key=lambda item: -sum(item[1].values()))
    return [(module, times) for module, times in ranked if sum(times.values()) > 0]


def longest_modules(profile: Profile) -> list[Part]:
    """Return device time by module, longest first; of very many the rest is added up, communication apart.

    Passes of a training step are added up; what is not computed in a pass, such as collectives, and the passes of
    generation have the phase in front.
    """
    times = sums(
        ((_PASSES.get(phase, phase), module), seconds)
        for module, by_phase in modules(profile)
        for phase, seconds in by_phase.items()
        if phase not in IDLE_PHASES
    )
    ranked = sorted(((key, s) for key, s in times.items() if s > 0), key=lambda item: -item[1])
    # So few that a prediction stays one screen.
    of_training = _MOST_OF_TRAINING - (len(phases(profile)) > _MANY_PHASES)
    shown = ranked[: of_training if profile.task.name == "training" else _MOST_MODULES]
    rest = ranked[len(shown) :]
    whole = float(profile.whole_s)
    found = [Part(key=p, label=_module_label(p, m), value=s, share=s / whole) for (p, m), s in shown]
    is_named = any(part.key in COMMUNICATION for part in found)
    communication = "other communication" if is_named else LABELS[COMMUNICATION[0]]
    for phase, label in (("", "other modules"), (COMMUNICATION[0], communication)):
        others = [one for one in rest if (one[0][0] in COMMUNICATION) == bool(phase)]
        names = {_module_label(*address) for address, _ in others}
        other = sum(s for _, s in others)
        if others:
            found.append(
                Part(key=phase, label=names.pop() if len(names) == 1 else label, value=other, share=other / whole)
            )
    return found


def _module_label(phase: str, module: str) -> str:
    named = phase.removesuffix("_exposed")
    if module in AWAITED:
        return AWAITED[module]
    return module if phase in _PASSES or named == module else f"{named}: {module}"


def anchor_sentences(profiles: Sequence[Profile]) -> list[str]:
    """Return what own runs taught, a sentence for each of them."""
    found = (f"anchored to {one['from']}: {one['sentence']}" for profile in profiles for one in profile.anchor)
    return list(dict.fromkeys(found))


def memory_needed(profile: Profile) -> tuple[float, float]:
    """Return what the fullest device needs, and what an engine that serves gives its KV cache: all that is left."""
    cache = float(profile.memory_bytes.get("kv_cache", 0.0)) if profile.task is SERVING else 0.0
    return float(profile.memory_bytes["total"]) - cache, cache


def times_of_memory(profile: Profile) -> str:
    """Return how much a plan that does not fit needs of what its devices have."""
    times = memory_needed(profile)[0] / float(profile.usable_bytes)
    if times <= 1.0:
        return "more than what is left" if profile.host_fits else "more host memory for its offloaded state"
    return f"{units.digits(times, 2 if times < 100 else 3)} x the memory of these devices"


def parts(keys: Iterable[str], values: Mapping[str, Any], whole: float) -> list[Part]:
    """Return the parts of ``whole`` that are more than nothing, in the order of ``keys``."""
    return [
        Part(key=key, label=LABELS.get(key, key), value=float(values[key]), share=float(values[key]) / whole)
        for key in keys
        if float(values.get(key, 0.0)) != 0.0
    ]


def interval_of(profile: Profile, key: str) -> str:
    """Return the 80 % interval of a figure in its unit, one without an upper end as a bound; empty without one."""
    low, high = profile.interval.get(key, (None, None))
    if low is None:
        return ""
    ends, like = (float(low), None if high is None else float(high)), float(profile.figure(key) or low)
    said = units.span(*ends, profile.task.declared(key).unit, like=like)
    return said if high is None or " to " in said else ""


_ABOUT = ("source", "note", "date", "evidence", "requests")
"""Measured keys that say where figures come from."""


def measured_sentences(profile: Profile) -> list[str]:
    """Return, for each figure that somebody measured, how far the prediction is from it, or that it has none."""
    measured, predicted = flatten(profile.scenario.measured), flatten(answer_to_dict(profile))
    source = f" ({measured['source']})" if "source" in measured else ""
    found = {key: (value, _counterpart(key, predicted)) for key, value in measured.items() if key not in _ABOUT}
    sentences = [
        f"measured {key} {_stated(value)}{source}: predicted {_against(value, prediction)}"
        for key, (value, prediction) in found.items()
        if prediction is not None and value is not None
    ]
    without = [key for key, (_, prediction) in found.items() if prediction is None]
    if without:
        of_memory = ("memory_bytes", "fits") if profile.memory_bytes else ()
        can = (*profile.task.headline, *profile.task.details, *of_memory)
        sentences.append(f"measured {', '.join(without)}: not predicted; compared: {', '.join(can)}")
    return sentences


def _counterpart(key: str, predicted: Mapping[str, Any]) -> Any:
    """What is predicted of a measured key: a plain figure is a whole, and a mean that of all requests."""
    same = (key, f"{key}.total", f"{key}.mean", key.removesuffix(".mean"))
    return next((predicted[name] for name in same if name in predicted), None)


def _stated(value: Any) -> str:
    return units.digits(float(value), 4) if units.is_number(value) else str(value).lower()


def _against(value: Any, prediction: Any) -> str:
    """A prediction next to what was measured: the difference of numbers, else the prediction."""
    if units.is_number(value) and units.is_number(prediction) and value:
        return percent(float(prediction) / float(value) - 1, 1, signed=True)
    return _stated(prediction)
