"""What a profile of each task consists of: its metrics and their formulas, its phases, its short tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from sightline.content import record
from sightline.quantities import SECONDS, Count, Number, either, format_quantity
from sightline.scenario.precision import rate_dtype

if TYPE_CHECKING:
    from sightline.profile.profile import Profile
    from sightline.scenario import Generate

Unit: TypeAlias = Literal[
    "s", "tokens/s", "requests/s", "tokens", "FLOP", "FLOP/s", "B", "B/s", "J", "USD", "share", "count", "word"
]
STATISTICS = ("mean", "p50", "p90", "p99")
"""What a result says of a time that many requests have: their mean, and percentiles."""


Formula: TypeAlias = "Callable[[Profile], Any]"


def _always(_: "Profile") -> bool:
    return True


_HIGHER_IS_BETTER = ("tokens/s", "requests/s", "FLOP/s", "B/s", "share")
_LOWER_IS_BETTER = ("s", "B", "J", "USD")


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One figure of a profile: all that anybody has to know to show it, in one place.

    Its key in the task's ``metrics`` is its result key.
    """

    unit: Unit
    label: str
    """Its name in tables and charts."""
    meaning: str
    formula: "Formula | None" = None
    """How it follows from the other metrics; None for one that a prediction or measurement states."""
    applies: "Callable[[Profile], bool]" = _always
    """Whether a scenario has this metric at all; one that applies and is unknown is None."""
    parts: tuple[str, ...] = ()
    """Of a metric that is a mapping: its keys, such as ``mean`` and ``p90``. The part's own key is ``ttft_s.p90``."""
    short: str = ""
    """The heading of a narrow column; the label without ``time`` unless stated."""
    spoken: str = ""
    """Its name in a sentence; the label unless stated."""
    better: Literal["lower", "higher", "neither", ""] = ""
    """Which of two values is better; that of its unit unless stated."""

    def __post_init__(self) -> None:
        usual = "higher" if self.unit in _HIGHER_IS_BETTER else "lower" if self.unit in _LOWER_IS_BETTER else "neither"
        for name, value in (("short", self.label.removesuffix(" time")), ("spoken", self.label), ("better", usual)):
            object.__setattr__(self, name, getattr(self, name) or value)

    def of_part(self, part: str) -> "Metric":
        """Return the declaration of one part."""
        label, spoken = (f"mean {name}" if part == "mean" else f"{name} {part}" for name in (self.label, self.spoken))
        short = self.short if part == "mean" else f"{self.short} {part}"
        return replace(self, label=label, short=short, spoken=spoken, parts=())


@record
class Task:
    """What a profile of one task declares."""

    name: str
    """training, generation, serving or operator."""
    workloads: tuple[str, ...]
    """Values of ``workload.task``."""
    metrics: Mapping[str, Metric]
    whole: str
    """The time that phases and limits sum to. Parts without an interval of their own take its interval."""
    headline: tuple[str, ...]
    """Metrics of the short table."""
    details: tuple[str, ...] = ()
    """Further metrics of a report."""
    totals: tuple[str, ...] = ()
    """Amounts of the whole run or batch."""
    compared: tuple[str, ...]
    """Columns of a table with one line per scenario: metrics, ``memory``, ``fits``, ``bottleneck``, ``evidence``."""
    best: str
    """The metric of which more is better when scenarios are compared."""
    phases: tuple[str, ...] = ()
    """Parts of ``whole``, in seconds; they sum to it."""
    phase_times: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose interval a phase takes."""

    @property
    def figures(self) -> Mapping[str, Metric]:
        """The metrics under the keys of single figures: those that are mappings part by part, ``ttft_s.p90``."""
        return _figures(self)

    def declared(self, key: str) -> Metric:
        """Return the declaration of a single figure, of any percentile too: ``ttft_s.p95``."""
        name, _, part = key.partition(".")
        return self.figures[key] if key in self.figures else self.metrics[name].of_part(part)

    @property
    def times(self) -> tuple[str, ...]:
        """The times among the headline's figures."""
        return tuple(key for key in self.headline if self.figures[key].unit == "s")

    @property
    def rates(self) -> tuple[str, ...]:
        """The headline's figures of which more is faster."""
        return tuple(key for key in self.headline if self.figures[key].unit != "s")

    @property
    def shares(self) -> tuple[str, ...]:
        """Rates that are shares of a device's; more is not always better."""
        return tuple(key for key in self.headline if self.figures[key].unit == "share")


