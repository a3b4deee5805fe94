"""A search in parts, on many workers: the same answer as in one process, exactly.

A part is some pieces of a space in their order. What is kept of it is what the whole search would keep of it: the first
by what is to be small, of equal ones the earliest, or what is Pareto-optimal. Parts from which on bounds leave out rows
share the bound that is found before there are workers, so that they evaluate what the whole search would.
"""

import hashlib
import json
from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.loading.written import to_mapping
from sightline.planning.plan_answer import Counts
from sightline.planning.ranking import front_of
from sightline.planning.training.best import Candidate, leading
from sightline.planning.training.candidates import layout_of
from sightline.planning.training.training_search import Bounds, Request, pieces_of, search_space
from sightline.prediction.training.memory import sure_bytes
from sightline.progress import Progress
from sightline.scenario import Scenario
from sightline.scenario.space import Space
from sightline.sweeps.chunks import run_chunks

if TYPE_CHECKING:
    import polars as pl

PIECES, PARTS = 1, 64
"""Pieces of a space in a part, and parts of a space with many pieces."""
_bounds: dict[tuple[str, int], Bounds] = {}
"""What parts that this process searched share, by question and space."""
_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("devices", "tensor_parallel", "context_parallel", "expert_parallel"), "number"),
    **dict.fromkeys(("pipeline_parallel", "micro_batch", "zero_stage", "virtual_stages"), "number"),
    **dict.fromkeys(("sequence_parallel", "compile"), "truth"),
    "offload": "words",
    **dict.fromkeys(("schedule", "recompute", "attention"), "word"),
}
"""Fields of a plan that is kept, and what they hold."""
_MEMORY = "memory_bytes"
"""The column of the memory of a plan that is kept."""


def search_spaces(
    spaces: Sequence[Space[Scenario]],
    request: Request,
    progress: Progress,
    *,
    workers: str | None = None,
    where: str | None = None,
) -> list[tuple[Counts, list[Candidate]]]:
    """Search spaces in parts; if stopped, what was found of the parts that were done until then.

    Args:
        spaces: What is searched.
        request: What is looked for.
        progress: Told of every part.
        workers: Who searches, as ``--workers`` has it; None for this process.
        where: A folder or URL that keeps what is found; None for none.
    """
    work = _Work(spaces=tuple(spaces), request=replace(request, anchor=None))
    chunks = _chunks(spaces, request)
    found = [_Parts(request=request, sure_bytes=sure_bytes(space.scenario)) for space in spaces]
    _bounds.clear()

    def is_first(chunk: Mapping[str, Any]) -> bool:
        bounds = work.bounds(chunk)
        bounds.evaluated = found[chunk["space"]].evaluated_before(chunk["start"])
        if bounds.limit is not None:
            work.limits[chunk["space"]] = bounds.limit
        return request.is_bounded and bounds.limit is None

    parts = run_chunks(
        work, chunks, where=where, workers=workers, progress=progress, what="searching", is_first=is_first
    )
    for part in parts:
        (row,) = part.table.to_dicts()
        found[row["space"]].add(row)
    done = sum(one.parts for one in found)
    return [one.joined(stopped=done < len(chunks)) for one in found]


