"""Measure generation with transformers: independent runs, each in a process of its own, as the profile of a prediction.

A run warms up, generates until its times are known, and then records modules and memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, refuse
from sightline.loading import generation_from_mapping
from sightline.loading.clusters.this_machine import processor
from sightline.measurement.hardware import EnergyWatch, MemoryWatch, state_bytes
from sightline.measurement.machine import Machine, import_torch, machine_of, require, wait_for
from sightline.measurement.models import SEED, build_plain_model, check_checkpoint, preload, quantize
from sightline.measurement.modules.instrument import instrument, rows_of, without_overhead
from sightline.measurement.modules.timeline import LOSS, Reader, reader_of
from sightline.measurement.operators.kernels import chosen
from sightline.measurement.processes import cases
from sightline.measurement.processes.isolation import Emit, UnsupportedCaseError
from sightline.measurement.processes.ranks import Ranks, run_ranks
from sightline.measurement.timing import Clock, HostClock, Phase, Rule, measure_calls, median_of_runs, spread_of_samples
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.profile import BOUNDS, Profile, Row
from sightline.scenario import GenerationScenario

if TYPE_CHECKING:
    import torch

FRAMEWORKS = ("transformers", "reference")
"""Frameworks that a scenario may name: transformers itself, or none in particular."""
WEIGHTS = ("nf4", "int8")
"""Formats of weights that bitsandbytes has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of generating."""

    attention: Literal["flash", "eager"]
    cache: Literal["dynamic", "static"]
    """Keys and values grow with every token, or lie in room taken beforehand."""
    compiled: bool = False
    """Decode steps go through PyTorch's compiler; on a GPU as one captured graph."""


WAYS = {
    "dynamic": Way(attention="flash", cache="dynamic"),
    "static": Way(attention="flash", cache="static"),
    "compiled": Way(attention="flash", cache="static", compiled=True),
    "eager": Way(attention="eager", cache="dynamic"),
}
"""By the name that ``--implementation`` gives them; the first is what transformers does by default."""


def way_of(scenario: GenerationScenario, implementation: str | None) -> str:
    """Return the way's name: the one asked for, else compiled where the plan captures graphs.

    Raises:
        InputError: There is no such way.
        UnsupportedCaseError: The scenario asks for something that transformers is not measured with.
    """
    name = chosen("generation", implementation, tuple(WAYS))
    reasons = list(_unsupported(scenario))
    if reasons:
        raise UnsupportedCaseError("; ".join(reasons))
    captures = scenario.plan.cuda_graphs and scenario.plan.engine.name == "transformers"
    return "compiled" if implementation is None and captures else name


def weight_format(scenario: GenerationScenario) -> str:
    """Return what the weights of matmuls are kept in: none (the plan's dtype), nf4 or int8."""
    return next((word for word in scenario.plan.quantization or () if word in WEIGHTS), "none")


def _unsupported(scenario: GenerationScenario) -> Iterator[str]:
    plan, work = scenario.plan, scenario.workload
    if plan.engine.name not in FRAMEWORKS:
        yield f"plan.framework is '{plan.engine.name}'; allowed when measuring: {', '.join(FRAMEWORKS)}"
    for degree in ("tensor_parallel", "pipeline_parallel", "data_parallel", "replicas"):
        if getattr(plan, degree) != 1:
            yield f"plan.{degree} is {getattr(plan, degree)}; allowed when measuring generation: 1"
    for word in plan.quantization or ():
        if word not in WEIGHTS:
            yield f"plan.quantization is '{word}'; allowed when measuring generation: none, {', '.join(WEIGHTS)}"
    if scenario.model.weights not in ("bf16", "fp16", "fp32") and plan.quantization is None:
        yield (f"the model weights are in {scenario.model.weights}; allowed when measuring: none, {', '.join(WEIGHTS)}")
    for name, is_asked in (
        ("workload.continuous", work.continuous),
        ("workload.prefix_tokens", bool(work.prefix_tokens)),
        ("workload.repeated_token", work.repeated_token),
        ("workload.sampling", work.sampling is not None and not work.sampling.greedy),
        ("plan.speculative", plan.speculative is not None),
        ("plan.disaggregate", plan.disaggregate is not None),
        ("plan.chunked_prefill", plan.chunked_prefill),
    ):
        if is_asked:
            yield f"{name} is set; only a static batch of whole prompts can be measured"