@cache
def _figures(task: Task) -> Mapping[str, Metric]:
    """What `Task.figures` returns; tables of many profiles ask for it again and again."""
    return {
        f"{key}.{part}" if part else key: metric.of_part(part) if part else metric
        for key, metric in task.metrics.items()
        for part in metric.parts or ("",)
    }


IDLE_PHASES = ("pipeline_bubble", "host")
"""Phases in which the device waits."""
BOUNDS = ("compute", "memory", "network", "host", "bubble")
"""What may limit an operator, a step or a batch."""
LEVEL_NAMES = {"compute": "compute", "dram": "DRAM", "l2": "L2", "network": "network", "host": "host"}
"""What readers see of a level."""
LEVELS = tuple(LEVEL_NAMES)
"""Levels of the machine that may bind them. Memory is one of dram and l2; a bubble has the level of what it awaits."""


def latency_s(work: "Generate", ttft_s: Number, tpot_s: Number | None) -> Number:
    """Return seconds from arrival to the last token; a single token has no ``tpot_s``: None, of many plans NaN."""
    further = work.output_tokens - 1.0
    return ttft_s if tpot_s is None else ttft_s + either(further > 0.0, further * tpot_s, 0.0)


def output_tokens_per_s(work: "Generate", ttft_s: Number, tpot_s: Number | None) -> Number:
    """Return tokens generated per second: those of all sequences over the latency of one.

    In a steady loop too: during the latency of one sequence all sequences together generate as many tokens.
    """
    return work.batch * work.output_tokens / latency_s(work, ttft_s, tpot_s)


def _batch_s(profile: "Profile") -> Number:
    """Seconds that a batch occupies the cluster: its latency, in a steady loop its share of the time."""
    seconds: Number = _output_tokens(profile) / profile.output_tokens_per_s
    return seconds


def _output_tokens(profile: "Profile") -> Number:
    work = profile.scenario.workload
    tokens: Number = work.batch * work.output_tokens * 1.0
    return tokens


def rent_usd(seconds: Number, devices: Count, usd_per_hour: Number | None) -> Number | None:
    """Return the rent of ``devices`` for some time; None where they have no price."""
    return None if usd_per_hour is None else seconds / 3600 * devices * usd_per_hour


def _rent_usd(profile: "Profile", seconds: Number) -> Number | None:
    """Rent of all devices for some time; None where one has no price."""
    cluster = profile.scenario.cluster
    return rent_usd(seconds, cluster.devices, cluster.usd_per_hour)


def _existing(profile: "Profile") -> Number:
    """Which share of the replicas there are, on average over the run; all of them unless they come and go."""
    found = profile.replicas
    share: Number = 1.0 if found is None else found["mean"] / profile.scenario.plan.replicas
    return share


def _autoscales(profile: "Profile") -> bool:
    return profile.scenario.plan.autoscale is not None


def _has_price(profile: "Profile") -> bool:
    return profile.scenario.cluster.usd_per_hour is not None


def _usd_per_hour(profile: "Profile") -> Number | None:
    return _rent_usd(profile, 3600.0)


def _per_million_tokens_usd(profile: "Profile") -> Number | None:
    rent = profile.cost_usd
    return None if rent is None else rent / _output_tokens(profile) * 1e6


def _per_device(key: str) -> Formula:
    return lambda p: getattr(p, key) / p.scenario.cluster.devices


