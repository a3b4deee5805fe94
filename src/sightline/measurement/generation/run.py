"""One run of generation: it warms up, answers until its times are known, and then records modules and memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.loading import generation_from_mapping
from sightline.measurement.generation.loop import WAYS, Generation, cached_bytes, random_prompts, weight_format
from sightline.measurement.machine.devices import Machine, import_torch, machine_of
from sightline.measurement.machine.resources import EnergyWatch, MemoryWatch, state_bytes
from sightline.measurement.machine.timing import Clock, HostClock, Rule, measure_calls
from sightline.measurement.models.build import SEED, build_plain_model, preload
from sightline.measurement.models.weights import quantize
from sightline.measurement.modules.instrument import instrument, rows_of, without_overhead
from sightline.measurement.modules.readers import reader_of
from sightline.measurement.modules.timeline import LOSS
from sightline.measurement.processes.case import Emit
from sightline.profile import Row
from sightline.scenario import GenerationScenario

RUN = f"{__name__}:measure_run"
# At least a quarter of the least samples are taken: of fewer than four ranks say nothing about the median.
FULL = Rule(warm_up_s=20.0, block=3, drift=0.03, precision=0.01, least=20, most=200, longest_s=20.0)
QUICK = Rule(warm_up_s=2.0, block=2, drift=0.1, precision=0.03, least=16, most=40, longest_s=2.0)
RECORDED, RECORDED_QUICK = 5, 3
"""Answers whose modules are timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run is asked for besides the scenario."""

    way: str
    quick: bool
    weights: str | None = None
    """Folder of a checkpoint; None draws random weights."""


def measure_run(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure one run; ``scenario`` is a mapping, the other arguments are the fields of `Asked`."""
    asked = Asked(**{k: v for k, v in arguments.items() if k != "scenario"})
    return measure_generation_run(generation_from_mapping(arguments["scenario"]), asked, emit)


def measure_generation_run(scenario: GenerationScenario, asked: Asked, emit: Emit) -> dict[str, Any]:
    """Build the model, answer until times are known, then time modules; a sample is one answer of the batch.

    Raises:
        InputError: This machine is another one, or the checkpoint is not one of the model.
        UnsupportedCaseError: There is no class of transformers for the model.
    """
    machine = machine_of(scenario.cluster)
    import_torch().set_num_threads(machine.threads)
    device = machine.kind
    machine.dtype(scenario.plan.dtype, "plan.dtype")
    preload()
    memory = MemoryWatch(device)
    generation = _generation(scenario, asked, device)
    memory.restart()
    timed = _timed(generation, machine, QUICK if asked.quick else FULL, emit)
    held = {
        **memory.read(),
        "kv_cache": cached_bytes(generation.cache),
        "weights": state_bytes(generation.model, None)["weights"],
    }
    plain_s = np.median([(passes[0], sum(passes[1:])) for passes in timed["passes_s"]], axis=0)
    modules = {} if WAYS[asked.way].compiled else _by_module(generation, scenario, machine, plain_s, quick=asked.quick)
    return {**timed, "memory": held, **modules, "record": _record(generation, machine, asked)}


def _generation(scenario: GenerationScenario, asked: Asked, device: str) -> Generation:
    plan, work, way = scenario.plan, scenario.workload, WAYS[asked.way]
    weights = None if asked.weights is None else Path(asked.weights)
    model = build_plain_model(scenario.model, dtype=plan.dtype, attention=way.attention, device=device, weights=weights)
    if (form := weight_format(scenario)) != "none":
        model = quantize(model, form, plan.dtype, device)
    prompts = random_prompts(scenario.model.vocab_size, int(work.batch), int(work.prompt_tokens), device, SEED)
    return Generation(model.eval(), way, prompts, int(work.output_tokens))


