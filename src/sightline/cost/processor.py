"""The processor backend of the registry: every call returns when its work is done."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from sightline.content import record
from sightline.cost import processor_constants
from sightline.cost.attention import BACKWARD_PRODUCTS
from sightline.cost.device_model import DeviceModel, Update
from sightline.cost.families import PROCESSOR, Evidence, evidence_of, family_with
from sightline.cost.prices import Execution, OperatorCost, Ranks
from sightline.program import CachedAttention, Elementwise, FlashAttention, Matmul, Operator
from sightline.program.operators import ATTENTION_CORE, GRADIENTS_OF_LINEAR
from sightline.quantities import Number

QUERY_BLOCKS = ((768.0, 256.0), (192.0, 64.0), (0.0, 32.0))
"""Queries that PyTorch's fused attention works on at a time, by the least length of a sequence that takes so many
(``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp``)."""
KEY_BLOCK = 512.0
"""Keys that it works on at a time: a causal pass leaves out whole blocks alone, so that short ones leave out none."""
UNPACKED = 2e5
"""Multiplications of a block of scores below which the library multiplies operands as they lie."""
PACKED_WIDTH = 64.0
"""Width of heads below which it does so whatever their number: blocks of 16 and 32 were as fast as small ones up to
1024 tokens, those of 64 slower from 128 on (torch 2.13, Cascade Lake, 2026-11)."""
UNPACKED_WEIGHT = 2.0**19
"""Elements of a weight up to which it stays near the cores while few rows go by."""

UNRECORDED = 0.6
"""Time of a call in PyTorch's inference mode over that of one that is recorded for a backward pass: 0.53 to 0.63 for
norms, rotary embeddings, activations and additions (torch 2.13, Cascade Lake, 2026-11)."""
CALLS = {"rope": 2.0, "rope gradient": 2.0}
"""Calls for what a program counts once: queries and keys are rotated one after the other."""


def product_cost(
    m: Number,
    n: Number,
    k: Number,
    batch: Number = 1.0,
    *,
    on: processor_constants.Processor,
    order: str = "forward",
    missing: Number = 0.0,
    code_is_near: bool = False,
) -> OperatorCost:
    """Seconds of ``batch`` products of an ``m x k`` with a ``k x n`` matrix, ``order`` saying how they lie.

    ``call + 2 b m n k / (f peak) + e b (p_l m k + p_r k n + p_o m n) / cache + missing (call_m + p_m bytes / memory)``:
    arithmetic, packing and stores, and what has to come from memory, one after the other. ``missing`` is the share of
    the operands' bytes that is not in the cache, and of the code, unless the operator before was a product
    too. Of few rows the weight goes by once for every ``ROWS_AT_ONCE``. Left out: padding to the library's blocks,
    steps where it shares work among cores.
    """
    m, n, k, batch = (np.asarray(x, dtype=float) for x in (m, n, k, batch))
    e, device, constants = on.element_bytes, on.device, on.constants
    compute_s = 2 * batch * m * n * k / on.peak
    bytes_ = e * batch * (m * k + n * k + m * n)

    def seconds(c: processor_constants.ProductConstants, weight: Any = n * k) -> Any:
        packed = e * batch * (c.left_passes * m * k + c.right_passes * weight + c.output_passes * m * n)
        code_s = 0.0 if code_is_near else c.missing_call_s
        loads_s = missing * (code_s + c.missing_passes * bytes_ / device.memory_bandwidth)
        return c.call_s + compute_s / c.peak_fraction + packed / device.l2_bandwidth + loads_s

    time_s = seconds(constants.products[order])
    if order == "forward":
        passes = np.ceil(m / processor_constants.ROWS_AT_ONCE)
        few_s = seconds(constants.thin("few rows"), np.where(n * k > UNPACKED_WEIGHT, passes * n * k, 0.0))
        time_s = np.where(m <= processor_constants.FEW_ROWS, few_s, time_s)
        time_s = np.where(m <= processor_constants.ROWS_AT_ONCE, seconds(constants.thin("one row")), time_s)
    return OperatorCost(np.maximum(time_s, compute_s), compute_s, bytes_ / device.memory_bandwidth)


def fused_attention_cost(
    x: FlashAttention | CachedAttention, on: processor_constants.Processor, *, missing: Number = 0.0
) -> OperatorCost:
    """Seconds of one pass of fused attention, forward or for the gradients of its inputs.

    ``call + scores (4 d products / (f peak) + operations / vector rate) + blocks (block + packing + p keys' and values'
    bytes / cache) + p tokens' bytes / cache + missing (call_m + p_m bytes / memory)``: for every block of queries, keys
    and values are packed again, and of what it touches the share ``missing`` is not in the cache. A causal pass of
    whole sequences leaves out blocks of keys that none of a block's queries sees. Left out: cores that have no block
    left while others work on their last.
    """
    sizes = (x.batch, x.heads, x.kv_heads, x.head_dim, x.query_tokens, x.context_tokens)
    b, a, kv, d, sq, sk = (np.asarray(size, dtype=float) for size in sizes)
    products = BACKWARD_PRODUCTS if x.backward else 1.0
    half = (np.minimum(sq, sk) - 1) / 2
    seen = sq * np.where(x.causal, sk - half, sk)
    worked = np.where(np.logical_and(x.causal, sq == sk), _causal_scores(sk), sq * sk)
    rows = np.minimum(sq, np.select([sq >= least for least, _ in QUERY_BLOCKS], [size for _, size in QUERY_BLOCKS]))
    keys = np.minimum(sk, KEY_BLOCK)
    packs = (rows * keys * d >= UNPACKED) & (d >= PACKED_WIDTH)
    e, peak, device = on.element_bytes, on.peak, on.device
    compute_s = products * 4 * b * a * seen * d / peak
    bytes_ = (2.0 if x.backward else 1.0) * e * b * d * 2 * (sq * a + sk * kv)

    c = on.constants.attention["backward" if x.backward else "forward"]
    score_s = products * 4 * d / (c.peak_fraction * peak) + c.score_operations / device.vector_flops
    packing_s = c.packed_block_s + c.key_passes * 2 * e * keys * d / device.l2_bandwidth
    block_s = products * (c.block_s + np.where(packs, packing_s, 0.0))
    loads_s = missing * (c.missing_call_s + c.missing_passes * bytes_ / device.memory_bandwidth)
    passes_s = c.token_passes * bytes_ / device.l2_bandwidth
    time_s = c.call_s + b * a * worked * (score_s + block_s / (rows * keys)) + passes_s + loads_s
    return OperatorCost(np.maximum(time_s, compute_s), compute_s, bytes_ / device.memory_bandwidth)


def _causal_scores(tokens: Any) -> Any:
    """Scores that a causal pass over a sequence works on: every query's keys in whole blocks up to its own."""
    blocks = np.ceil(tokens / KEY_BLOCK)
    before = KEY_BLOCK * (blocks - 1)
    return KEY_BLOCK * before * blocks / 2 + (tokens - before) * tokens