def _of_run(key: str) -> Formula:
    """A figure of one step times the steps of the run; None without ``total_tokens``."""
    return lambda p: None if p.steps is None else p.steps * getattr(p, key)


def _reached(key: str) -> Formula:
    """An amount per second; None for an operator that takes no time."""
    return lambda p: None if np.all(np.equal(p.time_s, 0.0)) else getattr(p, key) / p.time_s


def _utilization(key: str) -> Formula:
    """FLOPs of a step per second and device over a device's peak."""
    return lambda p: getattr(p, key) / p.step_time_s / p.scenario.cluster.devices / p.peak_flops


def _has_length(profile: "Profile") -> bool:
    return bool(profile.scenario.workload.total_tokens is not None)


def _latency_s(profile: "Profile") -> Number:
    return latency_s(profile.scenario.workload, profile.ttft_s, profile.tpot_s)


def _output_rate(profile: "Profile") -> Number:
    return output_tokens_per_s(profile.scenario.workload, profile.ttft_s, profile.tpot_s)


def _cost_of_run_usd(profile: "Profile") -> Number | None:
    return None if profile.run_time_s is None else _rent_usd(profile, profile.run_time_s)


def _tokens_per_s(profile: "Profile") -> Any:
    return profile.scenario.workload.tokens_per_step / profile.step_time_s


def _peak_flops(profile: "Profile") -> Any:
    """The peak of a device, of unlike ones their mean."""
    cluster, dtype = profile.scenario.cluster, rate_dtype(profile.scenario.plan.dtype)
    if not cluster.groups:
        return cluster.device.peak_flops[dtype]
    return sum(part.devices * part.device.peak_flops[dtype] for part in cluster.groups) / cluster.devices