class Generation:
    """A model that answers the same batch of prompts again and again, by the most likely token."""

    def __init__(self, model: Any, way: Way, prompts: "torch.Tensor", output_tokens: int) -> None:
        self.model, self._way = model, way
        self.prompts, self.output_tokens = prompts, output_tokens
        self._decode = _compiled(model, prompts.device.type) if way.compiled else model
        self.cache: Any = None

    def run(
        self, reader: Reader | None = None, phase: Phase = lambda _: nullcontext()
    ) -> "tuple[torch.Tensor, list[float]]":
        """Answer once: the tokens (sequences x output tokens), and the seconds of each pass if there is a ``reader``.

        The first pass is the prefill, every other yields one token per sequence.
        """
        import torch

        with torch.inference_mode(), _attention(self._way, self.prompts.device.type):
            self.cache = self._empty_cache()
            read = (lambda: None) if reader is None else reader.read
            wait_for(self.prompts.device.type)
            readings = [read()]
            with phase("prefill"):
                token = self._pass(self.model, self.prompts)
            readings.append(read())
            tokens = [token]
            for _ in range(self.output_tokens - 1):
                with phase("decode"):
                    token = self._pass(self._decode, token)
                readings.append(read())
                tokens.append(token)
            seconds = [] if reader is None else list(reader.differences(readings))
            return torch.cat(tokens, dim=1), seconds

    def _pass(self, model: Any, tokens: "torch.Tensor") -> "torch.Tensor":
        """One pass over new tokens; the head sees the last one of each sequence alone."""
        import torch

        if self._way.compiled:
            begin_step: Any = torch.compiler.cudagraph_mark_step_begin
            begin_step()
        out = model(input_ids=tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        chosen: torch.Tensor = out.logits[:, -1].argmax(dim=-1, keepdim=True)
        # A captured graph writes the next logits where these lie.
        return chosen.clone() if self._way.compiled else chosen

    def _empty_cache(self) -> Any:
        from transformers import DynamicCache, StaticCache

        if self._way.cache == "dynamic":
            return DynamicCache(config=self.model.config)
        if self.cache is None:
            length = self.prompts.shape[1] + self.output_tokens
            return StaticCache(config=self.model.config, max_cache_len=length)
        self.cache.reset()
        return self.cache


def cached_bytes(cache: Any) -> float:
    """Return what a cache holds."""
    held = [t for layer in cache.layers for t in (layer.keys, layer.values) if t is not None]
    return float(sum(t.numel() * t.element_size() for t in held))


def random_prompts(vocab_size: int, batch: int, tokens: int, device: str, seed: int) -> "torch.Tensor":
    """Return a batch of random token strings (sequences x tokens)."""
    import torch

    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab_size, (batch, tokens), generator=random).to(device)


def _compiled(model: Any, kind: str) -> Any:
    import torch

    compiled: Any = torch.compile(model, mode="reduce-overhead" if kind == "cuda" else "default", dynamic=False)
    return compiled


def _attention(way: Way, kind: str) -> AbstractContextManager[None]:
    """Fused kernels where the way has them; a decode step's mask may leave a GPU only the plain one."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(fused, set_priority=True) if way.attention == "flash" and kind == "cuda" else nullcontext()


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
                "tpot_s": float(np.mean(further)) if further else None,
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


CASE = f"{__name__}:measure_case"
RUNS = 3
"""Independent runs: another process finds other memory, another clock, another order of everything."""


def measure_case(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario; ``arguments`` are those of a run, and ``threads`` of each."""
    own = {key: value for key, value in arguments.items() if key != "threads"}
    runs = []
    for number in range(1 if arguments["quick"] else RUNS):

        def send(sample: Mapping[str, Any], run: int = number) -> None:
            emit({"run": run, **sample})

        runs += run_ranks(RUN, own, Ranks(here=1, threads=arguments["threads"]), send)
    return result_of(generation_from_mapping(arguments["scenario"]), runs)


LONGEST_S = 3600.0
"""A case may take so long."""


def cases_of(scenarios: Sequence[GenerationScenario], settings: cases.Settings) -> list[cases.Case]:
    """Return a case for each scenario.

    Raises:
        InputError: A package is missing, the machine cannot do what a scenario asks, or a model does not fit into it.
    """
    asked: dict[str, Any] = {"quick": settings.quick, "weights": settings.weights, "threads": processor().cores}
    ways = _checked(scenarios, settings)
    return [cases.case_of(s, CASE, LONGEST_S, way=way, **asked) for s, way in zip(scenarios, ways, strict=True)]


def measure_generation(scenario: GenerationScenario, settings: cases.Settings) -> Profile:
    """Measure one scenario in this process: a single run, of which nothing is stored.

    Raises:
        InputError: A package is missing, the machine cannot do what is asked, or the model does not fit into it.
        WorkError: Memory ran out.
    """
    (way,) = _checked([scenario], settings)
    asked = Asked(way=way, quick=settings.quick, weights=settings.weights)
    try:
        run = measure_generation_run(scenario, asked, lambda _: None)
    except UnsupportedCaseError as error:
        raise InputError(str(error)) from error
    result = result_of(scenario, [run])
    return cases.profile_of(scenario, result, result["rows"])


def _checked(scenarios: Sequence[GenerationScenario], settings: cases.Settings) -> list[str]:
    """Each scenario's way; everything that keeps one from being measured is a problem of its own."""
    require("torch", "transformers")
    ways, problems = [], []
    for scenario in scenarios:
        try:
            ways.append(way_of(scenario, settings.implementation))
            if settings.weights is not None:
                check_checkpoint(scenario.model, Path(settings.weights))
        except (UnsupportedCaseError, InputError) as error:
            problems += str(error).splitlines()
            continue
        if not settings.force and (too_large := cases.why_too_large(predict_generation(scenario))):
            problems.append(too_large)
    refuse(problems)
    return ways


