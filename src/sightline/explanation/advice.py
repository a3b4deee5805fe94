"""The changes that would help most, and a prediction explained in sentences, the most important first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sightline.errors import InputError
from sightline.explanation.answer import Advice
from sightline.explanation.compared import Spread, interval_of, ratio_spread, spread_of
from sightline.explanation.limits import exposed_communication_s, limits_of
from sightline.explanation.reading import answer
from sightline.explanation.subject import Subject
from sightline.prediction.changes import (
    LIMIT_NAMES,
    NUMERICS,
    RUNS_OUT_LATER,
    WHOLE_NAMES,
    Risk,
    Settings,
    candidate_changes,
    decisions,
    memory_needed,
    named,
    risk_of,
    seconds,
    sentence,
    settings_of,
)
from sightline.profile import GENERATION, LONGEST_SAMPLE, SERVING, TRAINING, Profile, overlapped_s, seconds_by_limit
from sightline.profile.metrics import OPERATOR
from sightline.progress import SILENT, Progress
from sightline.quantities import GIB, percent
from sightline.scenario.lengths import packed_rows

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

T = TypeVar("T")
MOST = 3
"""Changes that are advised."""
LEAST_GAIN = 0.01
"""Share of the time that a change has to save for anybody to make it."""
LEAST_OF_LOAD = 0.05
"""Of a load: its requests are drawn, so that a smaller difference may be another draw's."""
LEAST_FREED = 0.02
"""Share of a device's need that a change has to free for it to be named."""
_CUT = 0.05
"""Share of samples that a tried limit of their length shortens."""
_PAIRED, _MOST_PAIRS = 10, 45
"""Single changes that are tried in pairs, the most promising first, and pairs of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A change that was predicted."""

    changes: list[Settings]
    """One, or two that help together."""
    set: Mapping[str, Any]
    """All their keys."""
    chosen: Settings
    """What the scenario leaves open and the prediction then chooses otherwise."""
    profile: Profile

    @property
    def whole_s(self) -> float:
        """Seconds of the whole."""
        return _whole_s(self.profile)

    @property
    def told(self) -> list[Settings]:
        """The changes with all that goes with them."""
        first, *others = self.changes
        return [{**first, **self.chosen}, *others]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What came of trying changes."""

    advice: list[Advice]
    """The changes that help most, best first."""
    single: Sequence[Tried] = ()
    """Every change that could be predicted and launched, alone."""
    uneven: str = ""
    """How long ranks wait for the longest samples, and what shortens that; empty where samples are of one length."""


def try_changes(own: Profile, subject: Subject, known: "Anchored | None" = None, progress: Progress = SILENT) -> Tries:
    """Return the changes that help a prediction most, three at most, each of another decision, and all that were tried.

    A plan that does not fit is advised what makes it fit, the fastest first. Of one that fits, a change counts where it
    fits as well, can be launched, and the 80 % interval of its gain is above 0. Those that change the numerics come
    last.
    """
    if subject.scenario is None:
        return Tries(advice=[])
    work = _Work(own, subject, known)
    single = [
        one for change in progress.over(work.candidates, "trying candidate changes") if (one := work.tried([change]))
    ]
    found = _distinct(work.helpful(single))
    # Pairs of a load would take minutes, and what fits already by a single change needs no second one.
    if own.task is not SERVING and len(found) < MOST and (own.fits is not False or not _harmless(found)):
        used = _decisions(one for one, _ in found)
        left = [one for one in single if not _decisions([one]) & {*used, NUMERICS}]
        pairs = list(islice(_pairs(left, own), _MOST_PAIRS))
        both = [
            one for pair in progress.over(pairs, "trying pairs of candidate changes") if (one := work.tried(list(pair)))
        ]
        found = sorted([*found, *_distinct(work.helpful(both))], key=lambda one: work.rank(one[0]))[:MOST]
    lengths = work.lengths()
    advice = [work.advice(one, gains) for one, gains in found]
    if own.fits is not False:
        advice = sorted([*advice, *lengths], key=lambda one: -one.gain)[:MOST]
        advice.sort(key=lambda one: "changes_numerics" in one.risks)
    return Tries(advice=advice, single=single, uneven=_uneven(own, lengths))


def savings(own: Profile, single: Sequence[Tried]) -> list[tuple[Tried, float]]:
    """Return the changes that take bytes off the fullest device, with the bytes: the most first, three at most.

    Each is of another decision; one of what is computed, not only how, comes last.
    """
    total = float(own.memory_bytes["total"])
    freed = [(one, total - float(one.profile.memory_bytes["total"])) for one in single if one.profile.memory_bytes]
    ranked = sorted(freed, key=lambda each: (NUMERICS in _decisions([each[0]]), -each[1]))
    return list(_distinct(each for each in ranked if each[1] > LEAST_FREED * total))


def _distinct(helpful: Iterable[tuple[Tried, T]]) -> list[tuple[Tried, T]]:
    """The first of each lever, as many as are advised."""
    found: list[tuple[Tried, T]] = []
    used: set[str] = set()
    for one, gains in helpful:
        of_one = _decisions([one])
        if not of_one & used:
            found.append((one, gains))
            used |= of_one
        if len(found) == MOST:
            break
    return found


def _harmless(found: Iterable[tuple[Tried, T]]) -> list[Tried]:
    """Those that keep the numerics."""
    return [one for one, _ in found if NUMERICS not in _decisions([one])]


def _decisions(tried: Iterable[Tried]) -> frozenset[str]:
    """The decisions that changes are about."""
    return frozenset[str]().union(*(decisions(change) for one in tried for change in one.changes))


def _pairs(single: Sequence[Tried], own: Profile) -> Iterator[tuple[Settings, Settings]]:
    """Changes that may help together: one saves time and does not fit, the other saves memory; then the fastest."""
    fast = sorted(single, key=lambda one: one.whole_s)
    small = sorted(single, key=lambda one: float(one.profile.memory_bytes["total"])) if own.memory_bytes else []
    seen: set[frozenset[str]] = set()
    tempting = [one for one in fast if one.whole_s < _whole_s(own)][:_PAIRED]
    first = [(a, b) for b in small[: _PAIRED // 2] for a in tempting]
    for a, b in (*first, *combinations(small[:_PAIRED], 2), *combinations(fast[:_PAIRED], 2)):
        keys = frozenset((repr(a.set), repr(b.set)))
        if keys not in seen and not a.set.keys() & b.set.keys():
            seen.add(keys)
            yield a.changes[0], b.changes[0]


def _uneven(own: Profile, lengths: Sequence[Advice]) -> str:
    waits_s = _waits_s(own)
    if not waits_s or not lengths:
        return ""
    share = percent(waits_s / float(own.whole_s))
    remedies = "; ".join(f"{one.sentence[:1].lower()}{one.sentence[1:-1]}" for one in lengths)
    return f"Ranks wait {seconds(waits_s)} ({share}) for the one with the longest samples. To shorten that, {remedies}."


def _waits_s(own: Profile) -> float:
    """Seconds in which ranks wait for the longest samples."""
    return float(seconds_by_limit(own).get(LONGEST_SAMPLE, 0.0)) if own.whole_s else 0.0


class _Work:
    """Predicts changes of one scenario and judges them."""

    def __init__(self, own: Profile, subject: Subject, known: "Anchored | None") -> None:
        asked: Any = subject.scenario
        self._own, self._subject, self._known = own, subject, known
        self._chooses_batch = own.task is TRAINING and asked.plan.micro_batch is None
        # A smaller batch is another question.
        left_out = {"batch", *(["micro_batch"] if self._chooses_batch else [])}
        self.candidates = [settings_of(one) for one in candidate_changes(own.scenario) if not left_out & one.keys()]
        self._refused = set(_refusals(own.scenario))

    def tried(self, changes: list[Settings]) -> Tried | None:
        """The prediction with changes; None where they break a rule or cannot be launched."""
        stated = {key: value for change in changes for key, value in change.items()}
        try:
            profile = self._predicted(stated)
            if _framework(profile) != _framework(self._own):
                # Where none is named, the typical one of those that offer the plan answers.
                stated |= {"plan.framework": _framework(self._own)}
                profile = self._predicted(stated)
        except InputError:
            return None
        if {*_refusals(profile.scenario)} - self._refused:
            return None
        return Tried(changes=changes, set=stated, chosen=self._chosen(profile), profile=profile)

    def _predicted(self, stated: Settings) -> Profile:
        return answer(self._subject.again(stated), self._known)

    def helpful(self, tried: Sequence[Tried]) -> Iterator[tuple[Tried, tuple[float, float] | None]]:
        """What helps, best first, with the ends of the 80 % interval of its gain."""
        own_s = _whole_s(self._own)
        fitting = sorted((one for one in tried if one.profile.fits is not False), key=self.rank)
        if self._own.fits is False:
            yield from ((one, None) for one in fitting)
            return
        least = LEAST_OF_LOAD if self._own.task is SERVING else LEAST_GAIN
        for one in fitting:
            if not own_s or 1.0 - one.whole_s / own_s < least:
                return
            gains = gains_between(self._own, one.profile, self._known)
            if gains is None or gains[0] > 0:
                yield one, gains

    def rank(self, one: Tried) -> tuple[bool, float]:
        """What is smaller the sooner a change is advised: where nothing fits, one of the numerics is so at last."""
        return self._own.fits is False and NUMERICS in _decisions([one]), one.whole_s

    def advice(self, one: Tried, gains: tuple[float, float] | None) -> Advice:
        """The change in words."""
        own_s = _whole_s(self._own)
        gain_s = own_s - one.whole_s
        settings = {**one.set, **one.chosen}
        # An engine that serves fills all of it.
        has_memory = bool(one.profile.memory_bytes) and self._own.task is not SERVING
        return Advice(
            set=settings,
            gain_s=gain_s,
            gain=gain_s / own_s if own_s else 0.0,
            sentence=sentence(one.told, self._own, one.profile, gains, _fields(self._own)),
            command=self._subject.command(settings),
            risks=self._risks(one.changes),
            memory_bytes=float(one.profile.memory_bytes["total"]) if has_memory else None,
        )

    def lengths(self) -> list[Advice]:
        """What shortens the wait for the longest samples, the most tokens per second first."""
        waits_s = _waits_s(self._own)
        if not waits_s:
            return []
        plan, work, own_rate = self._own.scenario.plan, self._own.scenario.workload, float(self._own.tokens_per_s)
        longest, lengths = int(work.sequence_length), work.lengths
        found = [
            self._even(
                f"Give every rank batches of about equal length: at best it saves {seconds(waits_s)}.",
                waits_s / float(self._own.whole_s),
            )
        ]
        changes: dict[str, Settings] = {}
        if not work.packing and work.sequences == 1:
            ranks = plan.data_parallel * plan.sequences
            samples = packed_rows(lengths, longest).real / float(work.rows(plan.sequences).real)
            rows = ranks * max(1, round(work.global_batch / samples / ranks))
            changes[f"Pack samples into rows of {longest:,} tokens"] = {
                "workload.packing": True,
                "workload.global_batch": int(rows),
            }
        cap = int(np.percentile(lengths.drawn(longest), 100.0 * (1.0 - _CUT)))
        if cap < longest:
            changes[f"Cut samples at {cap:,} tokens, which shortens {percent(_CUT)} of them"] = {
                "workload.sequence_length": cap
            }
        for said, change in changes.items():
            if (tried := self.tried([change])) is not None and tried.profile.fits is not False:
                gain = 1.0 - own_rate / float(tried.profile.tokens_per_s)
                found.append(self._even(f"{said}: {percent(gain)} less time per token.", gain, change))
        return sorted((one for one in found if one.gain >= LEAST_GAIN), key=lambda one: -one.gain)

    def _even(self, said: str, gain: float, change: Settings = MappingProxyType({})) -> Advice:
        """Advice that saves a share of the time of as many tokens."""
        command = self._subject.command(change) if change else ""
        gain_s = gain * float(self._own.whole_s)
        return Advice(
            set=dict(change), gain_s=gain_s, gain=gain, sentence=said, command=command, risks=["needs_restart"]
        )

    def _risks(self, changes: Sequence[Settings]) -> list[str]:
        """What any of some changes entails."""
        found = [risk_of(change, self._own.scenario.plan) for change in changes]
        return [name for name, *of_changes in zip(Risk._fields, *found, strict=True) if any(of_changes)]

    def _chosen(self, profile: Profile) -> Settings:
        """The micro-batch of a prediction, where the scenario leaves it open and another one is chosen than without."""
        if not self._chooses_batch:
            return {}
        before, after = (int(each.scenario.plan.micro_batch) for each in (self._own, profile))
        return {} if before == after else {"plan.micro_batch": after}


def gains_between(own: Profile, other: Profile, known: "Anchored | None" = None) -> tuple[float, float] | None:
    """Return the ends of the 80 % interval of the share of time that another prediction saves; None without intervals.

    What both predictions' errors share cancels.
    """
    key = own.task.whole
    spreads = [spread_of(_whole_s(p), _ends(p, key)) for p in (own, other)]
    if spreads[0] is None or spreads[1] is None:
        return None
    spread = _generation_spread(own, other, known)
    spread = spread or ratio_spread(spreads[0], spreads[1], _correlation(own, other, known))
    low, high = interval_of(_whole_s(other) / float(own.whole_s), spread)
    return 1.0 - high, 1.0 - low


def _ends(profile: Profile, key: str) -> tuple[float, float | None] | None:
    """The 80 % interval of a figure in plain numbers."""
    found = profile.interval.get(key)
    return None if found is None else (float(found[0]), None if found[1] is None else float(found[1]))


def _whole_s(profile: Profile) -> float:
    """Seconds of the whole; 0 where there are none, as of a load that does not fit."""
    return float(profile.whole_s or 0.0)


def _fields(profile: Profile) -> Mapping[str, Any]:
    plan = getattr(profile.scenario, "plan", None)
    return {} if plan is None else plan.to_dict()


def _framework(profile: Profile) -> str:
    """The name of the framework or engine of a plan; empty without a plan."""
    plan = getattr(profile.scenario, "plan", None)
    found = getattr(plan, "framework", None) or getattr(plan, "engine", None)
    return "" if found is None else str(found.name)


def _refusals(scenario: Any) -> list[str]:
    """What the framework's launch cannot run of a training plan."""
    if scenario.workload.task not in TRAINING.workloads:
        return []
    from sightline.launching.training.rules import refusals

    return list(map(str, refusals(scenario)))


