"""One micro-batch: the passes of its blocks, the stages of a pipeline, the pace-setting one, the way through all."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sightline.content import record
from sightline.cost.prices import Prices
from sightline.prediction.pass_times import PassTimes, operator_times, seconds_of, sum_of_passes
from sightline.prediction.schedules.closed_forms import run_apart
from sightline.prediction.training.stages import StageContents, stage_contents
from sightline.program import Block, Collective, FlashAttention, Matmul, Operator
from sightline.program.operators import ATTENTION_CORE, EXPERT_MODULES
from sightline.program.techniques.context_parallel import FURTHER_CHUNKS
from sightline.quantities import Number, anywhere, either, larger, plain, smaller
from sightline.scenario import Scenario

GRADIENTS = ("input gradient", "weight gradient")
"""What column-split projections make in the backward pass, beside which collectives may run."""


class BlockTimes(NamedTuple):
    """The three passes of one block."""

    forward: PassTimes
    recompute: PassTimes
    backward: PassTimes
    weights: PassTimes = PassTimes()
    """Part of the backward pass that makes weight gradients, which nothing else of the micro-batch waits for."""
    reference: PassTimes = PassTimes()
    """Passes without gradients."""


@record
class Overlap:
    """Which collectives of a block run while kernels work, and what the host waits for."""

    gradients: Number = 0.0
    """1.0 where collectives before and behind a gradient's product run beside the products that make gradients."""
    pieces: Number = 0.0
    """1.0 where collectives are cut into chunks and run beside the projection that they feed or that feeds them."""
    ideal: bool = False
    """Nothing but its dependencies keeps a collective from running beside any projection of its pass."""
    chunks: Number = 1.0
    """Pieces that a forward matmul's collective is cut into: one per rank, of which one stays exposed."""
    slowdown: Number = 0.0
    """Share of the hidden time by which the overlapped kernels slow down."""
    experts: bool = False
    """Tokens travel to experts and back while another micro-batch is computed."""
    counts: bool = False
    """Before it launches a layer's experts the host waits for the numbers of tokens that the router gave them."""
    blocking: bool = False
    """The host waits for every kernel, so that no collective runs beside another one."""

    def exposed_s(self, collective_s: Number, matmul_s: Number, *, backward: bool) -> Number:
        """Seconds that collectives add to the projections that they are cut into chunks with."""
        hidden_s = self._hidden_s(collective_s, backward=backward)
        return collective_s - hidden_s + self.behind(hidden_s, matmul_s)

    def outlasting_s(self, collective_s: Number, matmul_s: Number, *, backward: bool) -> Number:
        """Seconds by which collectives take longer than the projections that they overlap with."""
        return larger(self._hidden_s(collective_s, backward=backward) - matmul_s, 0.0)

    def _hidden_s(self, collective_s: Number, *, backward: bool) -> Number:
        """Seconds of collectives that run beside projections, which in a forward pass wait for the first chunk."""
        if backward:
            return (self.gradients if self.ideal else self.pieces) * collective_s
        return self.pieces * (collective_s - collective_s / self.chunks)

    def behind(self, transfer_s: Number, work_s: Number) -> Number:
        """Seconds that fully overlapped transfers add to the work that hides them."""
        return transfer_s - (1.0 - self.slowdown) * smaller(transfer_s, work_s)


def block_times(block: Block, prices: Prices, overlap: Overlap, launch_s: Number) -> BlockTimes:
    """Return the seconds of ``block``; ``launch_s`` are the host's per launch in a forward pass."""
    return BlockTimes(
        forward=_plain(_pass_times(block.forward, prices, overlap, launch_s)),
        recompute=_plain(_pass_times(block.recomputed, prices, overlap, launch_s).times(block.recomputed_share)),
        backward=_plain(_pass_times(block.backward, prices, overlap, None)),
        weights=_plain(operator_times([op for op in block.backward if op.direction == "weight gradient"], prices)),
        reference=_plain(_pass_times(block.without_gradient, prices, overlap, launch_s)),
    )


def _plain(times: PassTimes) -> PassTimes:
    return PassTimes._make(map(plain, times))