def kernels_cost(
    kind: str,
    elements: Number,
    traffic_bytes: Number,
    kernels: Number,
    *,
    on: processor_constants.Processor,
    missing: Number = 0.0,
    recorded: bool = True,
) -> OperatorCost:
    """Seconds of the element-wise kernels ``kind`` over ``elements``, on as many cores as there are.

    Kernels that were not measured take as long as additions that move the same bytes in as many kernels. Calls are
    shorter where no graph is ``recorded``.
    """
    device, constants = on.device, on.constants
    traffic = np.asarray(traffic_bytes, dtype=float)
    memory_s = traffic / device.memory_bandwidth
    fewer = constants.cores / np.asarray(device.compute_units, dtype=float)
    known = constants.kernels.get(kind)
    times = constants.kernels[processor_constants.FALLBACK] if known is None else known
    each = CALLS.get(kind, 1.0) if known is not None else np.maximum(kernels, 1.0)
    size = elements if known is not None else traffic / (processor_constants.FALLBACK_TENSORS * on.element_bytes)
    size = size / each
    call_s = times.cached_s[0]
    rest_s = np.maximum(times.seconds(size, missing) - call_s, 0.0)
    call_s = call_s if recorded else UNRECORDED * call_s
    return OperatorCost(each * (call_s + fewer * rest_s), 0.0 * traffic, memory_s)