def _generation_spread(own: Profile, other: Profile, known: "Anchored | None") -> Spread | None:
    """The spread of two batches' latencies' ratio, less what both have in common; None where that is not known."""
    if own.task is not GENERATION or known is not None:
        return None
    from sightline.prediction.generation.batch_profile import engine_constants
    from sightline.prediction.generation.uncertainty import spreads_of_ratio

    one, another = ((of.scenario, engine_constants(of.scenario)[0]) for of in (own, other))
    first_token, further = spreads_of_ratio(one, another)
    share = float(own.ttft_s) / float(own.latency_s)
    width = share * first_token + (1.0 - share) * further
    return Spread(width, width) if width > 0.0 else None


def _correlation(own: Profile, other: Profile, known: "Anchored | None") -> float:
    """What two predictions' errors have in common; 0 where that is not known, as in ``compare``."""
    if own.task is not TRAINING or own.scenario.cluster.groups:
        return 0.0
    from sightline.prediction.anchoring.anchored_steps import correlation

    return correlation(own.scenario, other.scenario, known.steps if known else None)


NOTHING_FITS = (
    "No single change makes it fit. `sightline plan` also tries combined changes, other frameworks and other devices."
)
"""Said where nothing is advised for a plan that does not fit."""
NOTHING_HELPS = "No candidate change, and no pair of them, saves more than the uncertainty of the prediction."
_STARTS = 0.1
"""Share of an operator's time that its work takes, below which what starts it takes nearly all."""
_DOMINATES = 0.5
"""Elasticity from which on a number of the hardware dominates."""
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
"""Numbers of the hardware: which part has them, and what they are."""