def _chunks(spaces: Sequence[Space[Scenario]], request: Request) -> list[dict[str, Any]]:
    """What to do, part by part."""
    question = _digest(spaces, request)
    chunks: list[dict[str, Any]] = []
    for place, space in enumerate(spaces):
        count, cluster = len(pieces_of(layout_of(space))), space.sizes[-1]
        step = max(PIECES, -(-count // PARTS))
        # The first part, which workers wait for, is small.
        chunks += [
            {
                "name": f"pieces {start + 1} to {stop} of {count} on {cluster.device.name}",
                "question": question,
                "space": place,
                "start": start,
                "stop": stop,
            }
            for start, stop in pairwise(sorted({0, *range(1, count, step), count}))
        ]
    return chunks


def _digest(spaces: Sequence[Space[Scenario]], request: Request) -> str:
    """The content of a question."""
    asked = {
        "spaces": [
            {
                "scenario": to_mapping(space.scenario),
                "values": dict(space.values),
                "at_most": space.at_most,
                "clusters": [to_mapping(replace(space.scenario, cluster=one))["cluster"] for one in space.sizes],
            }
            for space in spaces
        ],
        "axes": request.axes,
        "count": request.count,
        "max_memory": request.max_memory,
        "launchable": spaces[0].launchable,
        "limits": repr(request.limits),
        "availability": request.availability,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON lacks: sets of words, and numbers of NumPy."""
    return sorted(value) if isinstance(value, frozenset) else value.item()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """The search of a part; a worker gets the spaces with it."""

    spaces: tuple[Space[Scenario], ...]
    request: Request
    limits: dict[int, float] = field(default_factory=dict)
    """What least figures have to be below, by space."""

    def bounds(self, chunk: Mapping[str, Any]) -> Bounds:
        """Return what parts of the chunk's space share in this process."""
        space = chunk["space"]
        key = chunk["question"], space
        if key not in _bounds:
            _bounds[key] = Bounds(space=self.spaces[space], limit=self.limits.get(space))
        return _bounds[key]

    def __call__(self, chunk: Mapping[str, Any]) -> "pl.DataFrame":
        """Return a row: which part it is, how many plans it has, and the good ones."""
        bounds = self.bounds(chunk)
        pieces = pieces_of(bounds.layout)[chunk["start"] : chunk["stop"]]
        counts, kept = search_space(bounds.space, self.request, pieces=pieces, bounds=bounds)
        return _row(chunk, counts, kept, self.request.axes)


def _row(chunk: Mapping[str, Any], counts: Counts, kept: Sequence[Candidate], axes: Sequence[str]) -> "pl.DataFrame":
    import polars as pl

    kinds = {"number": pl.Int64(), "truth": pl.Boolean(), "word": pl.String(), "words": pl.List(pl.String())}
    fields = {name: kinds[kind] for name, kind in _FIELDS.items()}
    plans = pl.Struct({**fields, **dict.fromkeys((*axes, _MEMORY), pl.Float64())})
    rules = pl.Struct({"rule": pl.String(), "count": pl.Int64()})
    row = {
        "space": chunk["space"],
        "start": chunk["start"],
        "evaluated": counts.evaluated,
        "feasible": counts.feasible,
        "rejected": [{"rule": rule, "count": count} for rule, count in counts.rejected.items()],
        "plans": [
            {
                **one.fields,
                "offload": sorted(one.fields["offload"]),
                **dict(zip(axes, one.keys, strict=True)),
                _MEMORY: one.memory_bytes,
            }
            for one in kept
        ],
    }
    numbers = dict.fromkeys(("space", "start", "evaluated", "feasible"), pl.Int64())
    return pl.DataFrame([row], schema={**numbers, "rejected": pl.List(rules), "plans": pl.List(plans)})


@dataclass(slots=True, kw_only=True, eq=False)
class _Parts:
    """What was found of a space, whatever the order in which its parts come."""

    request: Request
    sure_bytes: float
    parts: int = 0
    _counts: list[tuple[int, Counts]] = field(default_factory=list)
    _kept: list[tuple[tuple[float, ...], int, int, dict[str, Any]]] = field(default_factory=list)
    """By figures, part and place in it: the order in which one process finds them."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a part."""
        self.parts += 1
        rejected = Counter({one["rule"]: one["count"] for one in row["rejected"]})
        counts = Counts(evaluated=row["evaluated"], feasible=row["feasible"], rejected=rejected)
        insort(self._counts, (row["start"], counts), key=lambda one: one[0])
        for place, plan in enumerate(row["plans"]):
            keys = tuple(plan.pop(axis) for axis in self.request.axes)
            self._kept.append((keys, row["start"], place, plan))
        self._kept = self._best()

    def evaluated_before(self, start: int) -> int:
        """Return how many plans the parts before a piece have evaluated."""
        return sum(counts.evaluated for begun, counts in self._counts if begun < start)

    def _best(self) -> list[tuple[tuple[float, ...], int, int, dict[str, Any]]]:
        ordered = sorted(self._kept, key=lambda one: one[:3])
        if self.request.pareto is None:
            keys, memory = np.array([(one[0][0], one[3][_MEMORY]) for one in ordered]).reshape(-1, 2).T
            return [ordered[i] for i in leading(keys, memory, self.sure_bytes, self.request.count)] if ordered else []
        return [ordered[i] for i in front_of(np.array([one[0] for one in ordered]).reshape(-1, 2).T)]

    def joined(self, *, stopped: bool) -> tuple[Counts, list[Candidate]]:
        """Return all together."""
        candidates = (
            Candidate(keys=keys, memory_bytes=plan.pop(_MEMORY), fields={**plan, "offload": frozenset(plan["offload"])})
            for keys, *_, plan in self._kept
        )
        return Counts(stopped=stopped).joined(*(counts for _, counts in self._counts)), list(candidates)