_RENT = Metric("USD", "cost per hour", "Rent of all devices for an hour.", _usd_per_hour, _has_price, short="$/hour")
_TRAINING = {
    "step_time_s": Metric("s", "step time", "One optimizer step."),
    "tokens_per_s": Metric("tokens/s", "tokens/s", "Tokens trained per second on the whole cluster.", _tokens_per_s),
    "tokens_per_s_per_device": Metric(
        "tokens/s", "tokens/s per device", "Tokens trained per second and device.", _per_device("tokens_per_s")
    ),
    "model_flops": Metric(
        "FLOP", "model FLOPs", "FLOPs of a step on all devices, without recomputation; attention counted unmasked."
    ),
    "hardware_flops": Metric("FLOP", "hardware FLOPs", "FLOPs of a step on all devices, with recomputation."),
    "model_flops_per_s_per_device": Metric(
        "FLOP/s",
        "model FLOP/s per device",
        "FLOP/s per device without recomputation.",
        lambda p: p.model_flops / p.step_time_s / p.scenario.cluster.devices,
    ),
    "peak_flops": Metric("FLOP/s", "peak FLOP/s", "Dense peak of a device in the plan's compute dtype.", _peak_flops),
    "mfu": Metric("share", "MFU", "Model FLOPs utilization: without recomputation.", _utilization("model_flops")),
    "hfu": Metric("share", "HFU", "Hardware FLOPs utilization: with recomputation.", _utilization("hardware_flops")),
    "forward_pass_s": Metric(
        "s", "forward pass", "A micro-batch's forward pass on the first stage, with the host's time per micro-batch."
    ),
    "energy_per_step_j": Metric("J", "energy of a step", "Joules of all devices in one step."),
    "usd_per_hour": _RENT,
    "total_tokens": Metric(
        "tokens", "whole run", "Tokens of the whole run.", lambda p: p.scenario.workload.total_tokens, _has_length
    ),
    "steps": Metric(
        "count", "steps", "Optimizer steps of the whole run.", lambda p: p.scenario.workload.steps, _has_length
    ),
    "run_time_s": Metric("s", "run time", "Seconds of the whole run.", _of_run("step_time_s"), _has_length),
    "energy_j": Metric("J", "energy", "Joules of the whole run.", _of_run("energy_per_step_j"), _has_length),
    "cost_usd": Metric("USD", "rent", "Cost of all devices for the whole run.", _cost_of_run_usd, _has_length),
}
_GENERATION = {
    "ttft_s": Metric(
        "s", "TTFT", "From the batch's arrival to the first token of all its sequences.", spoken="time to first token"
    ),
    "tpot_s": Metric(
        "s",
        "TPOT",
        "Mean time per output token of a sequence after the first; null where there is one token.",
        spoken="time per output token",
    ),
    "latency_s": Metric("s", "latency", "From arrival to the last token.", _latency_s),
    "output_tokens_per_s": Metric("tokens/s", "tokens/s", "Tokens generated on the whole cluster.", _output_rate),
    "output_tokens_per_s_per_device": Metric(
        *("tokens/s", "tokens/s per device", "Tokens generated per device.", _per_device("output_tokens_per_s")),
        short="tok/s/device",
    ),
    "energy_j": Metric("J", "energy", "Joules of all devices for the whole batch."),
    "usd_per_hour": _RENT,
    "cost_usd": Metric(
        "USD",
        "rent",
        "Cost of all devices for the batch; under a steady load, for its share of the time.",
        lambda p: _rent_usd(p, _batch_s(p)),
    ),
    "cost_usd_per_million_tokens": Metric(
        *("USD", "cost per million tokens", "Cost of all devices per million generated tokens."),
        _per_million_tokens_usd,
        short="$/M tokens",
    ),
}
_OPERATOR = {
    "time_s": Metric(
        "s",
        "time",
        "One execution on a device, or of a collective on all devices, without the launch time of the host.",
    ),
    "flops": Metric("FLOP", "FLOPs", "Floating-point operations; causal attention counts unmasked scores."),
    "bytes": Metric("B", "bytes", "Minimum bytes to and from device memory; for a collective, its buffer."),
    "flops_per_s": Metric("FLOP/s", "FLOP/s", "Achieved FLOP/s.", _reached("flops")),
    "bytes_per_s": Metric(
        "B/s",
        "bytes/s",
        "Bytes per second; for a collective, the algorithm bandwidth of nccl-tests.",
        _reached("bytes"),
    ),
    "bound": Metric("word", "bound by", "compute, memory or network: the slowest part of the predicted roofline."),
}


def _of_requests(label: str, meaning: str, spoken: str = "") -> Metric:
    """A time that each request has: its mean and percentiles."""
    return Metric("s", label, meaning, parts=STATISTICS, spoken=spoken)


