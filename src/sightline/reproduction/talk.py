"""The findings and tables of the talk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from sightline import catalog
from sightline.exploration.studies.trends import CONSTANT, OF_THE_DAY
from sightline.exploration.study_answer import Column, Figure
from sightline.exploration.training_budget import FLOPS_PER_PARAMETER_AND_TOKEN, TOKENS
from sightline.profile import Profile
from sightline.reproduction.asking import Ask, Asked, Assumption, Findings, Row, Source, Tables
from sightline.reproduction.outcomes import Choice, Interpretation, OpenSetting, ReproducedTable, table

FINDINGS, TABLES = Findings(), Tables()


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A model that the talk counts."""

    name: str
    parameters: float
    """In its name."""
    tokens: float
    stated: float
    """FLOPs that the talk says."""
    model: Any
    """Name in the catalog, or the architecture."""
    sequence_length: int

    @property
    def flops(self) -> float:
        """6 N D."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.parameters * self.tokens


def trainings() -> Iterator[Training]:
    """Yield the trainings that the talk counts, as the ledger of its findings has them."""
    for stated in catalog.entry("findings", "talk")["trainings"]:
        yield Training(
            name=stated["name"],
            parameters=stated["parameters"],
            tokens=stated["tokens"] if "tokens" in stated else TOKENS[stated["model"]][0],
            stated=stated["stated_flops"],
            model=stated["model"],
            sequence_length=stated["sequence_length"],
        )


@FINDINGS.add()
def c1(_: Ask) -> Interpretation:
    """Return the errors of 6 N D."""
    errors = {one.name: one.flops / one.stated - 1 for one in trainings()}
    said = ", ".join(f"{one.name} {one.flops:.3g}" for one in trainings())
    return Interpretation(values=[*map(abs, errors.values())], sentence=f"6 N D with nominal N in FLOP: {said}.")


@TABLES.add(
    "flops",
    "Compute of trainings",
    about={
        "name": Column(label="model"),
        "parameters": Column(label="parameters"),
        "tokens": Column(label="tokens"),
        "stated_flops": Column(label="talk", unit="FLOP"),
        "flops": Column(label="6 N D", unit="FLOP"),
        "counted_flops": Column(label="counted, with attention", unit="FLOP"),
        "counted_over_6nd": Column(label="counted over 6 N D"),
    },
    status="published",
)
def flops(ask: Ask) -> Iterator[Row]:
    """Yield 6 N D of each training beside what its layers do, counted operator by operator."""
    for one in trainings():
        profile = ask.profile(_step(one))
        counted = float(profile.model_flops) * one.tokens / (one.sequence_length * BATCH)
        yield {
            "name": one.name,
            "parameters": one.parameters,
            "tokens": one.tokens,
            "stated_flops": one.stated,
            "flops": one.flops,
            "counted_flops": counted,
            "counted_over_6nd": counted / one.flops,
        }


BATCH = 64
"""Sequences of a step whose FLOPs are counted."""


def _step(one: Training) -> dict[str, Any]:
    """A step of a training on as many devices as one replica takes."""
    return {
        "model": dict(one.model) if isinstance(one.model, Mapping) else one.model,
        "cluster": f"{BATCH}x a100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": one.sequence_length, "global_batch": BATCH},
        "plan": {"framework": "reference", "tensor_parallel": 8, "pipeline_parallel": 8, "micro_batch": 1},
    }


DOLLARS: OpenSetting[str] = OpenSetting(
    name="dollars of prices", choices={f"prices in {name}": name for name in (OF_THE_DAY, CONSTANT)}
)


@FINDINGS.add(DOLLARS)
def c2(ask: Ask, dollars: Choice[str]) -> Interpretation:
    """Return the years in which fp32 per dollar doubles over launches until 2021."""
    growth = ask.study("trends").summary["doubling_years_of_published_years"][dollars.value]
    sentence = (
        f"Over {growth['points']} launches of 2006 to 2021 fp32 per dollar doubles every {growth['years']:.2f} years "
        f"({growth['interval'][0]:.2f} to {growth['interval'][1]:.2f}); each market has a level of its own."
    )
    return Interpretation(values=[growth["years"]], sentence=sentence)


TABLES.add_study("trends", status="published")


@FINDINGS.add()
def c3(ask: Ask) -> Interpretation:
    """Return how many times as fast training compute doubles as the peak of accelerators does."""
    told = ask.study("budgets", view="ideal").summary["doubling_years"]
    trained, peak = told["training FLOPs"], told["accelerator peak"]
    sentence = (
        f"Compute of {trained['points']} published trainings doubles every {trained['years']:.1f} years, the 16-bit "
        f"peak of {peak['points']} accelerators every {peak['years']:.1f}."
    )
    return Interpretation(values=[peak["years"] / trained["years"]], sentence=sentence)


def gap(ask: Ask) -> ReproducedTable:
    """Return trainings and accelerators over the years, with the pictures of both."""
    study = ask.study("budgets", view="ideal")
    keys = ("kind", "name", "year", "flops", "device_years", "peak_flops", "memory_bytes")
    rows = [{key: row[key] for key in keys if key in row} for row in study.summary["over_years"]]
    labels = {"kind": "kind", "name": "name", "year": "year"}
    about = {key: study.about.get(key, Column(label=labels.get(key, key))) for key in keys}
    pictures = [figure for figure in study.figures if figure.kind == "points"]
    return table("gap", "Compute of trainings and peak of accelerators", rows, about=about, figures=pictures)


TABLES["gap"] = gap
_OF_COMPUTE = {*FINDINGS, *TABLES}

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
"""No framework launches a step on heterogeneous devices; all else is as Megatron-LM has it."""
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


@FINDINGS.add()
def c4(ask: Ask) -> Interpretation:
    """Return the automatic plan's throughput over that of each strategy that fits."""
    rates = {name: float(one.tokens_per_s) for name, one in _strategies(ask).items() if one.fits}
    nearest, best = max(rates, key=lambda name: rates[name]), float(_automatic(ask).tokens_per_s)
    sentence = (
        f"{len(rates)} of {len(STRATEGIES)} strategies fit {MODEL} on {BASE['cluster']}; the nearest is {nearest} with "
        f"{rates[nearest]:,.0f} tokens/s, the automatic plan trains {best:,.0f}."
    )
    return Interpretation(values=[best / rate for rate in rates.values()], sentence=sentence)


