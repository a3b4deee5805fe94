"""Requests as columns: when each arrives, how long its prompt and answer are, and what of its prompt others share."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """A part of a load, sorted by arrival; every column has one entry per request.

    A load is an iterable of such parts, each as long as its maker likes, so that a trace need not fit in memory.
    """

    arrival_s: Floats
    """Seconds from the load's begin. In a closed loop: the earliest that the client would send it."""
    prompt_tokens: Integers
    """Tokens of the whole prompt, shared ones included."""
    output_tokens: Integers
    prefix_id: Integers = field(default_factory=_none)
    """Requests of one number begin with the same tokens; -1: with tokens of their own. Empty: all are -1."""
    prefix_tokens: Integers = field(default_factory=_none)
    """How many of the prompt's first tokens that are."""
    session_id: Integers = field(default_factory=_none)
    """Turns of one conversation, in order: each prompt begins with the previous turn's prompt and answer. -1: none."""
    think_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Of a turn: seconds between the end of the previous answer and this prompt; ``arrival_s`` is then the earliest."""
    priority: Integers = field(default_factory=_none)
    """Smaller goes first where the engine schedules by priority."""
    adapter: Integers = field(default_factory=_none)
    """Which LoRA adapter answers; -1: the model alone."""

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    def __post_init__(self) -> None:
        """Fill columns that were left out."""
        n = self.arrival_s.size
        for name, neutral in _NEUTRAL.items():
            if getattr(self, name).size != n:
                object.__setattr__(self, name, np.full(n, neutral, np.float64 if name == "think_s" else np.int64))

    def __getitem__(self, rows: "slice | Integers") -> "Requests":
        """Some of the requests."""
        return Requests(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


_NEUTRAL = {"prefix_id": -1, "prefix_tokens": 0, "session_id": -1, "think_s": 0.0, "priority": 0, "adapter": -1}


def joined(parts: Sequence[Requests]) -> Requests:
    """Return parts as one."""
    if len(parts) == 1:
        return parts[0]
    return Requests(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Requests)})