CORE_CACHE = 2.0**20
"""Bytes of a core's own cache (Cascade Lake; others have up to twice as much)."""
IN_LAST_CACHE = 0.18
"""Share of what operators lose by cold caches that they lose to the last cache: norms, rotary embeddings, additions and
attention of small models lost 0.13 to 0.2 when 6 MB had passed through the cores' caches (Cascade Lake, 2026-11)."""
UPDATE = "update"
"""The optimizer's step over all parameters, gradient clipping included."""
UPDATE_TENSORS = 16.0
"""Tensors that parameters came in where updates were measured."""
UPDATE_BYTES = 16.0
"""Of a parameter, its gradient and two moments."""


@record
class ProcessorModel(DeviceModel):
    """A processor whose operators a framework calls one after the other."""

    given: processor_constants.ProcessorConstants | None = None
    """Constants that stand in for the catalog's, as in a fit."""

    asynchronous = False
    in_host_memory = True

    def processor(self, dtype: str = "") -> processor_constants.Processor:
        """Return the processor in a number format, the model's unless one is named."""
        chosen = dtype or self.kernels.dtype
        constants = self.given or processor_constants.load_processor(family_with(self.device, PROCESSOR) or "", chosen)
        return processor_constants.Processor(device=self.device, dtype=chosen, constants=constants)

    @property
    def machine(self) -> processor_constants.ProcessorConstants:
        """What calls reach in the model's number format."""
        return self.processor().constants

    def evidence(self, part: str) -> Evidence:
        """Return what the constants rest on, which are measured together."""
        return evidence_of(self.device, part if part == "collectives" else PROCESSOR)

    @property
    def process_bytes(self) -> float:
        """Memory of a process before its model."""
        return self.machine.framework_bytes

    @property
    def sharding(self) -> processor_constants.ShardingConstants | None:
        """What the code of fully sharded data parallelism takes; None where it was not measured."""
        return self.machine.sharding

    @property
    def calls(self) -> Mapping[str, float]:
        """Seconds that a model's own code takes around operators, by block and pass."""
        return self.machine.calls

    @property
    def call_weights(self) -> Mapping[str, Mapping[str, float]]:
        """By block and module, how much longer that code takes around a call there than on average."""
        return self.machine.call_weights

    def missing_share(self, touched_bytes: Number) -> Number:
        """Return the share of what is touched in turns that the last cache no longer holds when its turn comes again.

        None up to half the cache, all from one and a half: with exact least-recently-used replacement it would be a
        step.
        """
        return _lost(touched_bytes, self.device.l2_bytes)

    def near_share(self, touched_bytes: Number) -> Number:
        """Return the share of what is touched in turns that the cores' own caches no longer hold."""
        return _lost(touched_bytes, CORE_CACHE * np.asarray(self.device.compute_units))

    def cold_share(self, touched_bytes: Number, share: float) -> Number:
        """Return the share of what operators lose by cold caches that they lose where so many bytes pass between turns.

        ``share`` where no cache holds them; less where the last one does and the cores' own do not.
        """
        missing = self.missing_share(touched_bytes)
        return missing * share + (1.0 - missing) * IN_LAST_CACHE * self.near_share(touched_bytes)

    def update_s(self, update: Update) -> Number:
        """Return the seconds of AdamW's step over fp32 parameters in so many tensors, by constants of fp32.

        Calls take what they did in steps of tiny models, where those were measured, else as timed by themselves.
        """
        processor, parameters = self.processor("fp32"), update.parameters
        machine = processor.constants
        states = UPDATE_BYTES * np.asarray(parameters, dtype=float)
        cost = kernels_cost(
            UPDATE,
            parameters,
            1.75 * states,
            1.0,
            on=processor,
            missing=self.missing_share(states + update.others_bytes()),
        )
        calls_s = float(machine.kernels[UPDATE].cached_s[0])
        once_s = machine.calls.get("update", 0.0)
        each_s = machine.calls.get("update tensor", calls_s / UPDATE_TENSORS)
        sharding_s: Number = 0.0
        if machine.sharding is not None:
            sharding_s = machine.sharding.update_call_s + machine.sharding.update_tensor_s * update.tensors
        time_s: Number = cost.time_s - calls_s + once_s + update.tensors * each_s + update.sharded * sharding_s
        return time_s


