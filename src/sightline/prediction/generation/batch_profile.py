"""The prediction of generation: a batch's prefill and its decode steps, assembled into a profile."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from sightline.cost.attention_constants import PHASE_PARTS, AttentionPhase
from sightline.cost.collectives.libraries import collective_evidence
from sightline.cost.device_model import device_model
from sightline.cost.families import Evidence, evidence_of, family_of
from sightline.cost.l2 import l2_s
from sightline.cost.matmul import matmul_evidence
from sightline.cost.power import Watts, watts_of
from sightline.prediction.changes import what_would_fit
from sightline.prediction.common_figures import (
    MEASURED_DTYPES,
    bound_of,
    intervals,
    lower_bounds,
    operator_row,
    summed,
    understood,
    within,
)
from sightline.prediction.generation.engine_constants import (
    ONE_BY_ONE,
    InferenceConstants,
    borrowed_releases,
    load_inference,
    missing_measurements,
    serving_one_by_one,
)
from sightline.prediction.generation.memory import generation_memory, with_waiting
from sightline.prediction.generation.phases import Phase, PricedGeneration
from sightline.prediction.generation.policies import Latencies, Workers, in_step_s, latencies, price_workers
from sightline.prediction.generation.replica import PricedPass, Worker
from sightline.prediction.generation.sites import RATES, at_pace, least_latencies
from sightline.prediction.generation.uncertainty import spreads
from sightline.profile import Profile, Row
from sightline.profile.profile import exposed
from sightline.program import Collective
from sightline.program.blocks.layer import mixer_of
from sightline.program.formats import cache_word, conversion
from sightline.quantities import Count, Number, larger
from sightline.scenario import Device, GenerationScenario

if TYPE_CHECKING:
    from sightline.cost.grouped_matmul import GroupedLayout


def levels_by_phase(
    workers: Workers, prefill: Phase, decode: Phase, constants: InferenceConstants
) -> dict[str, dict[str, Number]]:
    """Return the seconds of ``prefill`` and of ``decode`` by level (``LEVELS``); together they sum to the latency.

    Those of prefill are bound as the time to first token is, and hold the transfer of keys and values to workers that
    decode; those of decode are bound as the time per further token is. ``prefill`` and ``decode`` hold the seconds of
    all their passes.
    """
    prefilling, decoding = workers.prefilling, workers.decoding
    own = workers.prefill_constants or constants
    first = _levels(prefill, _beyond_l2(prefilling, prefilling.prefill, own))
    first["network"] = first["network"] + workers.moved_s
    return {"prefill": first, "decode": _levels(decode, _beyond_l2(decoding, decoding.decode, constants))}


class _Shares(NamedTuple):
    """Shares of the work of operators that L2 binds."""

    of_compute: Number
    """Of those whose arithmetic outlasts their memory traffic."""
    of_memory: Number
    """Of the others."""


def _levels(phase: Phase, l2: _Shares) -> dict[str, Number]:
    """A phase's drafts and lost time between kernels are bound as its operators are."""
    compute_s, memory_s = phase.times.compute_s, phase.times.memory_s
    return {
        "compute": compute_s * (1.0 - l2.of_compute),
        "dram": memory_s * (1.0 - l2.of_memory),
        "l2": compute_s * l2.of_compute + memory_s * l2.of_memory,
        "network": phase.times.collective_s + phase.transfer_s,
        "host": phase.host_s,
    }


def _beyond_l2(priced: PricedGeneration, priced_pass: PricedPass, constants: InferenceConstants) -> _Shares:
    """Which share of a pass's work L2 binds, of each plan."""
    prices = priced_pass.in_engine(constants)
    whole: list[Number] = [0.0, 0.0]
    beyond: list[Number] = [0.0, 0.0]
    for block in priced_pass.program.blocks:
        for op in block.operators:
            if isinstance(op, Collective):
                continue
            price = prices[id(op)]
            time_s = block.count * op.count * price.time_s
            by_l2 = bound_of(price, l2_s(op, priced_pass.device_model)).l2
            by_compute = price.compute_s >= price.memory_s
            for place, among in enumerate((1.0 * by_compute, 1.0 - by_compute)):
                whole[place] = whole[place] + time_s * among
                beyond[place] = beyond[place] + time_s * among * by_l2
    return _Shares(*(priced.of_each(part / larger(of_all, 1e-30)) for part, of_all in zip(beyond, whole, strict=True)))


