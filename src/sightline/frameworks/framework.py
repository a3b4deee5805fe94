"""A training framework: its behavior in groups, what it offers, and what a compiler makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sightline.content import fix_mappings
from sightline.frameworks.groups import (
    COMPILED,
    FULL_PRECISION,
    FUSED_LOSS_BYTES,
    LOSS,
    PLAIN_ALLOCATION,
    Allocation,
    Fusion,
    Interleaving,
    Kernels,
    LowPrecision,
    Memory,
    Offloading,
    Overlap,
    Sharding,
    StateBytes,
)
from sightline.frameworks.own_groups import Ideal, LitGpt, NativePyTorch, TransformerEngine, ZeroEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A training framework. ``offers`` lists the allowed values of the plan's field of that name."""

    name: str
    version: str = ""
    """The release line; empty for a framework that has only one."""
    since: str = ""
    """Month of the line's first release; empty where nobody looked it up."""
    lineage: str = ""
    """The code that the framework is of: lines of one lineage share what is fitted."""
    model_code: str = ""
    """The lineage whose code of a model's layers it runs: launching their kernels takes the host as long."""
    ideal: Ideal | None = None
    """Fixed shares of the device's rates take the place of what kernels reach; neither hosts nor launches take time."""
    native_host: bool = False
    """Its host code is compiled, or captured in one graph, instead of interpreted."""
    sharding: Sharding
    overlap: Overlap = field(default_factory=Overlap)
    interleaving: Interleaving = field(default_factory=Interleaving)
    offloading: Offloading = field(default_factory=Offloading)
    fusion: Fusion = field(default_factory=Fusion)
    kernels: Kernels
    memory: Memory
    allocation: Allocation = PLAIN_ALLOCATION
    low_precision: LowPrecision = field(default_factory=LowPrecision)
    native: NativePyTorch = field(default_factory=NativePyTorch)
    transformer_engine: TransformerEngine = field(default_factory=TransformerEngine)
    zero_engine: ZeroEngine = field(default_factory=ZeroEngine)
    litgpt: LitGpt = field(default_factory=LitGpt)
    selective: tuple[str, ...] = ("core_attention",)
    """Modules that ``recompute: selective`` runs again (`sightline.scenario.techniques`)."""
    offload_needs: Mapping[str, Mapping[str, tuple[str | int | bool, ...]]] = field(default_factory=dict)
    """Other choices that offloading a part depends on: part, plan field, values of which one is needed."""
    offers: Mapping[str, tuple[str | int | bool, ...]] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Values of plan fields that a scenario leaves out."""
    attention_kernels: Mapping[str, str] = field(default_factory=dict)
    """Fused attention kernels of training by family of devices, and under ``default`` those of the others."""
    plain: "Framework | None" = None
    """The framework as its entry has it, where a plan's choices changed it."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def allows(self, field: str, value: object) -> bool:
        """Whether the framework offers ``value`` of a plan's field; what it does not list it does not restrict."""
        return field not in self.offers or value in self.offers[field]

    @property
    def loss_bytes_per_logit(self) -> float:
        """Live bytes per logit while the loss runs, fused or not."""
        fused = self.memory.fused_loss_bytes_per_logit
        return self.memory.loss_bytes_per_logit if fused is None or LOSS not in self.fusion.fused else fused

    def attention_kernel(self, family: str) -> str:
        """Return the generation of fused attention kernels that it takes on a family of devices."""
        return self.attention_kernels.get(family, self.attention_kernels.get("default", "flash-2"))

    def states_in(self, dtype: str, mixed: StateBytes | None = None) -> StateBytes:
        """Model states in a compute dtype: ``mixed`` precision (None: the model's), or full without copies."""
        if dtype in ("fp32", "tf32"):
            return FULL_PRECISION
        own, gradients = self.memory.states, self.memory.gradients.get(dtype)
        return mixed or (own if gradients is None else replace(own, gradients=gradients))

    def compiled(self) -> "Framework":
        """Return the framework with its element-wise operators fused by a compiler.

        In the compiled graph a wait follows its collective. Left out: the time of compiling, and graph capture.
        """
        kernels = COMPILED - {"rope"} if self.native.complex_rope else COMPILED
        memory, allocation = self.memory, self.allocation
        if self.native.compiles_loss:
            loss = min(memory.loss_bytes_per_logit, FUSED_LOSS_BYTES)
            memory = replace(memory, loss_bytes_per_logit=loss)
            split = min(allocation.split_loss_bytes_per_logit, FUSED_LOSS_BYTES)
            allocation = replace(allocation, split_loss_bytes_per_logit=split)
        else:
            kernels -= {LOSS}
        return replace(
            self,
            fusion=replace(self.fusion, fused=self.fusion.fused | kernels),
            native=replace(self.native, waits_for_keys=True),
            memory=memory,
            allocation=allocation,
        )
