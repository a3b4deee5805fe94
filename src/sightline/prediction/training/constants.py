"""What a training framework reaches beyond single operators: its constants, and those that somebody stated as a set."""

from sightline.catalog import entry, names
from sightline.content import description
from sightline.cost.elementwise import ElementwiseConstants
from sightline.cost.families import Stated
from sightline.quantities import Number
from sightline.scenario import Scenario


@description
class TrainingConstants(Stated):
    """Of one framework on one device; numbers, or arrays of one length."""

    matmul_slowdown: Number
    """Time of a matmul inside a long training run over that of the benchmark: clocks, cold caches, older libraries."""
    unsharded_head_slowdown: Number
    """Time of the head's matmuls without tensor parallelism over that of other matmuls; observed, not explained."""
    attention_slowdown: Number
    """The same for fused attention."""
    memory_fraction: Number
    """Share of the memory bandwidth that element-wise kernels reach."""
    kernel_latency_s: Number
    """Ramp-up and drain of an element-wise kernel on the device."""
    launch_forward_s: Number
    """Host time per kernel in a forward pass, which runs from Python."""
    launch_backward_s: Number
    """Host time per kernel in a backward pass, which the autograd engine runs."""
    synchronization_s: Number
    """Time that ranks lose by synchronization in a tensor-parallel collective, per doubling of the group."""
    vector_fraction: Number
    """Share of the vector units' rate that element-wise arithmetic (exponentials, random numbers) reaches."""
    micro_batch_s: Number
    """Host time per micro-batch that the device waits for: data, bookkeeping, loss."""
    step_s: Number
    """Host time per optimizer step that the device waits for: gradient norm, overflow check, logging."""
    overlap_slowdown: Number
    """Share of a hidden collective's time by which it slows the compute that it overlaps with."""
    collective_slowdown: Number
    """Time of a collective inside training over that of the benchmark: stragglers, contention, unpinned streams."""

    mxfp8_slowdown: Number = 1.05
    """Time of a product of operands with a scale per 32 elements over that of fp8 kernels with one per tensor."""
    nvfp4_slowdown: Number = 1.25
    """Time of a product of 4-bit operands over what the constants of fp8 kernels give at the 4-bit rate."""

    expert_matmul_slowdown: Number = 1.0
    """Time of the experts' products, a kernel each on several streams, over that of one kernel for all of them."""
    spread: float = 0.0
    """Four in five measured steps lie within exp(+-spread) of the prediction; 0 where nobody knows."""

    exact_gradients_slowdown: Number = 1.0
    """Time of an fp8 product for a gradient, whose sums are kept in fp32 throughout, over that of one that rounds them
    on the way as forward ones may (fast accumulation, on matrix units of Hopper); where 1 it is part of
    ``matmul_slowdown``."""

    @property
    def element_wise(self) -> ElementwiseConstants:
        """Those of element-wise kernels, which are bound by bytes in training, so that the cache helps them in full."""
        return ElementwiseConstants(
            memory_fraction=self.memory_fraction,
            cache_gain=1.0,
            vector_fraction=self.vector_fraction,
            kernel_latency_s=self.kernel_latency_s,
        )

    def format_slowdown(self, kernel: str) -> Number:
        """Time of a product in a format that nobody tabulated over that of the format it borrows constants from."""
        return {"mxfp8": self.mxfp8_slowdown, "nvfp4": self.nvfp4_slowdown}.get(kernel, 1.0)


def attention_kernel(scenario: Scenario) -> str:
    """Return the generation of fused attention kernels: the plan's, else what the framework takes on the device."""
    plan = scenario.plan
    return plan.attention_kernel or plan.framework.attention_kernel(scenario.cluster.device.calibration)


ANY = "any"
"""Key of the set that stands for every framework without its own."""
FORMER_ANY = "reference"
"""The same in sets that older versions wrote, before the framework of that name was a bound."""
_WEAKEST = ("estimated", "extrapolated", "calibrated")


def stated_set(scenario: Scenario) -> tuple[TrainingConstants, str] | None:
    """Return the set that the device's calibration states for the framework, and its evidence; None where it has none.

    Processors have one, for all frameworks, and so has a device that was fitted to its owner's runs (``sightline
    calibrate``). None applies to a bound, which is what a device could do, not what somebody measured on it.
    """
    device, framework = scenario.cluster.device, scenario.plan.framework
    if framework.ideal is not None:
        return None
    for family in (device.calibration, *device.relatives):
        if f"{family}/training" in names("calibrations"):
            sets = entry("calibrations", f"{family}/training")["frameworks"]
            chosen = next((sets[key] for key in (framework.name, ANY, FORMER_ANY) if key in sets), None)
            if chosen is not None:
                own = "calibrated" if family == device.calibration else "extrapolated"
                return TrainingConstants.from_mapping(chosen), min(own, str(chosen["evidence"]), key=_WEAKEST.index)
    return None
