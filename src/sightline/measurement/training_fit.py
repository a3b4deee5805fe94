"""Whether a scenario fits, predicted before anything runs, and the nearest one that does."""

from collections.abc import Iterator
from dataclasses import replace

from sightline.prediction import predict
from sightline.profile import Profile
from sightline.quantities import BYTES, format_quantity
from sightline.scenario import Finetune, Scenario
from sightline.scenario.adapter import Adapter


def resolved(scenario: Scenario) -> tuple[Scenario, Profile]:
    """Return the scenario with the micro-batch that a prediction would take where it leaves that open, and its prediction."""
    predicted = predict(scenario)
    return predicted.scenario, predicted


FORCED = "--force runs it anyway"
"""End of a sentence that says why something predicted not to fit was not run."""


def was_refused(reason: str) -> bool:
    """Whether that is why a run ended: it was predicted not to fit."""
    return reason.endswith(FORCED)


def why_too_large(predicted: Profile) -> str:
    """Return why a scenario does not fit and which change would, in a sentence; empty where it fits."""
    if predicted.fits:
        return ""
    needed, has = (
        format_quantity(float(x), BYTES)
        for x in (predicted.memory_bytes["total"], predicted.scenario.cluster.device.memory_bytes)
    )
    change = next((change for change, other in _smaller(predicted.scenario) if predict(other).fits), None)
    nearest = f"{change} would fit" if change else "no smaller batch, ZeRO stage, recomputation or adapter would fit"
    return f"predicted to need {needed} of {has} per device; {nearest}; {FORCED}"


def _smaller(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Changes that need less memory, those that change the least first; several together at the end."""
    plan = scenario.plan
    offered = plan.framework.allows
    small = replace(plan, micro_batch=1)
    if plan.sequences > 1:
        yield "plan.micro_batch 1", replace(scenario, plan=small)
    again = replace(small, recompute="full") if offered("recompute", "full") else small
    if plan.recompute != "full" and again is not small:
        yield "plan.recompute full", replace(scenario, plan=replace(plan, recompute="full"))
    for stage in range(int(plan.zero_stage) + 1, 4):
        if plan.data_parallel > 1 and offered("zero_stage", stage):
            yield f"plan.zero_stage {stage}", replace(scenario, plan=replace(plan, zero_stage=stage))
            yield (
                f"plan.zero_stage {stage} with plan.micro_batch 1 and plan.recompute {again.recompute}",
                replace(scenario, plan=replace(again, zero_stage=stage)),
            )
    if plan.adapter is None:
        tuned = Finetune(sequence_length=scenario.workload.sequence_length, global_batch=scenario.workload.global_batch)
        for kind, form in (("lora", "none"), ("qlora", "nf4")):
            if offered("adapter", kind) and offered("quantization", form):
                with_adapter = replace(again, adapter=Adapter(kind=kind), quantization=form)  # type: ignore[arg-type]
                change = f"workload.task finetune with plan.adapter {kind}"
                change += f", plan.micro_batch 1 and plan.recompute {again.recompute}"
                yield change, replace(scenario, workload=tuned, plan=with_adapter)
