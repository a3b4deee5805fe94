"""Names of the fitted sets of training's constants that a scenario may take, as the calibrations have them today."""

from collections.abc import Iterator

from sightline.catalog import entry
from sightline.scenario import Scenario

_OF_LINES = {
    "0.2": ("megatron@nemo",),
    "0.5": ("megatron@nemo",),
    "0.10": ("megatron@nemo-25.02",),
    "0.12": ("megatron@nemo-25.04",),
    "0.14": ("megatron@bridge",),
    "0.18": ("megatron@bridge",),
}
_OF_EXPERTS = {"0.14": ("megatron@bridge-26.04",), "0.18": ("megatron@bridge-26.06", "megatron@bridge-26.04")}
_OF_OTHERS = {
    ("transformers", "4.0"): ("transformers@qwen",),
    ("deepspeed", "0.1"): ("deepspeed@qwen",),
    ("megatron-deepspeed", "2021"): ("megatron-deepspeed@bigscience",),
}


def set_of(scenario: Scenario, family: str) -> tuple[str, str]:
    """Return framework and version of the set of a device family that is nearest to the release line and choices."""
    known = entry("calibrations", f"{family}/training")["frameworks"]
    name = next((name for name in _names(scenario) if name in known), scenario.plan.framework.name)
    framework, _, version = name.partition("@")
    return framework, version


def _names(scenario: Scenario) -> tuple[str, ...]:
    framework = scenario.plan.framework
    if framework.lineage == "megatron-core":
        return (*_of_megatron_core(scenario), "megatron")
    return (*_OF_OTHERS.get((framework.name, framework.version), ()), framework.name)


def _of_megatron_core(scenario: Scenario) -> Iterator[str]:
    plan, framework = scenario.plan, scenario.plan.framework
    if plan.attention_kernel == "cudnn":
        yield "megatron@mlperf-3" if framework.version == "0.2" else "megatron@mlperf"
    if not framework.overlap.gradients:
        yield "megatron@core-serial"
    if framework.sharding.gradient_reduce_bytes["bf16"] != 2 and scenario.cluster.device.calibration == "h100-sxm":
        yield "megatron"
    if scenario.model.experts is not None:
        yield from _OF_EXPERTS.get(framework.version, ())
    yield from _OF_LINES[framework.version]