def _pass_times(
    operators: Sequence[Operator], prices: Prices, overlap: Overlap, forward_launch_s: Number | None
) -> PassTimes:
    """Seconds of one pass; None for the launches of a backward pass, in which the host waits for nothing."""
    if not operators:
        return PassTimes()
    times = operator_times(operators, prices)
    exposed_s = exposed_collectives_s(operators, prices, overlap, backward=forward_launch_s is None)
    blocked_s: Number = 0.0
    if overlap.counts and not overlap.experts and forward_launch_s is not None:
        # While the device waits for the host, what outlasts its matmuls travels on.
        outlasting_s = overlap.outlasting_s(*_projections_s(operators, prices), backward=False)
        sent_s = exposed_s.get("micro-batch", 0.0) + outlasting_s
        blocked_s = _blocked_s(operators, prices, forward_launch_s, sent_s)
    return times._replace(collective_s=sum(exposed_s.values(), 0.0), blocked_s=blocked_s)


def exposed_collectives_s(
    operators: Sequence[Operator], prices: Prices, overlap: Overlap, *, backward: bool
) -> dict[str, Number]:
    """Return the exposed seconds of a pass's collectives by what they overlap with."""
    exposed_s = _collectives_s(operators, prices)
    if overlap.blocking:
        return exposed_s
    for gradient in GRADIENTS:
        if gradient in exposed_s and anywhere(overlap.gradients):
            exposed_s[gradient] = _beside_products_s(operators, prices, overlap, gradient)
    if "projections" in exposed_s:
        sent_s, work_s = _projections_s(operators, prices)
        exposed_s["projections"] = overlap.exposed_s(sent_s, work_s, backward=backward)
    if "attention" in exposed_s:
        chunks_s = seconds_of(_hiding(operators, "attention"), prices)
        exposed_s["attention"] = overlap.behind(exposed_s["attention"], chunks_s)
    if "micro-batch" in exposed_s and overlap.experts:
        hidden_s = (sum(_collectives_s(operators, prices).values()) - sum(exposed_s.values())) / (
            1.0 - overlap.slowdown
        )
        # Work that hides other transfers has no time left for these.
        work_s = seconds_of(_hiding(operators, "micro-batch"), prices) - hidden_s
        exposed_s["micro-batch"] = overlap.behind(exposed_s["micro-batch"], work_s)
    return exposed_s


def _beside_products_s(operators: Sequence[Operator], prices: Prices, overlap: Overlap, gradient: str) -> Number:
    """Seconds that collectives add to the products of a gradient which they run beside, each to its own module's."""
    sent = [op for op in operators if isinstance(op, Collective) and op.overlapped_with == gradient]
    products, exposed_s = _hiding(operators, gradient), 0.0 * overlap.gradients
    for module in dict.fromkeys(op.module for op in sent):
        sent_s, work_s = (seconds_of([op for op in ops if op.module == module], prices) for ops in (sent, products))
        exposed_s = exposed_s + sent_s - overlap.gradients * (sent_s - overlap.behind(sent_s, work_s))
    return exposed_s


def outlasted_work(
    operators: Sequence[Operator], prices: Prices, overlap: Overlap, *, backward: bool
) -> dict[str, tuple[Sequence[Operator], Any]]:
    """Return the operators that hide collectives which outlast them, and where these do, by what they overlap with."""
    outlasted: dict[str, tuple[Sequence[Operator], Any]] = {}
    if overlap.blocking:
        return outlasted
    for overlapped, collective_s in _collectives_s(operators, prices).items():
        work = _hiding(operators, overlapped)
        work_s = seconds_of(work, prices)
        outlasts: Any = False
        if overlapped == "projections":
            outlasts = overlap.outlasting_s(collective_s, work_s, backward=backward) > 0.0
        elif overlapped in GRADIENTS:
            outlasts = overlap.gradients * collective_s > work_s
        elif overlapped == "attention" or (overlapped == "micro-batch" and overlap.experts):
            outlasts = collective_s > work_s
        if anywhere(outlasts):
            outlasted[overlapped] = work, outlasts
    return outlasted


def _collectives_s(operators: Sequence[Operator], prices: Prices) -> dict[str, Number]:
    """Seconds of a pass's collectives by what they overlap with, nothing hidden."""
    by_overlap: dict[str, list[Operator]] = {}
    for op in operators:
        if isinstance(op, Collective):
            by_overlap.setdefault(op.overlapped_with, []).append(op)
    return {overlapped: seconds_of(collectives, prices) for overlapped, collectives in by_overlap.items()}


def _projections_s(operators: Sequence[Operator], prices: Prices) -> tuple[Number, Number]:
    """Seconds of the collectives that overlap with projections, and of these."""
    sent = [op for op in operators if isinstance(op, Collective) and op.overlapped_with == "projections"]
    return seconds_of(sent, prices), seconds_of(_hiding(operators, "projections"), prices)


