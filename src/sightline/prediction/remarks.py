"""What a prediction leaves out of this very scenario, as sentences for its warnings."""

import numpy as np

from sightline.scenario import Scenario


def remarks(scenario: Scenario) -> list[str]:
    """Return a sentence for each thing the scenario asks for whose effect is not, or only roughly, predicted."""
    plan, cluster, device = scenario.plan, scenario.cluster, scenario.cluster.device
    sentences = []
    cap = cluster.power_cap_w
    if cap is not None and np.any(np.asarray(cap) > device.tdp_w):
        sentences.append(f"cluster.power_cap of {cap:g} W is above the device's {device.tdp_w:g} W, which holds")
    chunks = plan.pipeline_parallel * plan.virtual_stages
    if np.ndim(chunks) == 0 and plan.virtual_stages > 1 and scenario.model.layers % chunks:
        sentences.append(
            f"{scenario.model.layers} layers do not divide into {chunks} chunks; they are priced as if they did"
        )
    return sentences
