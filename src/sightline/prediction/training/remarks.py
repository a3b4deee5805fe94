"""What a prediction leaves out of this very scenario, as sentences for its warnings."""

from collections.abc import Sequence

import numpy as np

from sightline.prediction.training.offload import STAYS, as_kept, fits_on_host, host_bytes
from sightline.profile import StageMemory
from sightline.scenario import Cluster, Scenario

GB = 1e9


def remarks(scenario: Scenario) -> list[str]:
    """Return a sentence for each thing the scenario asks for whose effect is not, or only roughly, predicted."""
    plan, cluster, device = scenario.plan, scenario.cluster, scenario.cluster.device
    sentences = []
    cap = cluster.power_cap_w
    if cap is not None and np.any(np.asarray(cap) > device.tdp_w):
        sentences.append(f"cluster.power_cap of {cap:g} W is above the device's {device.tdp_w:g} W, which holds")
    sentences += _fill(scenario)
    if as_kept(scenario) is not scenario:
        sentences.append(f"plan.offload moves nothing on a processor: {STAYS}")
    if plan.quantization != "none" and plan.adapter is None:
        sentences.append(
            f"weights kept in {plan.quantization} are not trained: without plan.adapter only embedding, head, norms and "
            "biases are"
        )
    chunks = plan.pipeline_parallel * plan.virtual_stages
    if np.ndim(chunks) == 0 and plan.virtual_stages > 1 and scenario.model.layers % chunks:
        sentences.append(
            f"{scenario.model.layers} layers do not divide into {chunks} chunks; they are priced as if they did"
        )
    return sentences


def _fill(scenario: Scenario) -> list[str]:
    """How much of rows of different samples is real; nothing where all are equally long."""
    workload, plan = scenario.workload, scenario.plan
    if workload.lengths is None or plan.micro_batch is None or np.ndim(plan.micro_batch):
        return []
    rows = workload.rows(plan.micro_batch)
    real = rows.real / float(rows.tokens)
    if workload.packing:
        apart = float(rows.tokens**2 / rows.squares)
        return [
            f"packed rows of {rows.tokens:,.0f} tokens are {real:.1%} full; attention works on {apart:.1f} equal samples in each"
        ]
    return [f"of {rows.tokens:,.0f} tokens a sample is padded to, {real:.1%} are real; tokens_per_s counts those"]


def host_remarks(stages: Sequence[StageMemory], cluster: Cluster) -> list[str]:
    """Return a sentence where what one plan offloads is more than the memory of its hosts."""
    needed = host_bytes(stages, cluster)
    if np.ndim(needed) or fits_on_host(stages, cluster):
        return []
    there = float(cluster.host.memory_bytes)
    return [f"offloading needs {float(needed) / GB:.0f} GB of each host's {there / GB:.0f} GB of memory"]
