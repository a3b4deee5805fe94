"""What a stage's device keeps of activations between forward and backward pass, and what logits and loss take."""

from dataclasses import dataclass

from sightline.prediction.memory.reserve import collected
from sightline.prediction.training.sizes import ProgramSizes, layer_sum
from sightline.prediction.training.stages import StageContents
from sightline.program import Program
from sightline.program.techniques.compiler import compiled
from sightline.quantities import Number, either, larger, rounded_up, smaller
from sightline.scenario import Plan, Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activations:
    """Bytes of activations on one device when a stage holds most of them."""

    layers: Number
    """Saved activations of layers, of all micro-batches in flight."""
    others: Number
    """Those of embedding, head and loss, and buffers of the pipeline."""
    head: Number
    """Those of head and loss of one micro-batch, which are gone when its layers' backward passes run."""
    on_device: Number
    """Those that are not offloaded."""
    logits: Number
    """Further bytes of logits and loss while the loss runs."""

    @property
    def offloaded(self) -> Number:
        """Those in the host's memory."""
        return self.layers + self.others - self.on_device


def activations(
    scenario: Scenario, program: Program, sizes: ProgramSizes, stage: StageContents, in_flight: Number
) -> Activations:
    """Return the activations of a stage that holds those of ``in_flight`` micro-batches."""
    plan = scenario.plan
    layers = in_flight * layer_sum(stage, sizes.saved_bytes)
    head = _of_head(plan, program, stage)
    others = in_flight * _of_embedding_and_head(plan, program, stage, head)
    others = others + collected(scenario, program, stage, in_flight)
    on_device = layers
    if "activations" in plan.offload:
        # Two layers' worth stays: the one at work and the one on its way.
        on_device = layers * smaller(1.0, 2.0 / larger(stage.layers * in_flight, 1.0))
    # A device that has a head for one direction alone still holds all of its logits.
    logits = rounded_up(stage.head) * program.head.logits * _loss_bytes(plan)
    return Activations(layers=layers, others=others, head=head, on_device=on_device + others, logits=logits)


def _loss_bytes(plan: Plan) -> Number:
    """Live bytes per logit of the micro-batch whose loss runs, in addition to those that are saved."""
    framework = compiled(plan.framework) if plan.compile else plan.framework
    kept, split = framework.allocation.kept_bytes_per_logit, framework.allocation.split_loss_bytes_per_logit
    whole = max(framework.memory.loss_bytes_per_logit - kept, 0.0)
    return either(plan.tensor_parallel > 1, max(split - kept, 0.0), whole) if split else whole


def _of_embedding_and_head(plan: Plan, program: Program, stage: StageContents, head: Number) -> Number:
    """Bytes that one micro-batch keeps of embedding, head and loss, and of what the stage has sent on."""
    kept = stage.embedding * program.embedding.saved_bytes + head
    if not plan.framework.allocation.keeps_stage_outputs:
        return kept
    sent = program.embedding.boundary_bytes / either(plan.sequence_parallel != 0, plan.tensor_parallel, 1)
    return kept + (1.0 - stage.head) * sent


def _of_head(plan: Plan, program: Program, stage: StageContents) -> Number:
    """Bytes that one micro-batch keeps of head and loss."""
    logits = program.head.logits * plan.framework.allocation.kept_bytes_per_logit
    return stage.head * (program.head.saved_bytes + logits)