def said_of(own: Profile, tries: Tries, known: "Anchored | None" = None) -> list[str]:
    """Return the reading of a prediction: what binds it, what is hidden and exposed, memory, hardware, advice."""
    found = [
        *_limits(own),
        *filter(None, [tries.uneven]),
        *_exposed(own),
        *memory_sentences(own, tries.single),
        *_load(own),
    ]
    if own.fits is not False:
        found += _hardware(own, known)
    found += [f"This plan cannot be launched: {refusal}." for refusal in _refusals(own.scenario)[:1]]
    if not tries.advice and own.task is not OPERATOR:
        found.append(NOTHING_FITS if own.fits is False else NOTHING_HELPS)
    return found


def _limits(own: Profile) -> Iterator[str]:
    if not own.whole_s:
        return
    limits = limits_of(own)
    if not limits:
        return
    whole, first = float(own.whole_s), limits[0]
    known = [one for one in limits if one.alone_s is not None]
    least = max(known, key=lambda one: one.alone_s or 0.0, default=None)
    if own.task is OPERATOR and least is not None and least.alone_s and least.alone_s < _STARTS * whole:
        yield (
            f"The work takes {seconds(least.alone_s)} of {seconds(whole)}; nearly all of the time is launch "
            "overhead and latency."
        )
        return
    name = LIMIT_NAMES.get(first.limit, first.limit)
    said = f"{name[:1].upper()}{name[1:]} takes {seconds(first.time_s)} of {seconds(whole)} ({percent(first.share)})"
    others = [one for one in limits[1:3] if one.share >= 0.05]
    if others:
        said += ", then " + " and ".join(f"{LIMIT_NAMES.get(o.limit, o.limit)} {seconds(o.time_s)}" for o in others)
    yield f"{said}."
    if least is not None and least.alone_s:
        yield (
            f"If nothing but {LIMIT_NAMES.get(least.limit, least.limit).removeprefix('exposed ')} limited it, "
            f"{WHOLE_NAMES.get(own.task.whole, 'it')} would take {seconds(least.alone_s)}, "
            f"{percent(least.alone_s / whole)} of that. This is the lower bound for the same work."
        )