def _hiding(operators: Sequence[Operator], overlapped: str) -> list[Operator]:
    """Operators of a pass that run while the collectives do that overlap with them."""
    work = [op for op in operators if not isinstance(op, Collective)]
    if overlapped == "projections":
        # Attention's products wait for the collective's result; projections overlap with it.
        return [op for op in work if isinstance(op, Matmul) and op.module != ATTENTION_CORE]
    if overlapped in GRADIENTS:
        # Row-split projections, which get their gradients gathered, come before.
        return [op for op in work if isinstance(op, Matmul) and op.direction == overlapped and op.part != "down"]
    if overlapped == "attention":
        # A block of keys travels while attention works on the one before, each about as long as the next.
        return [op for op in work if isinstance(op, FlashAttention) and op.part in FURTHER_CHUNKS]
    # Tokens travel to experts and back during an equally long pass of another micro-batch.
    return work if overlapped == "micro-batch" else []


def _blocked_s(operators: Sequence[Operator], prices: Prices, launch_s: Number, sent_s: Number) -> Number:
    """Seconds by which launching a layer's experts outlasts them and what is sent, where nothing was launched ahead.

    The device idles when the host learns the numbers of tokens, so the two start level: after E the device is done at
    max(E, launches of E), and what follows E is launched while it catches up. Backward takes the numbers from forward.
    """
    behind = [op for op in operators if op.module in EXPERT_MODULES and not isinstance(op, Collective)]
    launches = sum((op.launches for op in behind), 0.0)
    return larger(launches * launch_s - seconds_of(behind, prices) - sent_s, 0.0)


class Slot(NamedTuple):
    """One micro-batch on one stage."""

    forward: PassTimes = PassTimes()
    """Those without gradients included."""
    recompute: PassTimes = PassTimes()
    backward: PassTimes = PassTimes()
    reference: PassTimes = PassTimes()
    """Part of the forward passes that has no gradients."""
    weight_s: Number = 0.0
    """Part of the backward pass that makes weight gradients."""
    forward_wait_s: Number = 0.0
    """Seconds that the device waits for the host's launches."""
    backward_wait_s: Number = 0.0
    forward_s: Number = 0.0
    backward_s: Number = 0.0
    """Recomputation and backward pass."""
    code_s: Number = 0.0
    """Seconds that the device waits for the framework's code around the passes."""
    total_s: Number = 0.0


@record
class PipelineSlots:
    """One micro-batch on every kind of stage."""

    stages: Sequence[StageContents]
    slots: Sequence[Slot]
    counts: Sequence[Number]
    """Stages of the pipeline that each of them stands for."""
    slowest: StageContents
    """The pace-setting stage."""
    slot: Slot
    """One micro-batch on it."""
    elsewhere: Sequence[Slot] = ()
    """One micro-batch on each stage that other devices run."""

    @property
    def through_s(self) -> Number:
        """One micro-batch through all stages."""
        return self.through(lambda slot: slot.total_s)

    def through(self, figure: Callable[[Slot], Number]) -> Number:
        """Return the sum of a figure of one micro-batch over all stages."""
        here: Number = sum(figure(slot) * count for slot, count in zip(self.slots, self.counts, strict=True))
        return here + sum(map(figure, self.elsewhere))

    def of_other_stages(self, figure: Callable[[Slot], Number]) -> Number:
        """Return the sum of a figure over all stages but the pace-setting one."""
        return self.through(figure) - figure(self.slot)


class HostTimes(NamedTuple):
    """Host time per kernel of a pass, and of what is around the passes of a micro-batch."""

    forward_s: Number
    backward_s: Number
    micro_batch_s: Number
    """Loading data, which the ends of a pipeline do, and the loss (Megatron-LM at core_v0.12.0: ``get_batch`` of
    pretrain_gpt.py returns nothing on middle stages; DeepSpeed's and Scaling's ``LoadMicroBatch`` is theirs alone)."""
    blocking: bool = False
    """The host launches a kernel when the one before is done, so that the device waits for every launch."""

    def waiting_s(self, times: PassTimes, host_s: Number) -> Number:
        """Return the seconds that the device waits in a pass whose launches take the host ``host_s``."""
        return host_s if self.blocking else times.waiting_s(host_s)


def pipeline_slots(scenario: Scenario, blocks: Sequence[BlockTimes], launches: HostTimes) -> PipelineSlots:
    """Return what one micro-batch of the ``blocks`` (each kind of layer, embedding, head) takes on the stages."""
    stages = stage_contents(scenario)
    # The middle stages share the layers that first and last leave.
    between = scenario.model.layers + scenario.plan.prediction_layers - stages.first.layers - stages.last.layers
    return slots_of(stages, (1, between / larger(stages.middle.layers, 1), 1), blocks, launches)