_WORST: tuple[Evidence, ...] = ("datasheet", "extrapolated", "calibrated")
_LAYOUTS: "tuple[GroupedLayout, ...]" = ("masked", "contiguous")


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
    evidence: dict[str, str] = {
        "matmul": min((matmul_evidence(device, kernel) for kernel in kernels), key=_WORST.index),
        "prefill attention": within(evidence_of(device, PHASE_PARTS["prefill"]), measured=usual),
        "decode attention": within(evidence_of(device, PHASE_PARTS[decode]), measured=usual),
    }
    for name, part in filter(None, (mixer_of(model, kind).calibration for kind in model.kinds)):
        evidence[name] = evidence_of(device, part)
    if model.experts is not None:
        evidence["experts"] = _experts(device, worker.formats.parts["experts"])
    ranks = plan.tensor_parallel * plan.data_parallel
    if np.any(np.greater(ranks, 1)):
        inside = bool(np.all(np.less_equal(ranks, scenario.cluster.per_node)))
        evidence["collectives"] = within(collective_evidence(scenario.cluster, "all_reduce"), measured=inside)
    return evidence


def _has_measured_elements(worker: Worker) -> bool:
    """Whether attention is of 16-bit elements and a cache of them, or of fp8 on a device that computes in it."""
    plan, model, device = worker.scenario.plan, worker.scenario.model, worker.scenario.cluster.device
    cache = cache_word(model, plan.quantization)
    stored = cache != "kv-int8" and (cache != "kv-fp8" or "fp8" in device.peak_flops)
    return stored and plan.dtype in (*MEASURED_DTYPES, "fp8")


def _experts(device: Device, kernel: str) -> Evidence:
    """The weaker of both layouts of the experts' matmuls."""
    from sightline.cost.grouped_matmul import load_grouped

    family = family_of(device, "grouped")
    evidence = {load_grouped(family, "16-bit" if kernel == "32-bit" else kernel, layout)[1] for layout in _LAYOUTS}
    return within(evidence_of(device, "grouped"), measured=evidence == {"calibrated"})


class Knowledge(Protocol):
    """What is known of a site: of one that the catalog has, or of one's own after anchors."""

    def constants(self, scenario: GenerationScenario, base: InferenceConstants) -> InferenceConstants:
        """Return the engine's constants at the scenario's site."""

    def pace(self, scenario: GenerationScenario, quantity: str) -> Number:
        """Return the factor on a result's seconds."""

    def narrowed(self, scenario: GenerationScenario, usual: Mapping[str, float]) -> dict[str, float]:
        """Return the logarithmic half-widths of the 80 % intervals, from those without anchors."""

    def evidence(self, scenario: GenerationScenario, usual: str) -> str:
        """Return what the constants rest on."""


def predict_generation(
    scenario: GenerationScenario, constants: InferenceConstants | None = None, known: Knowledge | None = None
) -> Profile:
    """Predict a batch's generation; sizes and degrees may be arrays that broadcast.

    ``constants`` replace those of the catalog's engine, as a fit does; ``known`` corrects them for one's own cluster.
    """
    if scenario.cluster.groups:
        from sightline.prediction.generation.heterogeneous import unlike_generation

        return unlike_generation(scenario, partial(predict_generation, constants=constants, known=known))
    return profile_of(price_workers(scenario), constants, known)


def profile_of(
    workers: Workers, constants: InferenceConstants | None = None, known: Knowledge | None = None
) -> Profile:
    """Return what priced workers make of their scenario, as `predict_generation` does."""
    scenario = workers.scenario
    again = partial(predict_generation, constants=constants, known=known)
    found_constants, evidence = (constants, "given") if constants is not None else engine_constants(scenario)
    if found_constants.is_bound:
        known = None
    if known is not None:
        found_constants, evidence = known.constants(scenario, found_constants), known.evidence(scenario, evidence)
    constants = found_constants.running_on(scenario.cluster)
    split = scenario.plan.disaggregate
    if split is not None and split.prefill_cluster is not None:
        workers = replace(workers, prefill_constants=found_constants.running_on(split.prefill_cluster))
    found = latencies(workers, constants)
    if known is not None:
        found = at_pace(found, constants, known.pace(scenario, "ttft_s"), known.pace(scenario, "tpot_s"))
        workers = found.workers
    whole = {"prefill": found.prefill.scaled(found.prefills), "decode": found.decode.scaled(found.steps)}
    memory: Mapping[str, Number] = generation_memory(workers.decoding, workers.prefilling, scenario.workload)
    if scenario.workload.continuous and split is None:
        memory = with_waiting(memory, scenario)
    details: dict[str, Any] = {}
    if np.ndim(found.tpot_s) == 0:
        details = {
            "rows": lambda _: _rows(workers, found, whole, constants),
            "interval": lambda p: _intervals(p, found, constants, known),
            "advice": lambda p: what_would_fit(p, again),
        }
    return Profile(
        scenario=scenario,
        source="predicted",
        ttft_s=found.ttft_s,
        tpot_s=found.tpot_s,
        phases=lambda _: _phases(whole, workers.moved_s),
        memory_bytes=memory,
        fits=memory["total"] <= scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction,
        limits=lambda _: _limits(whole, workers.moved_s),
        levels=lambda p: summed(*p.levels_by_phase.values()),
        levels_by_phase=lambda _: levels_by_phase(workers, whole["prefill"], whole["decode"], constants),
        energy_j=lambda _: energy_j(workers, whole, constants),
        evidence=lambda _: evidence_of_passes(workers.decoding.worker) | {"framework": evidence},
        missing=lambda _: {} if evidence == "calibrated" else _missing(workers.decoding.worker),
        warnings=lambda _: (*scenario.warnings, *_remarks(workers.decoding.worker)),
        **details,
    )


