"""The policies by number, so that one compiled loop serves them all."""

from typing import Final

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.state import Facts, Replica, Slots
from sightline.simulation.policies import in_flight, lightllm, sglang, static, tgi, transformers, vllm, vllm_0
from sightline.simulation.times import PackedTimes

# Numbers of `Facts.policy`.
VLLM: Final = 0
VLLM_0: Final = 1
SGLANG: Final = 2
TGI: Final = 3
LIGHTLLM: Final = 4
TRANSFORMERS: Final = 5
IN_FLIGHT: Final = 6
STATIC: Final = 7
POLICIES: Final = {
    "vllm": VLLM,
    "vllm-0": VLLM_0,
    "sglang": SGLANG,
    "tgi": TGI,
    "lightllm": LIGHTLLM,
    "transformers": TRANSFORMERS,
    "tensorrt-llm": IN_FLIGHT,
    "orca": IN_FLIGHT,
    "static": STATIC,
}
"""The same by the name that an engine's data states (`sightline.frameworks.engine.Policy`)."""

_vllm, _vllm_0, _sglang, _tgi = vllm.schedule, vllm_0.schedule, sglang.schedule, tgi.schedule
_lightllm, _transformers, _in_flight, _static = (
    lightllm.schedule,
    transformers.schedule,
    in_flight.schedule,
    static.schedule,
)


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:  # noqa: PLR0911
    """Form the next iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    if facts.policy == VLLM:
        return _vllm(rep, slots, facts, times, now)
    if facts.policy == VLLM_0:
        return _vllm_0(rep, slots, facts, times, now)
    if facts.policy == SGLANG:
        return _sglang(rep, slots, facts, times, now)
    if facts.policy == TGI:
        return _tgi(rep, slots, facts, times, now)
    if facts.policy == LIGHTLLM:
        return _lightllm(rep, slots, facts, times, now)
    if facts.policy == TRANSFORMERS:
        return _transformers(rep, slots, facts, times, now)
    if facts.policy == IN_FLIGHT:
        return _in_flight(rep, slots, facts, times, now)
    return _static(rep, slots, facts, times, now)
