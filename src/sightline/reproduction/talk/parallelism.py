"""Strategies of parallelism on one model against an automatic plan (C4), and unlike accelerators together (C5)."""

from collections.abc import Mapping
from typing import Any

from sightline.exploration.answer import Column, Figure
from sightline.profile import Profile
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.asking import Ask, Asked, Findings, Tables
from sightline.reproduction.outcome import Interpretation

MODEL = "llama-2-13b"
BASE: Mapping[str, Any] = {
    "model": MODEL,
    "cluster": "32x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 256},
}
DATA, LAYERS = {"framework": "deepspeed"}, {"framework": "megatron", "zero_stage": 0}
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "data": {**DATA, "zero_stage": 0},
    "ZeRO-1": {**DATA, "zero_stage": 1},
    "ZeRO-2": {**DATA, "zero_stage": 2},
    "ZeRO-3": {**DATA, "zero_stage": 3},
    "ZeRO-3, offloaded": {**DATA, "zero_stage": 3, "offload": ["optimizer", "parameters"]},
    "fully sharded (FSDP)": {"framework": "fsdp"},
    "tensor x data": {**LAYERS, "tensor_parallel": 8, "pipeline_parallel": 1},
    "tensor + sequence x data": {**LAYERS, "tensor_parallel": 8, "pipeline_parallel": 1, "sequence_parallel": True},
    "pipeline x data": {**LAYERS, "tensor_parallel": 1, "pipeline_parallel": 8},
    "tensor x pipeline": {**LAYERS, "tensor_parallel": 8, "pipeline_parallel": 4},
    "3D": {**LAYERS, "tensor_parallel": 4, "pipeline_parallel": 4},
    "3D + ZeRO-1": {**LAYERS, "tensor_parallel": 2, "pipeline_parallel": 2, "zero_stage": 1},
}
"""Plans by what they are called; what they leave open, such as the micro-batch, takes the fastest that fits."""
AUTOMATIC: Mapping[str, Any] = {"framework": {"any": ["megatron", "deepspeed", "fsdp"]}}
OLD, NEW = "8x a100-sxm-80gb", "8x h100-sxm-80gb"
TOGETHER = f"{OLD} + {NEW}"
MIXED: Mapping[str, Any] = {
    "model": MODEL,
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 128},
    "plan": {"framework": "megatron", "zero_stage": {"any": [0, 1]}},
}
"""No framework launches a step on unlike devices; all else is as Megatron-LM has it."""
SMALL_PLAN: Mapping[str, Any] = {"tensor_parallel": 2, "micro_batch": 1, "zero_stage": 1}
"""What a small search holds."""
NUMBERS: Mapping[str, str] = {
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "data_parallel": "data",
    "virtual_stages": "virtual stages",
    "zero_stage": "ZeRO",
    "micro_batch": "micro-batch",
}
"""Fields of a plan that are numbers, as readers know them."""
ABOUT: Mapping[str, Column] = {
    "strategy": Column(label="strategy"),
    "devices": Column(label="devices"),
    "tokens_per_s": Column(label="tokens/s"),
    "step_time_s": Column(label="step", unit="s"),
    "memory_bytes": Column(label="memory", unit="B"),
    "fits": Column(label="fits"),
    "framework": Column(label="framework"),
    **{key: Column(label=label) for key, label in NUMBERS.items()},
    "sequence_parallel": Column(label="sequence"),
    "schedule": Column(label="schedule"),
    "recompute": Column(label="recomputation"),
    "mfu": Column(label="MFU", unit="share"),
}


def c4(ask: Ask) -> list[Interpretation]:
    """Return the automatic plan's throughput over that of each strategy that fits."""
    rates = {name: float(one.tokens_per_s) for name, one in _strategies(ask).items() if one.fits}
    nearest, best = max(rates, key=lambda name: rates[name]), float(_automatic(ask).tokens_per_s)
    sentence = (
        f"{len(rates)} of {len(STRATEGIES)} strategies fit {MODEL} on {BASE['cluster']}; the nearest is {nearest} with "
        f"{rates[nearest]:,.0f} tokens/s, the automatic plan trains {best:,.0f}."
    )
    return [Interpretation(values=[best / rate for rate in rates.values()], sentence=sentence)]


