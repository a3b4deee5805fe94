"""Hypothesis strategies, in one place: right scenarios, values of every kind, and scenarios made wrong."""

from math import gcd
from pathlib import Path
from typing import Any

from generation_scenarios import generation
from hypothesis import assume, reject
from hypothesis import strategies as st
from training_scenarios import training

from sightline import catalog
from sightline.errors import InputError
from sightline.frameworks import read_framework
from sightline.loading import scenario_from_mapping, to_mapping
from sightline.loading.checks import NAMED_PARTS
from sightline.loading.clusters import read_cluster
from sightline.loading.models import resolve_model
from sightline.scenario import GenerationScenario, Scenario

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["8x", "0x a100-sxm-80gb", "none", "80 GB", "1e999 W", "../..", "~", "~root/x", "a/b", "\x00", "\ud800"]
    )
)
"""Anything a file could hold in one place, and text that looks like something."""

VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(SCALARS | st.sampled_from(["name", "same_as"]), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Anything a file could hold, nested."""

FRAMEWORKS = ("reference", "megatron")

TRAINED = tuple(catalog.names("models"))
"""Models of the catalog; the training of all is predicted, at any length."""


@st.composite
def right_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Return a mapping that loads: degrees fill the cluster, the batch divides, the framework offers all of it."""
    tensor, pipeline, data = (draw(st.sampled_from([1, 2, 4])) for _ in range(3))
    micro_batch = draw(st.sampled_from([1, 2, 8]))
    virtual = draw(st.sampled_from([1, 2])) if pipeline > 1 else 1
    plan = {
        "framework": draw(st.sampled_from(FRAMEWORKS)),
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "virtual_stages": virtual,
        "micro_batch": micro_batch,
        "zero_stage": draw(st.sampled_from([0, 1])),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "attention": draw(st.sampled_from(["flash", "eager"])),
        "dtype": draw(st.sampled_from(["fp16", "bf16"])),
        "sequence_parallel": draw(st.booleans()),
    }
    left_out = draw(st.sets(st.sampled_from(["micro_batch", "recompute", "attention", "dtype", "zero_stage"])))
    device = draw(st.sampled_from(["a100-sxm-80gb", "h100-sxm-80gb", "a800-sxm-80gb"]))
    return {
        "name": draw(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)),
        "model": draw(st.sampled_from(["llama-2-7b", "gpt-3-175b", "opt-13b", "bloom-7b1", "mpt-7b", "llama-3-8b"])),
        "cluster": f"{tensor * pipeline * data}x {device}",
        "workload": {
            "task": draw(st.sampled_from(["pretrain", "finetune"])),
            "sequence_length": draw(st.integers(1, 10**6)),
            "global_batch": data * micro_batch * (pipeline if virtual > 1 else 1) * draw(st.integers(1, 50)),
        },
        "plan": {k: v for k, v in plan.items() if k not in left_out},
    }


@st.composite
def trainings(draw: st.DrawFn, **stated: Any) -> Scenario:
    """Return any training step of the catalog's models, devices and frameworks; ``stated`` fixes fields of the plan."""
    name = draw(st.sampled_from(TRAINED))
    device = draw(st.sampled_from(catalog.names("devices")))
    framework = stated.get("framework") or draw(st.sampled_from(catalog.names("frameworks")))
    known = read_framework(framework)
    offers = known.offers
    model = resolve_model(name, Path()).model
    peaks = read_cluster(f"1x {device}").device.peak_flops

    def chosen(field: str, *values: Any) -> Any:
        if field in stated:
            return stated[field]
        offered = [v for v in values if v in offers.get(field, values)]
        assume(offered)  # a framework may know none of the dtypes of an old device
        return draw(st.sampled_from(offered))

    of_states = (model.linear and model.linear.key_heads, model.state_space and model.state_space.groups)
    whole = gcd(model.heads, *filter(None, of_states))
    tensor = chosen("tensor_parallel", *(t for t in (1, 2, 4, 8) if whole % t == 0))
    pipeline = chosen("pipeline_parallel", *(p for p in (1, 2, 3, 4, 8) if p <= model.layers))
    data = chosen("data_parallel", 1, 2, 3, 8)
    micro_batch = chosen("micro_batch", 1, 2, 4)
    interleaves = known.interleaving.fewest_stages <= pipeline <= model.layers // 2
    virtual = chosen("virtual_stages", 1, 2) if pipeline > 1 and interleaves else 1
    plan = {
        "framework": framework,
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "data_parallel": data,
        "micro_batch": micro_batch,
        "virtual_stages": virtual,
        "zero_stage": chosen("zero_stage", 0, 1, 2, 3),
        "recompute": chosen("recompute", "none", "selective", "full"),
        "attention": chosen("attention", "flash", "eager"),
        "dtype": chosen("dtype", *(d for d in ("fp32", "tf32", "fp16", "bf16") if d in peaks)),
        "sequence_parallel": chosen("sequence_parallel", False, True),
    }
    return training(
        model=name,
        cluster=f"{tensor * pipeline * data}x {device}",
        sequence_length=draw(st.sampled_from([1, 127, 350, 2048, 4096, 65536])),
        global_batch=data
        * (micro_batch or 4)
        * (pipeline if virtual > 1 else 1)
        * draw(st.sampled_from([1, 2, 7, 32])),
        plan=plan,
    )