def energy_j(workers: Workers, whole: Mapping[str, Phase], constants: InferenceConstants) -> Number:
    """Return the joules of all devices in a batch's prefill and decoding; of separate workers one kind idles meanwhile.

    Left out: hosts, network, cooling.
    """
    scenario, split = workers.scenario, workers.scenario.plan.disaggregate
    cluster, prefilling, decoding = scenario.cluster, workers.prefilling, workers.decoding
    steps = [(prefilling, prefilling.prefill, workers.prefill_constants or constants)]
    steps.append((decoding, decoding.decode, constants))
    pools: list[tuple[Count, Watts]] = [(cluster.devices, watts_of(cluster))] * 2
    joules: Number = 0.0
    if split is not None:
        apart = watts_of(split.prefill_cluster or cluster)
        pools = [(split.prefill.devices, apart), (scenario.plan.devices, pools[1][1])]
        joules = workers.moved_s * sum(devices * watts.idle for devices, watts in pools)
    for place, (phase, (priced, one, own)) in enumerate(zip(whole.values(), steps, strict=True)):
        streaming, arithmetic = map(priced.of_each, one.utilization(own))
        (devices, watts), (idle, others), work_s = pools[place], pools[1 - place], phase.times.work_s
        joules = joules + devices * watts.joules(phase.pass_s, streaming * work_s, arithmetic * work_s)
        if split is not None:
            joules = joules + idle * others.idle * phase.pass_s
    return joules


def engine_constants(scenario: GenerationScenario) -> tuple[InferenceConstants, str]:
    """Return the catalog's constants for the engine on the device, and what they rest on."""
    if not device_model(scenario.cluster.device).asynchronous:
        return ONE_BY_ONE, "estimated"
    engine, device = scenario.plan.engine, scenario.cluster.device
    constants, evidence = load_inference(engine.name, engine.version)
    lacking = missing_measurements(engine.name, engine.version, device.name)
    return constants, understood("extrapolated" if lacking else evidence, scenario)


def server_constants(scenario: GenerationScenario) -> tuple[InferenceConstants, str]:
    """Return the same for an engine that answers requests of others, whose code takes time on a processor as well."""
    if device_model(scenario.cluster.device).asynchronous:
        return engine_constants(scenario)
    return serving_one_by_one(scenario.plan.engine.name), "estimated"


def _remarks(worker: Worker) -> Iterator[str]:
    """A remark for each format that the device has no products in, and for a release that was not measured."""
    formats, engine = worker.formats, worker.plan.engine
    yield from borrowed_releases(engine.name, engine.version)
    for kernel in dict.fromkeys(formats.parts.values()):
        yield from conversion(kernel, formats.operands[kernel], worker.scenario.cluster.device)


def _missing(worker: Worker) -> dict[str, str]:
    """What would make the engine's constants calibrated; operators that are called one by one take none of them."""
    if not worker.ranks.device_model.asynchronous:
        return {}
    engine, device = worker.plan.engine, worker.scenario.cluster.device
    lacking = missing_measurements(engine.name, engine.version, device.name)
    return {"framework": lacking} if lacking else {}


def _phases(whole: Mapping[str, Phase], moved_s: Number) -> dict[str, Number]:
    """Seconds of a batch's latency by what happens in them."""
    return {
        **{name: phase.times.work_s for name, phase in whole.items()},
        "communication": sum(phase.times.collective_s for phase in whole.values()),
        "transfer": sum((phase.transfer_s for phase in whole.values()), moved_s),
        "host": sum(phase.host_s for phase in whole.values()),
    }