def _strategies(ask: Ask) -> dict[str, Profile]:
    return {name: ask.profile({**BASE, "plan": dict(plan)}) for name, plan in STRATEGIES.items()}


def _automatic(ask: Ask) -> Profile:
    return _fastest(ask, {**BASE, "plan": dict(AUTOMATIC)})


def _fastest(ask: Ask, scenario: Asked, *, launchable: bool = True) -> Profile:
    """The fastest plan; of these models some fits."""
    found = ask.plan(scenario, launchable=launchable).plans
    return min((one.profile for one in found), key=lambda one: float(one.step_time_s))


def strategies(ask: Ask) -> ReproducedTable:
    """Return the strategies and the automatic plan, and what each takes."""
    shown = {**_strategies(ask), "automatic": _automatic(ask)}
    rows = [{"strategy": name, **_row(profile)} for name, profile in shown.items()]
    bars = Figure(kind="bars", title="Tokens per second by strategy", x="strategy", y="tokens_per_s")
    return table("strategies", f"Strategies of {MODEL} on {BASE['cluster']}", rows, about=ABOUT, figures=[bars])


def plans(ask: Ask) -> ReproducedTable:
    """Return the best automatic plans, and which the uncertainty tells from the first."""
    found = ask.plan({**BASE, "plan": dict(AUTOMATIC)}).plans
    rows = [{"rank": one.rank, "tied": one.tied, **_row(one.profile)} for one in found]
    about = {"rank": Column(label="rank"), "tied": Column(label="like the first"), **ABOUT}
    return table("plans", f"Automatic plans of {MODEL} on {BASE['cluster']}", rows, about=about)


def c5(ask: Ask) -> list[Interpretation]:
    """Return the throughput of both kinds of devices together over that of the better kind alone."""
    rates = {name: float(one.tokens_per_s) for name, one in _together(ask).items()}
    said = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    ours = rates[TOGETHER] / max(rates[OLD], rates[NEW])
    return [Interpretation(values=[ours], sentence=f"Tokens per second of {MODEL}, each under its best plan: {said}.")]


def _together(ask: Ask) -> dict[str, Profile]:
    """The fastest plan on each kind of device, and on both."""
    plan = {**MIXED["plan"], **(SMALL_PLAN if ask.small else {})}
    clusters = {OLD: OLD, NEW: NEW, TOGETHER: {"devices": [OLD, NEW], "network": "infiniband-hdr"}}
    return {
        name: _fastest(ask, {**MIXED, "cluster": cluster, "plan": plan}, launchable=False)
        for name, cluster in clusters.items()
    }


def mixed(ask: Ask) -> ReproducedTable:
    """Return the best plan on each kind of devices, and on both."""
    rows = [{"devices": name, **_row(profile)} for name, profile in _together(ask).items()]
    bars = Figure(kind="bars", title="Tokens per second by devices", x="devices", y="tokens_per_s")
    return table("mixed", f"{MODEL} on unlike accelerators", rows, about=ABOUT, figures=[bars])


def _row(profile: Profile) -> dict[str, Any]:
    plan = profile.scenario.plan
    return {
        "framework": plan.framework.name,
        **{key: int(getattr(plan, key)) for key in NUMBERS},
        "sequence_parallel": bool(plan.sequence_parallel),
        "schedule": str(plan.schedule),
        "recompute": str(plan.recompute),
        "memory_bytes": float(profile.memory_bytes["total"]),
        "fits": bool(profile.fits),
        "step_time_s": float(profile.step_time_s),
        "tokens_per_s": float(profile.tokens_per_s),
        "mfu": float(profile.mfu),
    }


FINDINGS: Findings = {"C4": c4, "C5": c5}
TABLES: Tables = {"strategies": strategies, "plans": plans, "mixed": mixed}
