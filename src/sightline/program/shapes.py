"""Sizes of one micro-batch on one device after tensor and sequence parallelism.

Legend, as in Korthikanti 2022 (arXiv 2205.05198): ``s`` tokens of a sequence on the device, ``b`` micro-batch, ``h`` hidden
size, ``a`` heads, ``f`` MLP width, ``V`` vocabulary, ``t`` tensor parallel; ``r`` divides what lies between tensor-parallel
regions: t with sequence parallelism, else 1. ``c`` context parallel, of which ``y`` share out heads, ``e`` expert parallel, ``u`` expert-tensor
parallel.
"""

from dataclasses import dataclass, replace

import numpy as np

from sightline.program.compiled import compiled
from sightline.program.recipes import LowPrecision, low_precision_of
from sightline.program.trained import Trained, trained_by
from sightline.quantities import Count, Number
from sightline.scenario import Framework, Heads, Model, Plan, Scenario
from sightline.scenario.context_exchange import head_ranks
from sightline.scenario.plan import ContextExchange, ExpertDispatch

ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
"""Bytes of an activation by compute dtype."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shapes:
    """The sizes every block is written with."""

    model: Model
    dtype: str
    """Compute type of everything that is not in fewer bits."""
    element_bytes: float
    s: Number
    """Tokens of a sequence on one device."""
    context: Number
    """Tokens of a whole sequence."""
    documents: Number
    """Sequences packed into one that do not see each other, as many equally long ones as have its tokens and scores."""
    b: Number
    t: Number
    r: Number
    split: Number
    """1.0 with sequence parallelism and t > 1, else 0.0."""
    c: Number
    y: Number
    exchange: ContextExchange
    e: Number
    u: Number
    skew: Number
    """Lasting unevenness of the experts' load, as the relative deviation of a rank's."""
    capacity: float
    """Tokens an expert takes from a rank over its even share; 0 takes all."""
    dispatch: ExpertDispatch
    shape: Heads
    """Head shape of the layer kind that is written out."""
    framework: Framework
    """What it fuses, pads and accumulates."""
    trained: Trained
    """Which weights get gradients."""
    low: LowPrecision | None
    """What the layers' linear products compute in below 16 bits, if they do."""

    @property
    def tokens(self) -> Number:
        """Tokens of the micro-batch."""
        return self.s * self.b

    @property
    def heads(self) -> Number:
        """Query heads on one device."""
        return self.shape.heads / self.t

    @property
    def kv_heads(self) -> Number:
        """Key/value heads on one device; replicated when there are fewer heads than devices."""
        return np.maximum(self.shape.kv_heads / self.t, 1.0)

    @property
    def query_width(self) -> Number:
        """Elements of the queries of a token on one device."""
        return self.heads * self.shape.head_dim

    @property
    def key_width(self) -> Number:
        """Elements of the keys of a token on one device."""
        return self.kv_heads * self.shape.head_dim

    @property
    def value_width(self) -> Number:
        """Elements of the values of a token on one device."""
        return self.kv_heads * self.shape.value_dim

    @property
    def context_width(self) -> Number:
        """Elements that attention hands to the output projection, per token on one device."""
        return self.heads * self.shape.value_dim

    @property
    def qkv_width(self) -> Number:
        """Outputs of the query (twice where it is gated), key and value projection on one device."""
        queries = self.query_width * (2.0 if self.model.attention_gate else 1.0)
        return queries + self.key_width + self.value_width * (not self.shape.values_are_keys)

    @property
    def residual_bytes(self) -> Number:
        """Bytes of one hidden-wide activation outside the tensor-parallel regions."""
        return self.element_bytes * self.tokens * self.model.hidden_size / self.r

    @property
    def hidden_bytes(self) -> Number:
        """Bytes of one hidden-wide activation of all tokens."""
        return self.element_bytes * self.tokens * self.model.hidden_size

    @property
    def vocabulary(self) -> Number:
        """Vocabulary rows on one device; frameworks that pad round up to whole tiles of 128."""
        if not self.framework.kernels.pads_vocabulary:
            return self.model.vocab_size / self.t
        return np.ceil(self.model.vocab_size / (128.0 * self.t)) * 128.0


def shapes_of(scenario: Scenario) -> Shapes:
    """Return the sizes of ``scenario``'s micro-batch."""
    plan = scenario.plan
    t, c = _number(plan.tensor_parallel), _number(plan.context_parallel)
    split = (np.asarray(plan.sequence_parallel) != 0) & (np.asarray(t) > 1)
    split = split.astype(float) if split.ndim else float(split)
    rows = scenario.workload.rows(plan.sequences)
    return Shapes(
        model=scenario.model,
        dtype=plan.wide_dtype,
        element_bytes=ELEMENT_BYTES[plan.wide_dtype],
        s=rows.tokens / c,
        context=rows.tokens,
        documents=rows.tokens**2 / rows.squares,
        b=plan.sequences * 1.0,
        t=t,
        r=1.0 + split * (t - 1.0),
        split=split,
        c=c,
        y=_number(head_ranks(plan, scenario.model, scenario.cluster.per_node)),
        exchange=plan.context_exchange,
        e=_number(plan.expert_parallel),
        u=_number(plan.expert_tensor_parallel),
        skew=plan.expert_skew,
        capacity=plan.expert_capacity,
        dispatch=plan.expert_dispatch,
        shape=scenario.model.own_heads,
        framework=_run_by(scenario.plan),
        trained=trained_by(plan, tied=scenario.model.tied_embeddings),
        low=low_precision_of(scenario),
    )


def _run_by(plan: Plan) -> Framework:
    """Return the framework's behavior under a plan: compiled or not, products in chunks only with collectives in chunks."""
    framework = compiled(plan.framework) if plan.compile else plan.framework
    whole = framework.native.pipeline_accumulation_traffic
    if whole and np.any(np.asarray(plan.pipeline_parallel) > 1):
        traffic = np.where(np.asarray(plan.pipeline_parallel) > 1, whole, framework.kernels.accumulation_traffic)
        kernels = replace(framework.kernels, accumulation_traffic=traffic if traffic.ndim else float(traffic))
        framework = replace(framework, kernels=kernels)
    if plan.tensor_overlap != "all" and framework.native.chunked_products:
        return replace(framework, native=replace(framework.native, chunked_products=False))
    return framework


def _number(degree: Count) -> Number:
    return np.asarray(degree, dtype=float) if np.ndim(degree) else float(degree)