def _strategies(ask: Ask) -> dict[str, Profile]:
    return {name: ask.profile({**BASE, "plan": dict(plan)}) for name, plan in STRATEGIES.items()}


def _automatic(ask: Ask) -> Profile:
    return _fastest(ask, {**BASE, "plan": dict(AUTOMATIC)})


def _fastest(ask: Ask, scenario: Asked, *, launchable: bool = True) -> Profile:
    """The fastest plan; of these models some fits."""
    found = ask.plan(scenario, launchable=launchable).plans
    return min((one.profile for one in found), key=lambda one: float(one.step_time_s))


@TABLES.add(
    "strategies",
    f"Strategies of {MODEL} on {BASE['cluster']}",
    about=ABOUT,
    figures=[Figure(kind="bars", title="Tokens per second by strategy", x="strategy", y="tokens_per_s")],
)
def strategies(ask: Ask) -> Iterator[Row]:
    """Yield the strategies and the automatic plan, and what each takes."""
    for name, profile in {**_strategies(ask), "automatic": _automatic(ask)}.items():
        yield {"strategy": name, **_row(profile)}


@TABLES.add(
    "plans",
    f"Automatic plans of {MODEL} on {BASE['cluster']}",
    about={"rank": Column(label="rank"), "tied": Column(label="like the first"), **ABOUT},
)
def plans(ask: Ask) -> Iterator[Row]:
    """Yield the best automatic plans, and which the uncertainty tells from the first."""
    for plan in ask.plan({**BASE, "plan": dict(AUTOMATIC)}).plans:
        yield {"rank": plan.rank, "tied": plan.tied, **_row(plan.profile)}


@FINDINGS.add()
def c5(ask: Ask) -> Interpretation:
    """Return the throughput of both kinds of devices together over that of the better kind alone."""
    rates = {name: float(one.tokens_per_s) for name, one in _together(ask).items()}
    said = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    ours = rates[TOGETHER] / max(rates[OLD], rates[NEW])
    return Interpretation(values=[ours], sentence=f"Tokens per second of {MODEL}, each under its best plan: {said}.")


