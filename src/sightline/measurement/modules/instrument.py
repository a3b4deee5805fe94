"""A real model, timed by phase and module while it trains or generates, under the addresses of a prediction."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.measurement.machine.timing import Clock
from sightline.measurement.modules.communication import WAITING, EndOfGradients, wrap_waits
from sightline.measurement.modules.marks import Marks
from sightline.measurement.modules.readers import Reader, counted_work, reader_of
from sightline.measurement.modules.roles import roles_of
from sightline.measurement.modules.timeline import STARTS, Address, Passage, Timeline
from sightline.measurement.modules.wrapping import wrap
from sightline.profile import TRAINING, Row
from sightline.scenario import Device, Model

MOST_S = 1e-5
"""Of a border; twice what it took within a token of tiny models (Cascade Lake, 2026-11). More than that is no overhead
but a machine that was slower meanwhile."""
LEAST_KEPT = 0.5
"""Share of a region's time that stays in any case."""


def without_overhead(rows: Sequence[Row], plain_s: float) -> list[Row]:
    """Return ``rows`` of a step on a processor without the time that recording added to it.

    The instrument's own work is in no region, but it also slows others down: a call more around each module, and caches
    that hold its code. Both come with every border of regions. The seconds beyond ``plain_s``, those of steps that are
    not recorded, are taken off in equal parts by border (A. Malony and S. Shende, "Overhead Compensation in Performance
    Profiling", Euro-Par 2004).
    """
    excess_s = sum(float(row.time_s) for row in rows) - plain_s
    borders = sum(float(row.count) for row in rows)
    each_s = min(max(excess_s, 0.0) / max(borders, 1.0), MOST_S)
    return [row.lasting(_less(float(row.time_s), each_s * float(row.count))) for row in rows]


def _less(time_s: float, overhead_s: float) -> float:
    return max(time_s - overhead_s, LEAST_KEPT * time_s)


INTENSITY = 10.0
"""FLOPs per byte above which work without a known device is called bound by arithmetic."""


def rows_of(
    steps: Sequence[Mapping[Address, Passage]],
    work: Mapping[Address, Passage],
    device: Device | None = None,
    dtype: str | None = None,
) -> list[Row]:
    """Return a row per address: the mean over ``steps``, and the FLOPs and bytes of one of them, ``work``.

    Without steps the times are 0.

    ``device`` and ``dtype`` say whose roofline ``bound`` goes by.
    """
    # dict.fromkeys keeps the order in which a step came by.
    addresses = list(dict.fromkeys(a for step in steps or [work] for a in step))
    intensity = INTENSITY
    if device is not None and dtype is not None and dtype in device.peak_flops:
        intensity = float(device.peak_flops[dtype] / device.memory_bandwidth)
    return [_row(a, steps, work.get(a), intensity) for a in sorted(addresses, key=_phase)]


def _row(address: Address, steps: Sequence[Mapping[Address, Passage]], work: Passage | None, intensity: float) -> Row:
    passages = [step[address] for step in steps if address in step]
    came_by = [p.count for p in passages] if steps else [work.count] if work else []
    phase, operator = address.phase, address.region.operator
    flops, moved = (0.0, 0.0) if work is None else (float(x) for x in np.sum(work.parts, axis=0))
    time_s = sum(float(np.sum(p.parts)) for p in passages) / max(1, len(steps))
    return row_at(
        address,
        f"{operator} gradient" if phase == "backward" and operator != "all" else operator,
        count=sum(came_by) / max(1, len(steps)),
        time_s=time_s,
        bound=_bound(phase, flops, moved, intensity),
        work=(flops, moved),
    )


def row_at(
    address: Address, operator: str, *, count: float, time_s: float, bound: str, work: tuple[float, float] = (0.0, 0.0)
) -> Row:
    """Return the row of an operator at an address; ``work`` is its FLOPs and bytes."""
    phase, (block, module, _) = address
    flops, moved = work
    return Row(
        phase=phase,
        block=block,
        module=module,
        operator=operator,
        count=float(count),
        flops=flops,
        bytes=moved,
        network_bytes=0.0,
        time_s=time_s,
        exposed_s=time_s,
        bound=bound,
    )


def _bound(phase: str, flops: float, moved: float, intensity: float) -> str:
    if phase in ("communication_exposed", "host"):
        return "network" if phase == "communication_exposed" else "host"
    return "compute" if flops > 0 and flops >= intensity * moved else "memory"


