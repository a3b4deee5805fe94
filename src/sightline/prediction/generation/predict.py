"""The prediction of generation: a batch's prefill and its decode steps, assembled into a profile."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import exp

import numpy as np

from sightline.cost.attention.constants import PHASE_PARTS, AttentionPhase
from sightline.cost.collectives.families import collective_evidence
from sightline.cost.families import evidence_of, family_of
from sightline.cost.matmul.constants import matmul_evidence
from sightline.cost.matmul.grouped import GroupedLayout, load_grouped
from sightline.prediction.changes import what_would_fit
from sightline.prediction.energy import energy_of_generation_j
from sightline.prediction.generation.engine_constants import (
    ONE_BY_ONE,
    InferenceConstants,
    borrowed_releases,
    load_inference,
)
from sightline.prediction.generation.latencies import Latencies, Workers, latencies, price_workers
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import Phase
from sightline.prediction.generation.rows import generation_rows
from sightline.prediction.generation.worker import Worker
from sightline.prediction.operators.answer import MEASURED_DTYPES, within
from sightline.profile import Evidence, Profile
from sightline.program.blocks.layer import mixer_of
from sightline.program.formats import conversion
from sightline.quantities import Number
from sightline.scenario import Device, GenerationScenario

_WORST: tuple[Evidence, ...] = ("datasheet", "extrapolated", "calibrated")
_LAYOUTS: tuple[GroupedLayout, ...] = ("masked", "contiguous")


def evidence_of_passes(worker: Worker) -> dict[str, str]:
    """Return the weakest evidence of each kind of operator that the passes have.

    Whole kinds only: sizes beyond those of the tables are not looked at.
    """
    scenario = worker.scenario
    device, model, plan = scenario.cluster.device, scenario.model, scenario.plan
    if not worker.ranks.device_model.asynchronous:
        kinds = ("matmul", "prefill attention", "decode attention")
        return {kind: worker.ranks.device_model.evidence(kind) for kind in kinds}
    kernels = {worker.formats.parts[part] for part in ("attention", "dense", "head")}
    decode: AttentionPhase = "mla-decode" if model.latent is not None else "decode"
    usual = _has_measured_elements(worker)
    found: dict[str, str] = {
        "matmul": min((matmul_evidence(device, kernel) for kernel in kernels), key=_WORST.index),
        "prefill attention": within(evidence_of(device, PHASE_PARTS["prefill"]), measured=usual),
        "decode attention": within(evidence_of(device, PHASE_PARTS[decode]), measured=usual),
    }
    for other in filter(None, (mixer_of(model, kind).calibration for kind in model.kinds)):
        name, part = other
        found[name] = evidence_of(device, part)
    if model.experts is not None:
        found["experts"] = _experts(device, worker.formats.parts["experts"])
    ranks = plan.tensor_parallel * plan.data_parallel
    if np.any(np.greater(ranks, 1)):
        inside = bool(np.all(np.less_equal(ranks, scenario.cluster.per_node)))
        found["collectives"] = within(collective_evidence(scenario.cluster, "all_reduce"), measured=inside)
    return found


def _has_measured_elements(worker: Worker) -> bool:
    """Whether attention is of 16-bit elements and a cache of them, or of fp8 on a device that computes in it."""
    plan, model, device = worker.scenario.plan, worker.scenario.model, worker.scenario.cluster.device
    cache = next((word for word in plan.quantization or () if word.startswith("kv-")), f"kv-{model.kv_cache}")
    stored = cache != "kv-int8" and (cache != "kv-fp8" or "fp8" in device.peak_flops)
    return stored and plan.dtype in (*MEASURED_DTYPES, "fp8")


def _experts(device: Device, kernel: str) -> Evidence:
    """The weaker of both layouts of the experts' matmuls."""
    family = family_of(device, "grouped")
    said = {load_grouped(family, "16-bit" if kernel == "32-bit" else kernel, layout)[1] for layout in _LAYOUTS}
    return within(evidence_of(device, "grouped"), measured=said == {"calibrated"})


Predict = Callable[[GenerationScenario], Profile]