_SERVING = {
    "ttft_s": _of_requests("TTFT", "From a request's arrival to its first token.", "time to first token"),
    "tpot_s": _of_requests("TPOT", "A request's mean time per output token after the first.", "time per output token"),
    "itl_s": _of_requests(
        "ITL",
        "Time between two tokens, over all requests; tokens that arrive together count as one.",
        "inter-token latency",
    ),
    "latency_s": _of_requests("latency", "From a request's arrival to its last token."),
    "output_tokens_per_s": Metric("tokens/s", "tokens/s", "Tokens generated per second on the whole cluster."),
    "requests_per_s": Metric("requests/s", "requests/s", "Completed requests per second of the run."),
    "sent_per_s": Metric(
        "requests/s", "sent", "Requests sent per second, where workload.arrival.concurrency limits those in flight."
    ),
    "goodput_requests_per_s": Metric(
        "requests/s", "goodput", "Completed requests per second that meet every limit of workload.slo."
    ),
    "good_share": Metric("share", "good", "Share of all requests answered within every limit of workload.slo."),
    "good_shares": Metric("share", "good by class", "The same of each class of workload.slo.classes, by name."),
    "class_times_s": Metric(
        "s", "times by class", "Each class's limited times at the percentile of workload.slo, by name and time."
    ),
    "completed": Metric("count", "completed", "Requests that received their last token."),
    "failed": Metric("count", "failed", "Requests that ended in an error; none in a simulation."),
    "refused": Metric("count", "refused", "Requests that the engine rejected, by reason."),
    "queue_s": Metric("s", "queue", "Mean time from a request's arrival to the first iteration that processes it."),
    "duration_s": Metric("s", "duration", "From the first arrival to the last token."),
    "preemptions": Metric("count", "preemptions", "Number of times a running request was evicted from the KV cache."),
    "prefix_hit_rate": Metric("share", "prefix hits", "Share of prompt tokens found in the prefix cache."),
    "kv_tiers": Metric(
        "share",
        "KV tiers",
        "For each memory tier behind the prefix cache: share of prompt tokens loaded from it, and mean load time "
        "of a request in seconds.",
    ),
    "kv_use": Metric(
        "share", "KV cache", "Share of the KV cache used by running requests, over time.", parts=("mean", "max")
    ),
    "transfer_s": Metric(
        "s",
        "transfer",
        "Mean transfer time of a prompt's keys and values between replicas, including waiting for ports.",
    ),
    "pools": Metric(
        "share",
        "pools",
        "For heterogeneous replicas, by pool: number of replicas, busy and waiting shares of the time, and KV "
        "cache use.",
    ),
    "replicas": Metric(
        "count",
        "replicas",
        "For an autoscaled server: number of replicas, including those that start or finish.",
        applies=_autoscales,
        parts=("mean", "min", "max"),
    ),
    "replica_s": Metric(
        "s", "replica time", "For an autoscaled server: total seconds of all replicas.", applies=_autoscales
    ),
    "capacity_requests_per_s": Metric(
        "requests/s", "capacity", "The highest request rate that meets workload.slo, if searched."
    ),
    "energy_j": Metric("J", "energy", "Joules of all devices during the run, including idle time."),
    "usd_per_hour": _RENT,
    "cost_usd_per_million_tokens": Metric(
        "USD",
        "cost per million tokens",
        "Cost of all devices per million generated tokens, including idle time; autoscaled replicas while they run.",
        lambda p: _rent_usd(p, _existing(p) * 1e6 / p.output_tokens_per_s) if p.output_tokens_per_s else None,
        _has_price,
        short="$/M tokens",
    ),
}

TRAINING = Task(
    name="training",
    workloads=("pretrain", "finetune"),
    metrics=_TRAINING,
    whole="step_time_s",
    headline=("step_time_s", "tokens_per_s", "mfu", "hfu"),
    details=("tokens_per_s_per_device", "model_flops_per_s_per_device"),
    totals=("total_tokens", "run_time_s", "energy_j", "cost_usd"),
    compared=(
        *("step_time_s", "interval", "tokens_per_s", "mfu", "memory", "fits", "bottleneck", "evidence"),
        *("usd_per_hour", "cost_usd"),
    ),
    best="tokens_per_s_per_device",
    phases=(
        *("forward", "reference", "backward", "recompute", "optimizer"),
        *("communication_exposed", "pipeline_bubble", "host"),
    ),
)
GENERATION = Task(
    name="generation",
    workloads=("generate",),
    metrics=_GENERATION,
    whole="latency_s",
    headline=("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s"),
    details=("output_tokens_per_s_per_device",),
    totals=("energy_j", "cost_usd_per_million_tokens"),
    compared=(
        *("ttft_s", "tpot_s", "latency_s", "interval", "output_tokens_per_s", "memory", "fits", "bottleneck"),
        *("evidence", "usd_per_hour", "cost_usd_per_million_tokens"),
    ),
    best="output_tokens_per_s_per_device",
    phases=("prefill", "decode", "communication", "transfer", "host"),
    phase_times={"prefill": "ttft_s", "decode": "tpot_s"},
)
SERVING = Task(
    name="serving",
    workloads=("serve",),
    metrics=_SERVING,
    whole="latency_s.mean",
    headline=(
        *("ttft_s.mean", "tpot_s.mean", "latency_s.mean"),
        *("output_tokens_per_s", "requests_per_s", "goodput_requests_per_s"),
    ),
    details=("prefix_hit_rate", "kv_use.mean", "kv_use.max", "queue_s", "transfer_s", "preemptions"),
    totals=("capacity_requests_per_s", "energy_j", "cost_usd_per_million_tokens"),
    compared=(
        *("requests_per_s", "goodput_requests_per_s", "output_tokens_per_s", "ttft_s.p90", "tpot_s.p90"),
        *("latency_s.p90", "interval", "kv_use.mean", "fits", "bottleneck", "evidence", "usd_per_hour"),
        "cost_usd_per_million_tokens",
    ),
    best="goodput_requests_per_s",
    phases=("queue", "prefill", "transfer", "decode_queue", "decode"),
    phase_times={"queue": "ttft_s.mean", "prefill": "ttft_s.mean", "decode": "tpot_s.mean"},
)
OPERATOR = Task(
    name="operator",
    workloads=("operator",),
    metrics=_OPERATOR,
    whole="time_s",
    headline=("time_s", "flops_per_s", "bytes_per_s"),
    compared=("time_s", "interval", "flops_per_s", "bytes_per_s", "bottleneck", "evidence"),
    best="flops_per_s",
)
TASKS = (TRAINING, GENERATION, SERVING, OPERATOR)