class _Answers(HostClock):
    """Reads the seconds of whole answers, and keeps those of the passes of the last one."""

    resolution_s = 0.0

    def __init__(self, generation: Generation, clock: Clock) -> None:
        self._generation, self._reader = generation, reader_of(clock)
        self.passes_s: list[float] = []
        self.answers = 0

    def measure(self, call: Callable[[int], object], first: int, count: int) -> float:  # noqa: ARG002
        """Seconds of ``count`` answers, from pass to pass."""
        total_s = 0.0
        for _ in range(count):
            self.passes_s = self._generation.run(self._reader)[1]
            self.answers += 1
            total_s += sum(self.passes_s)
        return total_s


def _timed(generation: Generation, machine: Machine, rule: Rule, emit: Emit) -> dict[str, Any]:
    """The passes of every repeat, after the warm-up."""
    answers, taken = _Answers(generation, machine.clock), []

    def keep(_: float) -> None:
        first, *further = answers.passes_s
        taken.append(answers.passes_s)
        emit(
            {
                "ttft_s": first,
                "tpot_s": float(np.mean(further)) if further else 0.0,
                "latency_s": sum(answers.passes_s),
                "passes_s": answers.passes_s,
            }
        )

    energy = EnergyWatch(machine.kind)
    timing = measure_calls(lambda _: None, answers, rule, keep)
    joules = energy.joules()
    return {
        "passes_s": taken,
        "warm_up": answers.answers - len(taken),
        "stable": timing.stable,
        "energy_j": None if joules is None else joules / answers.answers,
    }


def _by_module(
    generation: Generation, scenario: GenerationScenario, machine: Machine, plain_s: NDArray[np.float64], *, quick: bool
) -> dict[str, Any]:
    """Rows with their seconds in each recorded answer, and how much longer recording makes an answer.

    ``plain_s`` are the seconds of prefill and of all further passes in answers that are not recorded.
    """
    recorder = instrument(generation.model, scenario.model, machine.clock)
    try:
        with recorder.counting():
            generation.run(phase=recorder.phase)
        whole_s = []
        for _ in range(RECORDED_QUICK if quick else RECORDED):
            with recorder.recording():
                whole_s.append(sum(generation.run(reader_of(machine.clock), recorder.phase)[1]))
        rows = recorder.rows(scenario.cluster.device, _arithmetic(scenario))
        before = [rows_of([step], {}) for step in recorder.steps]
        if machine.kind == "cpu":
            rows, *before = (_undisturbed(some, plain_s) for some in (rows, *before))
        answers = [{_address(row): float(row.time_s) for row in some} for some in before]
    finally:
        recorder.remove()
    return {
        "rows": [_as_generation(row) | {"samples_s": [a.get(_address(row), 0.0) for a in answers]} for row in rows],
        "overhead": float(np.median(whole_s)) / float(plain_s.sum()) - 1.0,
    }


def _undisturbed(rows: Sequence[Row], plain_s: NDArray[np.float64]) -> list[Row]:
    """Without what recording adds, of which prefill and decoding each say how much there is."""
    phases = dict(zip(("prefill", "decode"), plain_s, strict=True))
    found = [r for name, s in phases.items() for r in without_overhead([r for r in rows if r.phase == name], float(s))]
    return [*found, *(r for r in rows if r.phase not in phases)]


def _address(row: Row) -> tuple[str, ...]:
    return row.phase, row.block, row.module, row.operator


def _as_generation(row: Row) -> dict[str, Any]:
    """A row as a mapping; what follows the logits is the choice of a token, not a loss."""
    return asdict(row if row.operator != LOSS.operator else replace(row, operator="sampling"))


def _arithmetic(scenario: GenerationScenario) -> str | None:
    """The type whose peak bounds go by, where the device has one."""
    return scenario.plan.dtype if scenario.plan.dtype in scenario.cluster.device.peak_flops else None


def _record(generation: Generation, machine: Machine, asked: Asked) -> dict[str, Any]:
    """What ran, by whom."""
    import torch
    import transformers

    return {
        "implementation": asked.way,
        "attention": getattr(generation.model.config, "_attn_implementation", ""),
        "class": type(generation.model).__name__,
        "library": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "threads": machine.threads,
    }