def _exposed(own: Profile) -> Iterator[str]:
    exposed, hidden = exposed_communication_s(own) - _waits_s(own), overlapped_s(own.rows)
    if exposed > 0.005 * float(own.whole_s or 0.0):
        behind = f"; {seconds(hidden)} is overlapped" if hidden > 0.005 * float(own.whole_s) else ""
        yield f"{seconds(exposed)} of communication is exposed{behind}."


def memory_sentences(own: Profile, single: Sequence[Tried] = ()) -> Iterator[str]:
    """Yield what fills the fullest device, and which changes free how much, where memory is tight or not enough."""
    if not own.memory_bytes or own.task is OPERATOR:
        return
    if own.fits is not False and (own.fit == "yes" or own.task is not TRAINING):
        return
    parts = {name: float(size) for name, size in own.memory_bytes.items() if name != "total"}
    name = max(parts, key=parts.__getitem__)
    freed = [f"{named(one.told)} frees {_gib(size)}" for one, size in savings(own, single)]
    yield (
        f"The fullest device {memory_needed(own)}, including {_gib(parts[name])} of "
        f"{name.replace('_', ' ')}{'; ' if freed else ''}{'; '.join(freed)}."
    )
    if own.tight and own.fits:
        yield RUNS_OUT_LATER