def _phase(address: Address) -> int:
    order = ("prefill", "decode", *TRAINING.phases)
    return order.index(address.phase)


class Instrument:
    """Records steps of one model. Steps that are not recorded run as if it was not there.

    ::

        on_model = instrument(model, scenario.model, machine.clock)
        for _ in range(steps):
            with on_model.recording():
                with on_model.phase("forward"):
                    loss = model(tokens, labels=tokens).loss
                with on_model.phase("backward"):
                    loss.backward()
                with on_model.phase("optimizer"):
                    optimizer.step()
        on_model.rows()
    """

    def __init__(self, model: Any, clock: Clock) -> None:
        self._timeline = Timeline()
        self._reader = reader_of(clock)
        self._end_of_gradients = EndOfGradients(self._timeline)
        marks = Marks(self._timeline, self._end_of_gradients.reached)
        compiled = _is_compiled(model)
        roles = roles_of(model)
        self.by_module = bool(roles.layers) and not compiled
        """Whether modules are timed. Of a compiled model, or one whose layers are not recognized, only phases are."""
        self._undo = ExitStack()
        if self.by_module:
            self._undo.enter_context(wrap(roles, marks, self._timeline))
        self._undo.enter_context(wrap_waits(model, lambda: self._timeline.visit(WAITING)))
        self._countable = not compiled
        self.steps: list[Mapping[Address, Passage]] = []
        """Seconds of each recorded step by address."""
        self.own_s: list[float] = []
        """Seconds of each that the instrument took itself, which are at no address."""
        self._work: Mapping[Address, Passage] | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record one step, whose phases are announced by ``phase``.

        The first step counts FLOPs and bytes, which takes time; its seconds stand for nothing, unless ``counting`` was
        used before.
        """
        if self._work is None and self._countable:
            with self.counting():
                yield
            return
        with self.read_by(self._reader) as passages:
            yield
        self.steps.append(passages)
        self.own_s.append(float(sum(self._timeline.instrument_s)))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the FLOPs and bytes of one step by address, such as one of the warm-up.

        All recorded steps do the same.
        """
        with counted_work() as reader, self.read_by(reader) as passages:
            yield
        self._work = passages

    @contextmanager
    def read_by(self, reader: Reader) -> Iterator[Mapping[Address, Passage]]:
        """Read ``reader`` wherever one step comes to another address; what passed is there when the step is over."""
        passages: dict[Address, Passage] = {}
        self._timeline.begin(reader)
        try:
            yield passages
        except BaseException:
            self._timeline.live = False
            raise
        passages.update(self._timeline.end())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce a part of the step: forward, backward, optimizer, communication_exposed, prefill or decode.

        Raises `InputError` for another name.
        """
        if name not in STARTS:
            raise InputError(f"phase is '{name}'; a step has: {', '.join(STARTS)}")
        if not self._timeline.live:
            yield
            return
        self._timeline.start(name)
        if name == "backward":
            self._end_of_gradients.begin()
        yield
        self._timeline.stop()

    def rows(self, device: Device | None = None, dtype: str | None = None) -> list[Row]:
        """Return the mean step by address; ``bound`` goes by the roofline of ``device`` in ``dtype`` where given.

        Times sum to the step's, less what the instrument took itself: what was in none of its phases is the host's.
        """
        return rows_of(self.steps, self._work or {}, device, dtype)

    def remove(self) -> None:
        """Leave the model as it was."""
        self._undo.close()


def instrument(model: Any, scenario_model: Model | None, clock: Clock) -> Instrument:
    """Return an instrument on ``model``, a Hugging Face decoder, wrapped for data parallelism or adapted as it may be.

    ``clock`` is that of the machine it runs on. It is best called when the model is complete: quantized, adapted,
    sharded, with its recomputation enabled. Only one instrument at a time on models of one class.
    Raises `InputError` where ``scenario_model`` has fewer layers than ``model``.
    """
    found = len(roles_of(model).layers)
    if scenario_model is not None and found > scenario_model.layers:
        raise InputError(f"model has {scenario_model.layers} layers; the one that is to be measured has {found}")
    return Instrument(model, clock)


def _is_compiled(model: Any) -> bool:
    modules = list(model.modules())
    return any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) is not None for m in modules)