def _together(ask: Ask) -> dict[str, Profile]:
    """The fastest plan on each kind of device, and on both."""
    plan = {**MIXED["plan"], **(SMALL_PLAN if ask.small else {})}
    clusters = {OLD: OLD, NEW: NEW, TOGETHER: {"devices": [OLD, NEW], "network": "infiniband-hdr"}}
    return {
        name: _fastest(ask, {**MIXED, "cluster": cluster, "plan": plan}, launchable=False)
        for name, cluster in clusters.items()
    }


@TABLES.add(
    "mixed",
    f"{MODEL} on heterogeneous accelerators",
    about=ABOUT,
    figures=[Figure(kind="bars", title="Tokens per second by devices", x="devices", y="tokens_per_s")],
)
def mixed(ask: Ask) -> Iterator[Row]:
    """Yield the best plan on each kind of devices, and on both."""
    for name, profile in _together(ask).items():
        yield {"devices": name, **_row(profile)}


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


KERNELS_BASE: Mapping[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 16},
}
PLAN: Mapping[str, Any] = {"framework": "fsdp", "zero_stage": 3, "micro_batch": 1}
DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb")
KERNELS: Mapping[str, Mapping[str, Any]] = {
    "eager": {"attention": "eager"},
    "FlashAttention-2": {"attention": "flash", "attention_kernel": "flash-2"},
    "FlashAttention-3": {"attention": "flash", "attention_kernel": "flash-3"},
    "cuDNN": {"attention": "flash", "attention_kernel": "cudnn"},
}
NEEDS_HOPPER = {"FlashAttention-3"}
"""Kernels that A100 does not run."""
COMPILERS = {False: "eager mode", True: "torch.compile"}
ABOUT_KERNELS: Mapping[str, Column] = {
    "device": Column(label="devices"),
    "kernel": Column(label="attention"),
    "compiler": Column(label="other operators"),
    "step_time_s": Column(label="step", unit="s"),
    "speedup": Column(label="times as fast"),
    "mfu": Column(label="MFU", unit="share"),
    "memory_bytes": Column(label="memory", unit="B"),
}


BY_KERNEL = Figure(
    kind="bars", title="Step by kernels and compiler", x="kernel", y="step_time_s", series="compiler", panel="device"
)


@TABLES.add("kernels", f"Kernels and compiler: {KERNELS_BASE['model']}", about=ABOUT_KERNELS, figures=[BY_KERNEL])
def kernels(ask: Ask) -> Iterator[Row]:
    """Yield step times by kernel of attention and by compiler, over eager ones of both."""
    eager_s: dict[str, float] = {}
    for device, (kernel, how), (compiled, compiler) in product(DEVICES, KERNELS.items(), COMPILERS.items()):
        if kernel in NEEDS_HOPPER and device.startswith("a100"):
            continue
        profile = ask.profile({**KERNELS_BASE, "cluster": f"8x {device}", "plan": {**PLAN, **how, "compile": compiled}})
        seconds = float(profile.step_time_s)
        yield {
            "device": f"8x {device}",
            "kernel": kernel,
            "compiler": compiler,
            "step_time_s": seconds,
            "speedup": eager_s.setdefault(device, seconds) / seconds,
            "mfu": float(profile.mfu),
            "memory_bytes": float(profile.memory_bytes["total"]),
        }


_PREDICTED = {*FINDINGS, *TABLES} - _OF_COMPUTE

SOURCE = Source(
    findings=FINDINGS,
    tables=TABLES,
    without_pictures=("flops", "plans"),
    assumptions=(
        Assumption(
            "Models, clusters and batches are our choice; the talk states strategies and accelerators, not settings.",
            _PREDICTED,
        ),
        Assumption(
            "Plans are predicted in the calibrated view, with today's releases of the frameworks.",
            _PREDICTED,
        ),
        Assumption(
            "An automatic plan is the fastest launchable plan.",
            ("C4", "strategies", "plans"),
        ),
        Assumption(
            "No framework launches a step on heterogeneous devices; such plans are predicted only.", ("C5", "mixed")
        ),
    ),
)