def _lost(bytes_: Number, cache_bytes: Number) -> Number:
    share: Number = np.clip(np.asarray(bytes_, dtype=float) / cache_bytes - 0.5, 0.0, 1.0)
    return share


PRODUCTS, ATTENTION, ELEMENTWISE = "products", "attention", "chains"
"""Kinds of operators that fewer cores serve each in their own way."""
UNCALLED = 2.0
"""Element-wise kernels of an adapter's backward pass that a program counts and a processor's first backward pass has
not, because gradients of leaves are kept as they are."""
NAMES = {"norm": "norm", "rope": "rope", "activation": "activation", "residual": "residual", "embedding": "lookup"}
"""Measured kernels by class where no graph is recorded; others take as long as additions of as many bytes."""
MOVED = {
    "norm": (2.0, 18.0),
    "rope": (2.0, 9.0),
    "activation": (3.0, 5.0),
    "residual": (3.0, 3.0),
    "embedding": (2.0, 2.0),
}
"""Elements that a pass counts as moved for each of the tensor's, in one kernel and in several."""
CACHE_WRITE = "cache write"
FORMATS = ("16-bit", "32-bit")
"""Formats of products that were measured."""
SUMMED = {"forward": "n", "input gradient": "k", "weight gradient": "m"}
"""The side of a product along which the layers lie that a program joins, by the order of its operands."""


@record
class ProcessorPass:
    """What prices of a pass have in common."""

    processor: processor_constants.Processor
    execution: Execution
    missing: Number
    """Share of what is touched that the caches no longer hold."""
    cold: dict[str, Number]
    """Share of what operators lose by cold caches that they lose, forward and backward."""
    fewer_cores: bool

    @classmethod
    def on(cls, ranks: Ranks) -> "ProcessorPass":
        """The pass that ``ranks`` execute."""
        model, execution = cast(ProcessorModel, ranks.device_model), ranks.execution()
        machine, touched = model.machine, execution.touched_bytes
        return cls(
            processor=model.processor(),
            execution=execution,
            missing=model.missing_share(touched),
            cold={way: model.cold_share(touched, share) for way, share in machine.cold_shares.items()},
            fewer_cores=bool(np.any(np.asarray(model.device.compute_units) < machine.cores)),
        )

    def way(self, op: Operator) -> str:
        """Forward or backward."""
        return "backward" if id(op) in self.execution.backward else "forward"

    def on_fewer_cores(self, cost: OperatorCost, op: Operator) -> OperatorCost:
        """Return the cost where a process has some of the machine's cores."""
        if not self.fewer_cores or not self.execution.recorded:
            return cost
        machine = self.processor.constants
        few = np.asarray(self.processor.device.compute_units) < machine.cores
        slowdown = machine.fewer_cores.get(self.way(op), {}).get(kind_of(op), 1.0)
        return cost._replace(time_s=cost.time_s * np.where(few, slowdown, 1.0))


def kind_of(op: Operator) -> str:
    """Return the kind of a priced operator: products, attention or element-wise kernels."""
    match op:
        case Matmul():
            return PRODUCTS
        case FlashAttention():
            return ATTENTION
    return ELEMENTWISE


def price_product(op: Matmul, before: Operator | None, passing: ProcessorPass) -> OperatorCost | None:
    """Return the price of a linear layer's product; none where its format was not measured."""
    if passing.execution.recorded:
        return passing.on_fewer_cores(_layer_products(op, isinstance(before, Matmul), passing), op)
    if op.kernel not in FORMATS:
        return None
    cost = product_cost(op.m, op.n, op.k, op.batch, on=passing.processor, missing=passing.missing, code_is_near=True)
    call_s = UNRECORDED * framework_calls(op) * passing.processor.constants.calls.get("forward", 0.0)
    return cost._replace(time_s=cost.time_s + call_s)