@st.composite
def questions(draw: st.DrawFn) -> Scenario | GenerationScenario:
    """Return any training step, with techniques that the others of ``trainings`` leave out, or any batch."""
    try:
        return draw(_techniques(draw(trainings()))) if draw(st.booleans()) else draw(_batches())
    except InputError:
        return reject()  # frameworks, engines and models do not go together in every way


@st.composite
def _techniques(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Return a training step with more techniques."""
    mapping, asked = to_mapping(scenario), scenario.plan
    across = asked.tensor_parallel * asked.data_parallel
    changes: dict[str, Any] = {
        "tensor_overlap": draw(st.sampled_from(["none", "backward", "all"])) if asked.tensor_parallel > 1 else None,
        "expert_parallel": draw(st.sampled_from([n for n in (1, 2, 4, 8) if across % n == 0])),
        "expert_overlap": True if draw(st.integers(0, 3)) == 0 else None,
        "offload": draw(st.sampled_from([None, None, "optimizer", "parameters", "activations"])),
        "adapter": draw(st.sampled_from([None, None, "lora", "qlora"])),
        "schedule": draw(st.sampled_from([None, "gpipe", "1f1b", "zero-bubble"]))
        if asked.pipeline_parallel > 1
        else None,
        "compile": True if draw(st.integers(0, 3)) == 0 else None,
    }
    if scenario.model.experts is None:
        changes |= {"expert_parallel": None, "expert_overlap": None}
    workload = {**mapping["workload"], "sequence_length": draw(st.sampled_from([16, 127, 350, 2048, 4096, 65536]))}
    workload["global_batch"] *= asked.pipeline_parallel
    plan = {**mapping["plan"], **{name: value for name, value in changes.items() if value is not None}}
    return scenario_from_mapping({**mapping, "workload": workload, "plan": plan})


@st.composite
def _batches(draw: st.DrawFn) -> GenerationScenario:
    """Return any batch, static or in a steady loop, of the catalog's models, devices and engines."""
    device, engine = draw(st.sampled_from(catalog.names("devices"))), draw(st.sampled_from(catalog.names("engines")))
    degrees = {
        "tensor_parallel": draw(st.sampled_from([1, 2, 4, 8])),
        "pipeline_parallel": draw(st.sampled_from([1, 1, 2])),
    }
    plan: dict[str, Any] = {
        "framework": engine,
        "quantization": draw(st.sampled_from([None, None, "fp8", "w4a16", "w8a8", "q4_0"])),
        "speculative": draw(st.sampled_from([None, None, None, {"tokens": 3, "acceptance": 0.7}])),
    }
    devices, replicas = (
        degrees["tensor_parallel"] * degrees["pipeline_parallel"],
        draw(st.sampled_from([0, 0, 0, 1, 3])),
    )
    if replicas:
        prefill = {**degrees, "replicas": replicas, "batch": draw(st.sampled_from([1, 4]))}
        plan["disaggregate"] = {"prefill": prefill, "decode": degrees}
    else:
        plan |= degrees
    work = {
        "batch": draw(st.sampled_from([1, 2, 3, 8, 33, 128, 200])),
        "prompt_tokens": draw(st.sampled_from([1, 7, 16, 128, 333, 2048, 8192, 30000])),
        "output_tokens": draw(st.sampled_from([1, 2, 16, 1000])),
        "continuous": draw(st.booleans()),
    }
    return generation(
        model=draw(st.sampled_from(TRAINED)),
        cluster=f"{devices * (1 + replicas)}x {device}",
        plan={name: value for name, value in plan.items() if value is not None},
        **work,
    )


KEYS = st.sampled_from(
    [
        *sorted(NAMED_PARTS),
        "name",
        "workload",
        "plan",
        "measured",
        "sweep",
        "model.model_type",
        "model.hidden_size",
        "model.n_embd",
        "model.num_attention_heads",
        "model.attn_config",
        "model.dropout",
        "model.layer_types",
        "model.same_as",
        "cluster.devices",
        "cluster.same_as",
        "cluster.per_node",
        "cluster.power_cap",
        "cluster.device.peak_flops",
        "cluster.device.memory",
        "cluster.device.server",
        "cluster.network.latency",
        "cluster.host.cores",
        "workload.task",
        "workload.global_batch",
        "workload.total_tokens",
        "plan.framework",
        "plan.framework_version",
        "plan.tensor_parallel",
        "plan.virtual_stages",
        "plan.sequence_parallel",
        "plan.schedule",
        "plan.dtype",
        "plan.offload",
        "plan.adapter",
        "measured.phases",
        "measured.step_time_s",
    ]
)
"""Keys worth getting wrong."""


@st.composite
def wrong_settings(draw: st.DrawFn) -> dict[str, Any]:
    """Return overrides that set keys of a scenario, or keys that nobody knows, to any value."""
    keys = draw(st.lists(KEYS | st.text(max_size=12), min_size=1, max_size=5, unique=True))
    return {key: draw(VALUES) for key in keys}


WRONG_TEXTS = (
    st.text(max_size=200)
    | st.text(st.sampled_from("[]{}:,-?&*!|>'\"#%@` \n\tax1.e"), max_size=120)
    | st.lists(st.sampled_from(["model", "cluster", "plan.x", "", "a.b", ",", "\n", '"', "1"]), max_size=40).map(
        ",".join
    )
)
"""Text that is hardly ever a scenario: anything, YAML's punctuation, and tables."""
