"""The answer of ``explain``: where the time goes, what limits it, and which changes would help most."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sightline.profile import Profile, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One of the things that the time is spent on."""

    limit: str
    """compute, memory, network, host, bubble, with samples of unequal length longest_sample; of a measured job also
    input, launches, imbalance, unmatched."""
    time_s: float
    """Seconds of the step, batch or request that this limit takes; those of all limits sum to the whole."""
    share: float
    """``time_s`` over the whole."""
    alone_s: float | None = None
    """Seconds that the whole would take if only this limit held: the distance to it is the rest; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change that would help."""

    set: Mapping[str, Any]
    """Dotted keys of the scenario and their new values; empty where the change is none of a scenario."""
    gain_s: float
    """Seconds of the whole that it saves, as predicted."""
    gain: float
    """``gain_s`` over the whole."""
    sentence: str
    """What to change, why, and what that brings, with the numbers."""
    command: str
    """What to type next: the command that predicts the change, or that shows more; empty where there is none."""
    risks: Sequence[str] = ()
    """What the change of a scenario entails: changes_numerics, needs_restart, frees_memory."""
    memory_bytes: float | None = None
    """What the fullest device then needs, where that is predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the time goes, what limits it and what would help; of a scenario, a run or a trace."""

    title: str
    source: str
    """predicted or measured."""
    whole: str
    """The result key that is explained: ``step_time_s``, ``latency_s``, ..."""
    whole_s: float
    phases: Mapping[str, float]
    """Seconds by phase; they sum to ``whole_s``."""
    limits: Sequence[Limit]
    """Largest first."""
    rows: Sequence[Row]
    """By phase, block, module and operator; ``exposed_s`` sums to ``whole_s`` less what is idle or unmatched."""
    advice: Sequence[Advice]
    """Best first, three at most."""
    exposed_communication_s: float = 0.0
    hidden_communication_s: float = 0.0
    """Seconds of communication that run behind computation."""
    bubble_s: float = 0.0
    unmatched_s: float = 0.0
    """Of a trace: seconds of kernels that match none of the known operators."""
    launch_bound_s: float = 0.0
    """Seconds that the device waits because the host launches its kernels too slowly."""
    input_wait_s: float = 0.0
    """Of a trace: seconds that the step waits for its input."""
    sentences: Sequence[str] = ()
    """The reading in plain sentences, the most important first."""
    warnings: Sequence[str] = ()
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """The scenario, fully resolved; empty where a trace came without one."""
    answer: Profile | None = field(default=None, repr=False, compare=False)
    """The profile that is explained: key figures, memory, intervals. None of a trace."""

    def to_dict(self) -> dict[str, Any]:
        """Return the documented result keys, in SI units."""
        from sightline.profile.results import stamped
        from sightline.quantities import as_json

        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "answer"}
        listed = {name: list(map(asdict, plain[name])) for name in ("limits", "rows", "advice")}
        mapping: dict[str, Any] = as_json({**plain, **listed})
        return stamped(mapping)