def _layer_products(op: Matmul, near: bool, passing: ProcessorPass) -> OperatorCost:
    """A linear layer's product, or as many as there are layers; gradients of a shared input are added up."""
    order = op.direction if op.direction in GRADIENTS_OF_LINEAR else "forward"
    parts: list[OperatorCost] = []
    for share in op.shares:
        sizes: dict[str, Any] = {"m": op.m, "n": op.n, "k": op.k}
        sizes[SUMMED[order]] = sizes[SUMMED[order]] * share
        code: dict[str, Any] = {"code_is_near": near or bool(parts), "missing": passing.cold[passing.way(op)]}
        parts.append(product_cost(**sizes, batch=op.batch, on=passing.processor, order=order, **code))
    time_s = sum((part.time_s for part in parts), 0.0)
    if op.module != ATTENTION_CORE:
        time_s = time_s + len(parts) * passing.processor.constants.calls.get(order, 0.0)
    if order == "input gradient" and len(parts) > 1:
        adding = kernels_cost("residual", op.m * op.n, 0.0, 1.0, on=passing.processor)
        time_s = time_s + (len(parts) - 1) * adding.time_s
    compute_s = sum((part.compute_s for part in parts), 0.0)
    return OperatorCost(time_s, compute_s, op.bytes / passing.processor.device.memory_bandwidth)


def price_attention(op: FlashAttention, _: Operator | None, passing: ProcessorPass) -> OperatorCost:
    """Return the price of fused attention over whole sequences."""
    return passing.on_fewer_cores(
        fused_attention_cost(op, passing.processor, missing=passing.cold[passing.way(op)]), op
    )


def price_cached_attention(op: CachedAttention, _: Operator | None, passing: ProcessorPass) -> OperatorCost | None:
    """Return the price of attention of new tokens; none for a shared latent or a window, which were not measured.

    A step of decoding first copies all keys and values to where one more has room.
    """
    if op.shared_kv or op.window is not None:
        return None
    common: dict[str, Any] = {"on": passing.processor, "missing": passing.missing}
    cost = fused_attention_cost(replace(op, causal=not op.decode), **common)
    if not op.decode:
        return cost
    cached = op.batch * op.kv_heads * op.context_tokens * (op.head_dim + op.value_dim)
    traffic = 2.0 * passing.processor.element_bytes * cached
    copied = kernels_cost(processor_constants.FALLBACK, cached / 2.0, traffic, 1.0, recorded=False, **common)
    return cost._replace(time_s=cost.time_s + copied.time_s, memory_s=cost.memory_s + copied.memory_s)


def price_kernels(op: Elementwise, _: Operator | None, passing: ProcessorPass) -> OperatorCost:
    """Return the price of element-wise kernels."""
    if passing.execution.recorded:
        kernels = op.kernels - UNCALLED * (op.part == "adapter chain" and op.backward)
        cold = passing.cold[passing.way(op)]
        cost = kernels_cost(
            _measured_as(op), op.elements, op.traffic_bytes, kernels, on=passing.processor, missing=cold
        )
        return passing.on_fewer_cores(cost, op)
    name, elements = NAMES.get(op.kind, ""), op.traffic_bytes / passing.processor.element_bytes
    if name:
        elements = elements / MOVED[op.kind][int(np.any(np.greater(op.kernels, 1.0)))]
    # Nothing is saved, so that results go where those of the layer before were, still in the cache.
    return kernels_cost(name, elements, op.traffic_bytes, op.kernels, on=passing.processor, recorded=False)


def _measured_as(op: Elementwise) -> str:
    """The kernels that were measured in place of an operator's; gradients are added up as residuals are."""
    if op.part in ("residual", "accumulation"):
        return "residual"
    return f"{op.part} gradient" if op.backward else op.part


def framework_calls(op: Operator) -> float:
    """Return the calls of the framework that an operator stands for."""
    match op:
        case Matmul():
            return float(len(op.shares))
        case Elementwise() if op.kind == CACHE_WRITE:
            return 0.0
        case Elementwise():
            return CALLS.get(NAMES.get(op.kind, "") if op.kind else _measured_as(op), 1.0)
        case FlashAttention() | CachedAttention():
            return 1.0
    return 0.0