def slots_of(
    stages: Sequence[StageContents], counts: Sequence[Number], blocks: Sequence[BlockTimes], launches: HostTimes
) -> PipelineSlots:
    """Return what one micro-batch takes on stages, each of which stands for so many of the pipeline."""
    slots = [_slot(blocks, launches, stage) for stage in stages]
    slowest = _slowest(stages, slots)
    return PipelineSlots(
        stages=stages,
        slots=slots,
        counts=counts,
        slowest=slowest,
        slot=next((x for stage, x in zip(stages, slots, strict=True) if stage is slowest), None)
        or _slot(blocks, launches, slowest),
    )


def _slot(blocks: Sequence[BlockTimes], launches: HostTimes, stage: StageContents) -> Slot:
    if stage.is_empty:
        return Slot()
    counts = (*stage.kinds, stage.embedding, stage.head)
    forward, recompute, backward, weights, reference = (
        sum_of_passes(counts, passes) for passes in zip(*blocks, strict=True)
    )
    if anywhere(reference.launches):
        forward = sum_of_passes((1.0, 1.0), (forward, reference))
    again = sum_of_passes((1.0, 1.0), (recompute, backward))
    # Its last block is the head forward and the embedding backward.
    forward_wait_s = launches.waiting_s(forward, launches.forward_s * forward.launches)
    before = forward.without(blocks[-1].forward.times(stage.head))
    forward_wait_s = larger(forward_wait_s, launches.waiting_s(before, launches.forward_s * before.launches))
    again_launch_s = launches.forward_s * recompute.launches + launches.backward_s * backward.launches
    last = blocks[-2].backward.times(stage.embedding)
    before_s = launches.waiting_s(again.without(last), again_launch_s - launches.backward_s * last.launches)
    backward_wait_s = larger(launches.waiting_s(again, again_launch_s), before_s)
    forward_s, backward_s = forward.device_s + forward_wait_s, again.device_s + backward_wait_s
    # Either end loads data; how much of the time is the loss, which the last one alone has, was measured nowhere.
    code_s = smaller(stage.embedding + stage.head, 1.0) * launches.micro_batch_s
    # The rest is what others wait for: done or launched, whichever takes longer, or both.
    rest, rest_launch_s = again.without(weights), again_launch_s - launches.backward_s * weights.launches
    rest_s = rest.device_s + launches.waiting_s(rest, rest_launch_s)
    return Slot(
        forward=forward,
        recompute=recompute,
        backward=backward,
        reference=reference,
        weight_s=backward_s - rest_s,
        forward_wait_s=forward_wait_s,
        backward_wait_s=backward_wait_s,
        forward_s=forward_s,
        backward_s=backward_s,
        code_s=code_s,
        total_s=forward_s + backward_s + code_s,
    )


def _slowest(stages: Sequence[StageContents], slots: Sequence[Slot]) -> StageContents:
    """Contents of the stage with the longest slot, plan by plan."""
    most_s, contents = slots[0].total_s, stages[0]
    for stage, slot in zip(stages[1:], slots[1:], strict=True):
        longer = slot.total_s > most_s
        if not anywhere(longer):
            continue
        contents = stage if longer is True else _chosen(longer, stage, contents)
        most_s = larger(most_s, slot.total_s)
    return contents


def _chosen(chosen: object, one: StageContents, other: StageContents) -> StageContents:
    """The contents of one of two stages, plan by plan."""
    return StageContents(
        name="slowest",
        kinds=tuple(either(chosen, a, b) for a, b in zip(one.kinds, other.kinds, strict=True)),
        embedding=either(chosen, one.embedding, other.embedding),
        head=either(chosen, one.head, other.head),
        tied_copy=either(chosen, one.tied_copy, other.tied_copy),
    )


def run_apart_s(slots: PipelineSlots, scenario: Scenario, micro_batches: Number) -> Number:
    """Seconds of the other stages that zero bubble keeps off a micro-batch's way; 0 under other schedules."""
    zero_bubble = scenario.plan.runs("zero-bubble")
    if not anywhere(zero_bubble):
        return 0.0
    apart_s = run_apart(
        slots.of_other_stages(lambda slot: slot.weight_s),
        slots.of_other_stages(lambda slot: slot.forward_s),
        slots.of_other_stages(lambda slot: slot.backward_s - slot.weight_s),
        scenario.plan.pipeline_parallel,
        micro_batches,
    )
    return either(zero_bubble, apart_s, 0.0)
