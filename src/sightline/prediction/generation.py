"""The prediction of generation: a batch's prefill and its decode steps, assembled into a profile."""

from dataclasses import replace

import numpy as np

from sightline.cost.inference_constants import InferenceConstants
from sightline.generation_profile import GenerationProfile
from sightline.prediction.energy import energy_of_generation_j
from sightline.prediction.generation_evidence import evidence_of_passes
from sightline.prediction.generation_interval import generation_intervals
from sightline.prediction.generation_memory import generation_memory
from sightline.prediction.generation_pricing import Priced, price_generation
from sightline.prediction.generation_rows import generation_rows
from sightline.program.formats import Formats
from sightline.program.inference.cache import cached_bytes
from sightline.quantities import Number
from sightline.scenario import GenerationScenario


def predict_generation(scenario: GenerationScenario, constants: InferenceConstants | None = None) -> GenerationProfile:
    """Predict a batch's generation; sizes and degrees may be arrays that broadcast.

    ``constants`` replace those of the catalog's engine, as a fit does.
    """
    decoding = price_generation(scenario, constants)
    prefilling = decoding
    moved_s: Number = 0.0
    split = scenario.plan.disaggregate
    if split is not None:
        work = replace(scenario.workload, batch=split.prefill_batch)
        prefilling = price_generation(replace(scenario, workload=work, plan=split.prefill), constants)
        moved_s = _cache_transfer_s(scenario, prefilling.formats)
    return _profile(scenario, prefilling, decoding, moved_s)


def _cache_transfer_s(scenario: GenerationScenario, formats: Formats) -> Number:
    """Seconds of one prompt's keys and values from a prefill worker to a decode worker, over the nodes' network."""
    work, cluster = scenario.workload, scenario.cluster
    return cached_bytes(scenario.model, formats, work.prompt_tokens * 1.0) / cluster.network.bandwidth_per_node


def _profile(scenario: GenerationScenario, prefilling: Priced, decoding: Priced, moved_s: Number) -> GenerationProfile:
    work, prefill, decode = scenario.workload, prefilling.prefill, decoding.decode
    first_s = prefill.count * prefill.pass_s + moved_s
    tokens = np.maximum(work.output_tokens - 1.0, 0.0)
    step_s = decode.count * decode.pass_s / np.maximum(tokens, 1.0)
    stalls: Number = 0.0
    if work.continuous and scenario.plan.disaggregate is None:
        # While a sequence makes its tokens, every other one is replaced once, and its prompt takes the device.
        stalls = scenario.workload.batch / (scenario.plan.data_parallel * scenario.plan.replicas)
    tpot_s = step_s + stalls * first_s / np.maximum(work.output_tokens, 1.0)
    prefills = prefill.count * (1.0 + stalls * tokens / np.maximum(work.output_tokens, 1.0))
    phases = {
        "prefill": prefills * (prefill.times.compute_s + prefill.times.memory_s),
        "decode": decode.count * (decode.times.compute_s + decode.times.memory_s),
        "communication": prefills * prefill.times.collective_s + decode.count * decode.times.collective_s,
        "transfer": prefills * prefill.transfer_s + decode.count * decode.transfer_s + moved_s,
        "host": prefills * prefill.host_s + decode.count * decode.host_s,
    }
    limits = {
        "compute": prefills * prefill.times.compute_s + decode.count * decode.times.compute_s,
        "memory": prefills * prefill.times.memory_s + decode.count * decode.times.memory_s,
        "network": phases["communication"] + phases["transfer"],
        "host": phases["host"],
        "bubble": 0.0 * phases["host"],
    }
    memory = generation_memory(decoding.scenario, decoding.formats, decode.of, prefill.of)
    scalar = np.ndim(tpot_s) == 0
    profile = GenerationProfile(
        scenario=scenario,
        source="predicted",
        ttft_s=first_s,
        tpot_s=tpot_s,
        phases=phases,
        memory_bytes=memory,
        fits=memory["total"] <= scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction,
        limits=limits,
        energy_j=energy_of_generation_j(scenario, limits),
        rows=generation_rows(prefilling, decoding) if scalar else (),
        evidence=evidence_of_passes(decoding),
        warnings=scenario.warnings,
    )
    return replace(profile, interval=generation_intervals(profile, decoding.constants)) if scalar else profile
