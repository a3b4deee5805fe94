"""The search of training plans against scalar predictions of every plan, one by one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import pytest

from sightline.loading import scenario_from_mapping
from sightline.planning.search import plan
from sightline.planning.training.validity import POSSIBLE
from sightline.prediction.training.predict import profile_of
from sightline.scenario.plan import OFFLOADABLE
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import broken_rules

DENSE = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4}
DENSE |= {"num_key_value_heads": 2, "intermediate_size": 640, "vocab_size": 1024}
EXPERTS = {**DENSE, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
MODELS = {
    "dense": DENSE,
    "experts": EXPERTS,
    "latent": "deepseek-v2-lite",
    "linear": {"same_as": "qwen3-next-80b-a3b", "num_hidden_layers": 4, "num_experts": 16},
}
WORK = {"task": "pretrain", "sequence_length": 64, "global_batch": 8}


def asked(model, plan, devices="4x a100-sxm-80gb", **work):
    return {"model": model, "cluster": devices, "workload": WORK | work, "plan": {"framework": "megatron"} | plan}


def subsets() -> Iterator[frozenset[str]]:
    for count in range(len(OFFLOADABLE) + 1):
        yield from map(frozenset, combinations(OFFLOADABLE, count))


def every_plan(mapping):
    """Every distinct valid plan of a scenario, each a scalar scenario, by plain loops."""
    fixed = mapping["plan"]
    base = scenario_from_mapping({**mapping, "plan": {"framework": fixed["framework"], "micro_batch": 1}})
    devices, layers, batch = base.cluster.devices, base.model.layers, base.workload.global_batch
    experts = base.model.experts
    degrees = [d for d in range(1, devices + 1) if devices % d == 0]
    free = {
        "tensor_parallel": degrees,
        "pipeline_parallel": degrees,
        "context_parallel": degrees,
        "expert_parallel": [1]
        if experts is None
        else [e for e in range(1, experts.count + 1) if experts.count % e == 0],
        "micro_batch": [b for b in range(1, batch + 1) if batch % b == 0],
        "sequence_parallel": [False, True],
        "virtual_stages": [v for v in range(1, layers + 1) if layers % v == 0],
        "schedule": ["1f1b", "gpipe", "zero-bubble", "interleaved", "dualpipe"],
        "zero_stage": [0, 1, 2, 3],
        "recompute": ["none", "selective", "full"],
        "offload": list(subsets()),
        "attention": ["flash", "eager"],
    }
    values = {name: fixed[name]["any"] if name in fixed else usual for name, usual in free.items()}
    seen = set()
    for chosen in product(*values.values()):
        fields = dict(zip(values, chosen, strict=True))
        ranks = fields["tensor_parallel"] * fields["pipeline_parallel"] * fields["context_parallel"]
        if devices % ranks or (fields["schedule"] == "interleaved") != (fields["virtual_stages"] > 1):
            continue
        replicas = devices // ranks
        if fields["tensor_parallel"] == 1:
            fields["sequence_parallel"] = False
        if fields["pipeline_parallel"] == 1 and fields["schedule"] in ("gpipe", "zero-bubble"):
            fields["schedule"] = "1f1b"
        if replicas * fields["context_parallel"] == 1:
            fields["zero_stage"] = 0
        key = tuple(fields.values())
        if key in seen:
            continue
        seen.add(key)
        scenario = replace(base, plan=replace(base.plan, data_parallel=replicas, **fields))
        if not any(broken_rules(POSSIBLE, facts_of(scenario))):
            yield scenario


SMALL = {
    "recompute": {"any": ["none", "full"]},
    "attention": {"any": ["flash"]},
    "offload": {"any": [frozenset(), frozenset({"optimizer"})]},
    "schedule": {"any": ["1f1b", "interleaved"]},
}


@pytest.mark.parametrize("kind", MODELS)
def test_search_finds_what_scalar_predictions_of_every_plan_find(kind):
    mapping = asked(MODELS[kind], {**SMALL, "offload": {"any": ["none"]}, "zero_stage": {"any": [0, 3]}})
    brute = asked(MODELS[kind], {**SMALL, "offload": {"any": [frozenset()]}, "zero_stage": {"any": [0, 3]}})
    profiles = [profile_of(scenario) for scenario in every_plan(brute)]
    times = sorted(float(p.step_time_s) for p in profiles if p.fits)
    answer = plan(mapping, top=5)
    assert answer.evaluated == len(profiles)
    assert answer.feasible == len(times)
    assert answer.plans[0].profile.step_time_s == pytest.approx(times[0], rel=1e-3)
    assert min(p.profile.step_time_s for p in answer.plans) == pytest.approx(times[0], rel=1e-9)