Runs = Sequence[Mapping[str, Any]]
"""What `measure_run` returned, a mapping per run."""


def result_of(scenario: GenerationScenario, runs: Runs) -> dict[str, Any]:
    """Return a measurement's own result keys, and ``rows`` with the 80 % interval of their seconds."""
    times = _times(runs)
    (ttft_s, ttft_ends), (tpot_s, tpot_ends), (latency_s, ends) = (median_of_runs(t) for t in times.values())
    # Whatever is derived from both medians, as everywhere.
    whole_s = ttft_s + (float(scenario.workload.output_tokens) - 1.0) * tpot_s
    tokens = float(scenario.workload.batch * scenario.workload.output_tokens)
    low, high = (whole_s * end / latency_s for end in ends)
    rows = _rows(runs)
    intervals = {
        "ttft_s": ttft_ends,
        "tpot_s": tpot_ends,
        "latency_s": (low, high),
        "output_tokens_per_s": (tokens / high, tokens / low),
    }
    return {
        "source": "measured",
        "fits": True,
        "ttft_s": ttft_s,
        "tpot_s": tpot_s or None,
        "latency_s": whole_s,
        "output_tokens_per_s": tokens / whole_s,
        "phases": {
            "prefill": ttft_s,
            "decode": whole_s - ttft_s,
            "communication": 0.0,
            "transfer": 0.0,
            "host": 0.0,
        },
        "memory_bytes": _memory([run["memory"] for run in runs]),
        "energy_j": _mean([run["energy_j"] for run in runs]),
        "limits": _limits(rows, ttft_s, whole_s),
        "interval": {key: list(ends) for key, ends in intervals.items() if ends[0] > 0},
        "evidence": {"framework": "measured"},
        "measurement": _measurement(runs, times),
        "warnings": [
            *cases.remarks_on_times(*ends, latency_s, stable=all(run["stable"] for run in runs)),
            *_differences(scenario),
        ],
        "rows": rows,
    }


def _times(runs: Runs) -> dict[str, list[list[float]]]:
    """Seconds to the first token, per further token and in all, of every answer of every run.

    Without further tokens they take 0.
    """
    answers = [[np.asarray(passes) for passes in run["passes_s"]] for run in runs]
    return {
        "ttft_s": [[float(passes[0]) for passes in run] for run in answers],
        "tpot_s": [[float(passes[1:].mean()) if len(passes) > 1 else 0.0 for passes in run] for run in answers],
        "latency_s": [[float(passes.sum()) for passes in run] for run in answers],
    }


def _rows(runs: Runs) -> list[dict[str, Any]]:
    """Rows with the mean over all recorded answers, and an interval as wide as that of their median."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in (row for run in runs for row in run.get("rows", ())):
        found.setdefault((row["phase"], row["block"], row["module"], row["operator"]), []).append(row)
    return [_row(same) for same in found.values()]


def _row(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    samples = [row["samples_s"] for row in same]
    mean_s = float(np.mean(np.concatenate(samples)))
    ends = {}
    if min(min(s) for s in samples) > 0:
        median_s, (low, high) = median_of_runs(samples)
        ends = {"low_s": mean_s * low / median_s, "high_s": mean_s * high / median_s}
    about = {key: value for key, value in same[0].items() if key != "samples_s"}
    return {**about, "time_s": mean_s, "exposed_s": mean_s, **ends}


def _memory(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Bytes by part of the run that held most."""
    most = max(runs, key=cases.held_bytes)
    return cases.memory_by_part(most, {part: most[part] for part in ("weights", "kv_cache")})


def _limits(rows: Sequence[Mapping[str, Any]], ttft_s: float, whole_s: float) -> dict[str, float]:
    """The latency by what bounds it: as the rows have it; without any, arithmetic in prefill and memory in decode."""
    if rows:
        return cases.limits_of(rows, whole_s)
    return {**dict.fromkeys(BOUNDS, 0.0), "compute": ttft_s, "memory": whole_s - ttft_s}


def _measurement(runs: Runs, times: Mapping[str, list[list[float]]]) -> dict[str, Any]:
    overheads = [run["overhead"] for run in runs if "overhead" in run]
    return {
        **runs[0]["record"],
        "runs": len(runs),
        "repeats": [len(run["passes_s"]) for run in runs],
        "warm_up": [run["warm_up"] for run in runs],
        "stable": all(run["stable"] for run in runs),
        "spread_s": {key.removesuffix("_s"): spread_of_samples(samples) for key, samples in times.items()},
        "peak_memory_bytes": {key: max(run["memory"][key] for run in runs) for key in runs[0]["memory"]},
        **({"instrumentation_overhead": float(np.median(overheads))} if overheads else {}),
    }


def _differences(scenario: GenerationScenario) -> list[str]:
    """How transformers generates otherwise than a prediction takes it to."""
    if scenario.model.latent is None:
        return []
    return [
        (
            "transformers expands the latents of all tokens again for each token; the prediction uses products with "
            "the latents"
        )
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