def predict_generation(scenario: GenerationScenario, constants: InferenceConstants | None = None) -> Profile:
    """Predict a batch's generation; sizes and degrees may be arrays that broadcast.

    ``constants`` replace those of the catalog's engine, as a fit does.
    """
    again = partial(predict_generation, constants=constants)
    engine, evidence = scenario.plan.engine, "given"
    workers = price_workers(scenario)
    if constants is None and not workers.decoding.worker.ranks.device_model.asynchronous:
        constants, evidence = ONE_BY_ONE, "estimated"
    elif constants is None:
        constants, evidence = load_inference(engine.name, engine.version)
    return _profile(workers, latencies(workers, constants), constants, evidence, again)


def _profile(
    workers: Workers, found: Latencies, constants: InferenceConstants, evidence: str, again: Predict
) -> Profile:
    scenario = workers.scenario
    parts = [(found.prefills, found.prefill), (found.steps, found.decode)]
    memory = generation_memory(workers.decoding, workers.prefilling, scenario.workload)
    on_device = constants.multiplying_on(scenario.cluster.device)
    passes = (workers.prefilling.prefill, workers.decoding.decode)
    scalar = np.ndim(found.tpot_s) == 0
    return Profile(
        scenario=scenario,
        source="predicted",
        ttft_s=found.ttft_s,
        tpot_s=found.tpot_s,
        phases=lambda _: _phases(parts, workers.moved_s),
        memory_bytes=memory,
        fits=memory["total"] <= scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction,
        limits=lambda _: _limits(parts, workers.moved_s),
        energy_j=lambda p: energy_of_generation_j(scenario, p.limits),
        rows=(lambda _: generation_rows(*passes, parts, workers.moved_s, on_device)) if scalar else (),
        interval=(lambda p: _intervals(p, constants)) if scalar else {},
        advice=(lambda p: what_would_fit(p, again)) if scalar else (),
        evidence=lambda _: evidence_of_passes(workers.decoding.worker) | {"framework": evidence},
        warnings=lambda _: (*scenario.warnings, *_remarks(workers.decoding.worker)),
    )


def _remarks(worker: Worker) -> Iterator[str]:
    """A remark for each format that the device has no products in, and for a release that was not measured."""
    formats, engine = worker.formats, worker.plan.engine
    yield from borrowed_releases(engine.name, engine.version)
    for kernel in dict.fromkeys(formats.parts.values()):
        yield from conversion(kernel, formats.operands[kernel], worker.scenario.cluster.device)


def _phases(parts: list[tuple[Number, Phase]], moved_s: Number) -> dict[str, Number]:
    """Seconds of a batch's latency by what happens in them."""
    work = [count * phase.times.work_s for count, phase in parts]
    return {
        "prefill": work[0],
        "decode": work[1],
        "communication": sum(count * phase.times.collective_s for count, phase in parts),
        "transfer": sum((count * phase.transfer_s for count, phase in parts), moved_s),
        "host": sum(count * phase.host_s for count, phase in parts),
    }


def _limits(parts: list[tuple[Number, Phase]], moved_s: Number) -> Mapping[str, Number]:
    """The same seconds by what bounds them."""
    network_s = sum((count * (phase.times.collective_s + phase.transfer_s) for count, phase in parts), moved_s)
    return {
        "compute": sum(count * phase.times.compute_s for count, phase in parts),
        "memory": sum(count * phase.times.memory_s for count, phase in parts),
        "network": network_s,
        "host": sum(count * phase.host_s for count, phase in parts),
        "bubble": 0.0 * network_s,
    }


def _intervals(profile: Profile, constants: InferenceConstants) -> dict[str, tuple[float, float]]:
    """Return the interval of each result; none where the spreads are unknown.

    Symmetric in the logarithm. The latency joins both spreads by their shares of it; they add up, because the same
    operators and constants err in both.
    """
    scenario = profile.scenario
    pools = scenario.plan.disaggregate is not None
    first = constants.ttft_spread
    step = constants.step_spread(scenario.model.name, scenario.cluster.device.name, pools=pools)
    if first <= 0 or step <= 0:
        return {}
    share = float(profile.ttft_s) / float(profile.latency_s)
    whole = share * first + (1.0 - share) * step
    rate = step if profile.scenario.workload.continuous else whole
    spreads = {"ttft_s": first, "tpot_s": step, "latency_s": whole, "output_tokens_per_s": rate}
    return {key: _around(float(getattr(profile, key)), spread) for key, spread in spreads.items()}


def _around(value: float, spread: float) -> tuple[float, float]:
    return value / exp(spread), value * exp(spread)