def _limits(whole: Mapping[str, Phase], moved_s: Number) -> dict[str, Number]:
    """The same seconds by what bounds them."""
    phases = _phases(whole, moved_s)
    network_s = phases["communication"] + phases["transfer"]
    return {
        "compute": sum(phase.times.compute_s for phase in whole.values()),
        "memory": sum(phase.times.memory_s for phase in whole.values()),
        "network": network_s,
        "host": phases["host"],
        "bubble": 0.0 * network_s,
    }


def _intervals(
    profile: Profile, found: Latencies, constants: InferenceConstants, known: Knowledge | None
) -> Mapping[str, tuple[float, float | None]]:
    """The interval of each result, of which no end is faster than physics allows; a bound has none above."""
    if constants.is_bound:
        return lower_bounds(profile, ("ttft_s", "tpot_s", "latency_s"))
    least = least_latencies(found.workers, constants)
    results = intervals(profile, _spreads(profile, constants, known))
    for key, (low, high) in results.items():
        value, bound = float(getattr(profile, key)), float(getattr(least, key))
        faster = key in RATES
        later = max(float(in_step_s(found)) / value, 1.0) if key == "ttft_s" else 1.0
        results[key] = (low, max(value, min(high, bound))) if faster else (min(value, max(low, bound)), high * later)
    return results


def _spreads(profile: Profile, constants: InferenceConstants, known: Knowledge | None) -> dict[str, float]:
    """Spread of each result; none where those of tokens are unknown.

    The latency joins both by their shares of it; they add up, because the same operators and constants err in both.
    """
    scenario = profile.scenario
    first, step = spreads(scenario, constants, lambda: profile.phases["communication"] / profile.latency_s)
    if not step:
        return {}
    share = float(profile.ttft_s) / float(profile.latency_s)
    whole = share * first + (1.0 - share) * step
    rate = step if scenario.workload.continuous and share < 1.0 else whole
    usual = {"ttft_s": first, "tpot_s": step, "latency_s": whole, "output_tokens_per_s": rate}
    return usual if known is None else known.narrowed(scenario, usual)


def _rows(workers: Workers, found: Latencies, whole: Mapping[str, Phase], constants: InferenceConstants) -> list[Row]:
    """Return the rows of a scalar prediction, as if one device with its tensor-parallel peers held all layers.

    By phase their exposed seconds sum to the latency's phases: filling a pipeline, drafting and waiting for workers
    lengthen all operators of a phase alike.
    """
    counts, passes = (found.prefills, found.steps), (workers.prefilling.prefill, workers.decoding.decode)
    rows: list[Row] = []
    own = (workers.prefill_constants or constants, constants)
    for (name, phase), count, priced_pass, there in zip(whole.items(), counts, passes, own, strict=True):
        rows += _of_phase(name, priced_pass, count, phase, there)
    outside = [
        _batch_row("transfer", "pipeline", f"activations in {name}", phase.transfer_s, "network")
        for name, phase in whole.items()
    ]
    outside.append(_batch_row("transfer", "workers", "keys and values in prefill", workers.moved_s, "network"))
    outside += [_batch_row("host", "host", f"host in {name}", phase.host_s, "host") for name, phase in whole.items()]
    return rows + [row for row in outside if row.time_s > 0]


def _of_phase(
    name: str, priced_pass: PricedPass, count: Number, phase: Phase, constants: InferenceConstants
) -> Iterator[Row]:
    """Rows of all passes of a phase: its work, then its collectives."""
    prices, of_phase = priced_pass.in_engine(constants), {"phase": name, "communication": "communication"}
    for sends, whole_s in ((False, phase.times.work_s), (True, phase.times.collective_s)):
        rows = [
            operator_row(
                op,
                prices[id(op)],
                priced_pass.device_model,
                **of_phase,
                block=block.name,
                count=count * block.count * op.count,
            )
            for block in priced_pass.program.blocks
            for op in block.operators
            if count * op.count > 0 and isinstance(op, Collective) == sends
        ]
        yield from exposed(rows, whole_s)


def _batch_row(phase: str, module: str, operator: str, time_s: Number, bound: str) -> Row:
    """The row of something outside of blocks, over the whole batch."""
    s = float(time_s)
    return Row(
        phase=phase,
        block="batch",
        module=module,
        operator=operator,
        time_s=s,
        exposed_s=s,
        bound=bound,
        bound_level=bound,
    )