def task_of(workload: str) -> Task | None:
    """Return the task that answers a ``workload.task``; None for one that none answers yet."""
    return next((task for task in TASKS if workload in task.workloads), None)


OTHERS: Mapping[str, Metric] = {
    "memory_bytes.total": Metric("B", "memory", "Of the fullest device.", spoken="memory of the fullest device"),
    "calendar_time_s": Metric("s", "calendar time", "Seconds of the whole run, with the time that failures cost."),
    "most_users": Metric(
        *("count", "users", "Users served at a time within memory and limits."),
        spoken="concurrent users",
        better="higher",
    ),
    "output_tokens_per_s_per_user": Metric(
        "tokens/s", "tokens/s per user", "Tokens per second that a user sees after the first.", short="tok/s/user"
    ),
    "goodput_requests_per_s_per_device": Metric(
        *("requests/s", "capacity per device", "The highest request rate that meets workload.slo, per device."),
        short="capacity/device",
    ),
    "goodput_requests_per_usd": Metric(
        *("count", "requests per dollar", "Requests within every limit of the slo per US dollar of rent."),
        short="requests/$",
        better="higher",
    ),
    "energy_j_per_million_tokens": Metric(
        *("J", "energy per million output tokens", "Joules of all devices per million generated tokens."),
        short="energy/M output",
    ),
    "global_batch": Metric("count", "batch", "Samples of an optimizer step.", better="higher"),
    "batch": Metric(
        "count", "batch", "Sequences that are generated at a time.", spoken="sequences in flight", better="higher"
    ),
}
"""Figures of plans that searches work out beside the metrics of their profiles."""


@cache
def metric_of(key: str) -> Metric:
    """Return the declaration of a result key of whichever task declares it; of a part of the memory, that of all.

    An unknown key that ends in ``_s`` is a time, any other a plain number.
    """
    name, _, part = key.partition(".")
    found = next((task.metrics[name] for task in TASKS if name in task.metrics), None)
    if found is None:
        unit: Unit = "s" if name.endswith("_s") else "count"
        plain = Metric(unit, key.removesuffix("_s").replace("_", " "), "")
        return OTHERS.get(key) or OTHERS.get(f"{name}.total") or plain
    return found.of_part(part) if part else found


def limits_in_words(limits: Mapping[str, float]) -> str:
    """Return limits in seconds on results, by key, as people say them: TTFT 1 s, TPOT 50 ms."""
    return ", ".join(f"{metric_of(key).label} {format_quantity(limit, SECONDS)}" for key, limit in limits.items())
