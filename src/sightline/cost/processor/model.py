"""A processor as prices see it: every call returns when its work is done, and memory is the host's."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sightline.cost.device_model import DeviceModel, Update
from sightline.cost.families import PROCESSOR, Evidence, evidence_of, family_with
from sightline.cost.processor.constants import Processor, ProcessorConstants, ShardingConstants, load_processor
from sightline.cost.processor.formulas import kernels_cost
from sightline.quantities import Number

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessorModel(DeviceModel):
    """A processor whose operators a framework calls one after the other."""

    given: ProcessorConstants | None = None
    """Constants that stand in for the catalog's, as in a fit."""

    asynchronous = False
    in_host_memory = True

    def processor(self, dtype: str = "") -> Processor:
        """Return the processor in a number format, the model's unless one is named."""
        chosen = dtype or self.kernels.dtype
        constants = self.given or load_processor(family_with(self.device, PROCESSOR) or "", chosen)
        return Processor(device=self.device, dtype=chosen, constants=constants)

    @property
    def machine(self) -> ProcessorConstants:
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
    def sharding(self) -> ShardingConstants | None:
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