def later_memory_sentences(own: Profile) -> Iterator[str]:
    """Yield why a training run that started may run out of memory later, with the sizes that its ledger has."""
    if own.task is not TRAINING or not own.memory_bytes or own.source != "predicted" or own.scenario.cluster.groups:
        return
    from sightline.prediction import predict
    from sightline.prediction.training.memory import RESERVED
    from sightline.program.shapes import ELEMENT_BYTES

    scenario, stage = own.scenario, max(own.stages, key=lambda one: float(one.total))
    total, usable = float(own.memory_bytes["total"]), float(own.usable_bytes)
    work, parts, items = scenario.workload, stage.parts, {name: float(size) for name, size in stage.items.items()}
    high: Any = own.interval.get("memory_bytes.total", (total, total))[1]
    yield f"The fullest moment needs {_gib(total)} of {_gib(usable)}, up to {_gib(high)} in the 80 % interval."
    if work.lengths is not None and not work.packing:
        tokens = max(1, round(float(work.rows(scenario.plan.sequences).tokens)))
        usual = predict(replace(scenario, workload=replace(work, lengths=None, sequence_length=tokens)))
        needed = float(usual.memory_bytes["total"])
        yield (
            f"That is with samples of {work.longest_row:,} tokens, which come sooner or later; a usual micro-batch, "
            f"padded to {tokens:,} tokens, needs {_gib(needed)}."
        )
    if (reserved := items.get(RESERVED, 0.0)) > 0:
        yield f"The allocator may reserve {_gib(reserved)} beyond it, in blocks that it cannot use again at once."
    if (optimizer := float(parts["optimizer"])) > 0:
        yield f"Optimizer states, {_gib(optimizer)}, are all there from the first update on."
    if (logits := items["logits and loss"]) > 0:
        yield f"Logits and loss of a micro-batch take {_gib(logits)}; an evaluation may keep those of all batches."
    if scenario.plan.zero_stage == 3 and scenario.plan.data_parallel > 1:
        whole = scenario.model.parameters * ELEMENT_BYTES[scenario.plan.dtype]
        yield f"A checkpoint that gathers whole weights on a device adds up to {_gib(whole)}."


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _load(own: Profile) -> Iterator[str]:
    if own.task is SERVING and own.limited_by:
        yield f"{own.limited_by[:1].upper()}{own.limited_by[1:]}."


def _hardware(own: Profile, known: "Anchored | None") -> Iterator[str]:
    """Yield the number of the hardware that the time hangs on most, where one dominates."""
    if own.task is SERVING or own.scenario.cluster.groups:
        return
    from sightline.prediction.sensitivity import elasticities

    key: Any = own.task.whole
    found = {number: by_key[key] for number, by_key in elasticities(own.scenario, known).items() if key in by_key}
    number = max(found, key=lambda one: abs(found[one]), default=None)
    if number is not None and abs(found[number]) >= _DOMINATES:
        less, (part, _, what) = "less" if found[number] < 0 else "more", LABELS[number].partition(": ")
        yield (
            f"The time depends most on the {what} of the {part}: 10 % more gives about {10 * abs(found[number]):.0f} % "
            f"{less} time."
        )
