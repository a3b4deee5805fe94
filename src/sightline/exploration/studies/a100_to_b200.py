"""What a training step of GPT gains from A100s to B200s, taken apart factor by factor (arXiv 2407.14645).

The plan is searched again after each change, so that memory turns into larger micro-batches and less recomputation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sightline import catalog
from sightline.errors import InputError
from sightline.exploration.base import Restricted, StudyRequest, base_of, fastest, in_view, name_of, said_of
from sightline.exploration.study_answer import Column, Figure, StudyAnswer, View, columns_of, result_columns
from sightline.loading import scenario_from_mapping
from sightline.prediction import predict
from sightline.profile import LEVEL_NAMES, TRAINING, Profile
from sightline.progress import Progress

OLD, NEW = "a100-sxm-80gb", "gb200"
PLAN_OF_2021: Mapping[str, Any] = {
    "tensor_parallel": 8,
    "pipeline_parallel": 8,
    "virtual_stages": 2,
    "schedule": "interleaved",
    "micro_batch": 1,
    "zero_stage": 0,
    "sequence_parallel": False,
    "attention": "eager",
}
"""As Megatron-LM trained on A100s then (arXiv 2104.04473)."""
RELEASE_OF_2021: Mapping[str, Any] = {"framework_version": "2021-04"}
NOT_OVERLAPPED: Mapping[str, Any] = {
    "overlap_gradient_reduce": False,
    "overlap_parameter_gather": False,
    "tensor_overlap": "none",
}
"""What the release of then did not overlap; the ideal view has no releases, so that the plan says it."""
RECOMPUTATIONS = ("none", "selective", "full")
PROCESSOR = (
    *("peak_flops", "vector_flops", "l2", "l2_bandwidth", "compute_units", "architecture", "tdp", "idle_power"),
    *("calibration", "relatives"),
)
"""Figures of a device that its processor brings; the others are its memory's."""
NETWORKS: Mapping[tuple[bool, bool], Any] = {
    (False, False): "infiniband-hdr",
    (True, False): "infiniband-ndr",
    (False, True): {"same_as": "infiniband-hdr", "bandwidth_per_node": "1800 GB/s"},
    (True, True): "infiniband-ndr-72",
}
"""Between nodes, by whether it is the newer one and whether nodes have 72 devices; each device has a port to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that differs between the two systems."""

    name: str
    words: str
    """What is changed, as a table says it."""
    needs: frozenset[str] = frozenset()
    """Changes without which it means nothing."""


PLAN = "plan"
_SEARCHED = frozenset({PLAN})
CHANGES = (
    Change(name=PLAN, words="searched plan, overlap, fused attention"),
    Change(name="compute", words="16-bit peak, caches and kernels of B200", needs=_SEARCHED),
    Change(name="precision", words="nvfp4 instead of fp16", needs=_SEARCHED | {"compute"}),
    Change(name="memory_bandwidth", words="memory bandwidth of B200", needs=_SEARCHED),
    Change(name="recomputation", words="only the recomputation the plan needs", needs=_SEARCHED),
    Change(name="memory_capacity", words="memory capacity of B200", needs=_SEARCHED),
    Change(name="interconnect", words="NVLink 5 and InfiniBand NDR", needs=_SEARCHED),
    Change(name="domain", words="72 devices in an NVLink domain", needs=_SEARCHED),
)
"""In the order in which they are made."""
NAMES = tuple(change.name for change in CHANGES)
ALL = frozenset(NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The systems as one view of devices sees them; each is predicted once."""

    base: Mapping[str, Any]
    """Scenario of training without cluster, dtype and layout."""
    devices: int
    view: View
    searched: Restricted
    """Fields of the plan that are searched, but for recomputation."""
    progress: Progress
    known: dict[frozenset[str], Profile] = field(default_factory=dict)
    """Predictions by the changes that are made."""

    def at(self, made: frozenset[str]) -> Profile:
        """Return the step of the system in which some changes are made, under its fastest plan."""
        if made not in self.known:
            self.known[made] = self._predicted(made)
            self.progress.advance()
        return self.known[made]

    def seconds(self, made: frozenset[str]) -> float:
        """Return the time of that step."""
        return float(self.at(made).step_time_s)

    def steps(self, made: frozenset[str]) -> Iterator[tuple[Change, frozenset[str], frozenset[str]]]:
        """Yield the changes that are not made yet, in order, with those that are made before and after each."""
        for change in CHANGES:
            if change.name not in made:
                yield change, made, made | {change.name}
                made |= {change.name}

    def factors(self) -> dict[str, float]:
        """Return what each change gains, in order; the product is the gain over the plan of 2021."""
        return {
            change.name: self.seconds(before) / self.seconds(after) for change, before, after in self.steps(frozenset())
        }

    def first_and_last(self) -> dict[str, tuple[float, float]]:
        """Return what each change but the plan's gains where it is made before, and after, all others that it can."""
        found = {}
        for change in CHANGES[1:]:
            others = frozenset(other.name for other in CHANGES if change.name not in {other.name, *other.needs})
            found[change.name] = (
                self.seconds(change.needs) / self.seconds(change.needs | {change.name}),
                self.seconds(others) / self.seconds(others | {change.name}),
            )
        return found

    def _predicted(self, made: frozenset[str]) -> Profile:
        scenario = in_view({**self.base, "cluster": self._cluster(made), "plan": self._plan(made)}, self.view)
        if PLAN not in made:
            return predict(scenario_from_mapping(scenario))
        recompute = RECOMPUTATIONS if "recomputation" in made else ("full",)
        return fastest(scenario, {**self.searched, "recompute": recompute}, self.progress)

    def _plan(self, made: frozenset[str]) -> dict[str, Any]:
        """The plan as far as it is not searched."""
        plan = {**self.base["plan"], "dtype": "nvfp4" if "precision" in made else "fp16"}
        if PLAN in made:
            return plan
        then = NOT_OVERLAPPED if self.view == "ideal" else RELEASE_OF_2021
        return {**plan, **PLAN_OF_2021, **then, "recompute": "full"}

    def _cluster(self, made: frozenset[str]) -> dict[str, Any]:
        new = catalog.entry("devices", NEW)
        newer, domain = "interconnect" in made, "domain" in made
        of_change = {"compute": PROCESSOR, "memory_bandwidth": ("memory_bandwidth",), "memory_capacity": ("memory",)}
        taken = {key: new[key] for change, keys in of_change.items() if change in made for key in keys if key in new}
        name = OLD if not taken else NEW if made >= of_change.keys() else f"{OLD} to {NEW}"
        return {
            "devices": f"{self.devices}x {OLD}",
            "per_node": 72 if domain else 8,
            "device": {"same_as": OLD, "name": name, **taken},
            "intra_node": "nvlink3" if not newer else "nvlink5-nvl72" if domain else "nvlink5",
            "network": NETWORKS[newer, domain],
            "host": catalog.entry("devices", NEW if "compute" in made else OLD)["server"]["host"],
        }


DEVICES = 1152
"""144 servers of eight, or 16 racks of 72."""
BASE: Mapping[str, Any] = {
    "model": "gpt-3-175b",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 2304},
    "plan": {"framework": "megatron"},
}
SEARCHED: Restricted = {
    **dict.fromkeys(("tensor_parallel", "pipeline_parallel", "virtual_stages", "micro_batch", "sequence_parallel")),
    "schedule": ("1f1b", "interleaved"),
    "zero_stage": (1, 2, 3),
}
QUICKLY_SEARCHED: Restricted = {**SEARCHED, "sequence_parallel": (True,), "zero_stage": (2, 3)}
VARIED = (
    *("cluster", "workload.task", "plan.framework", "plan.framework_version", "plan.dtype", "plan.recompute"),
    *(f"plan.{key}" for key in (*PLAN_OF_2021, *NOT_OVERLAPPED, "data_parallel")),
)
OTHER_SIZES = ((DEVICES // 2, 1), (DEVICES, 4), (4 * DEVICES, 4))
"""Further systems: devices, and multiples of the global batch."""
OF_2021, FULLY_RECOMPUTED, BEST = "plan of 2021", "best plan", "best plan, any recomputation"
BASELINES: Mapping[str, frozenset[str]] = {
    OF_2021: frozenset(),
    FULLY_RECOMPUTED: frozenset({PLAN}),
    BEST: frozenset({PLAN, "recomputation"}),
}
"""What a gain is over: A100s under these plans, by the changes that they have already."""
ABOUT: Mapping[str, Column] = {
    **result_columns(TRAINING),
    "change": Column(label="change", values={name: name.replace("_", " ") for name in NAMES}),
    "what": Column(label="change"),
    "factor": Column(label="times faster"),
    "per_node": Column(label="devices of a node"),
    "memory_bytes": Column(label="memory", unit="B"),
}
PUBLISHED: Mapping[str, Any] = {
    "gain": 35,
    "source": "arXiv 2407.14645, abstract: about 35; model, baseline and plan are not stated",
}
FIGURES = (
    Figure(
        kind="factors",
        title="A training step from A100 to B200",
        x="change",
        y="factor",
        panel="view",
        where={"baseline": OF_2021, "change": NAMES},
    ),
    Figure(
        kind="lines",
        title="Step time after each change",
        x="change",
        y="step_time_s",
        series="view",
        log=frozenset({"y"}),
        where={"baseline": OF_2021},
    ),
)


def study(request: StudyRequest) -> StudyAnswer:
    """Return the steps from A100s to B200s, each under its fastest plan, and what each gains."""
    base = _checked(base_of(BASE, request, VARIED))
    views = request.views("both")
    searched = QUICKLY_SEARCHED if request.quick else SEARCHED
    ladders = [
        Ladder(base=base, devices=DEVICES, view=view, searched=searched, progress=request.progress) for view in views
    ]
    request.progress.begin(None, "searching plans")
    rows = [row for ladder in ladders for row in _rows(ladder)]
    summary = _summary(ladders, quick=request.quick)
    return StudyAnswer(
        study="a100-to-b200",
        title="Gain of a training step from A100 to B200",
        axes={"change": list(NAMES), "baseline": [OF_2021, FULLY_RECOMPUTED]},
        columns=columns_of(rows),
        about=ABOUT,
        summary=summary,
        assumptions=_assumptions(views, base),
        reading=_reading(summary, ladders),
        figures=FIGURES,
        shown=("view", "baseline", "change", "step_time_s", "factor", "gain", "recompute", "bound_level"),
    )


def _checked(base: dict[str, Any]) -> dict[str, Any]:
    """Return the base scenario if it states its number of sequences."""
    if not isinstance(base["workload"]["global_batch"], int):
        raise InputError("workload.global_batch of a100-to-b200 must be a whole number of sequences, such as 2304")
    return base


def _rows(ladder: Ladder) -> Iterator[dict[str, Any]]:
    """Yield a row for each step over the plan of 2021, then over the best that recomputes everything."""
    for baseline in (OF_2021, FULLY_RECOMPUTED):
        made = BASELINES[baseline]
        whole = ladder.seconds(made)
        of_baseline = {"view": ladder.view, "baseline": baseline}
        yield {**of_baseline, "change": "A100", "what": f"A100, {baseline}", "factor": 1.0, "gain": 1.0} | _of_step(
            ladder.at(made)
        )
        for change, before, after in ladder.steps(made):
            gained = {
                "factor": ladder.seconds(before) / ladder.seconds(after),
                "gain": whole / ladder.seconds(after),
            }
            yield {**of_baseline, "change": change.name, "what": change.words, **gained} | _of_step(ladder.at(after))


def _of_step(profile: Profile) -> dict[str, Any]:
    """What a row says of a step and its plan."""
    plan, cluster = profile.scenario.plan, profile.scenario.cluster
    degrees = ("tensor_parallel", "pipeline_parallel", "data_parallel", "virtual_stages", "micro_batch", "zero_stage")
    return {
        "step_time_s": float(profile.step_time_s),
        "fits": bool(profile.fits),
        "device": cluster.device.name,
        "per_node": cluster.per_node,
        "dtype": plan.dtype,
        **{key: int(getattr(plan, key)) for key in degrees},
        "sequence_parallel": bool(plan.sequence_parallel),
        "recompute": plan.recompute,
        "attention": plan.attention,
        "memory_bytes": float(profile.memory_bytes["total"]),
        "model_flops_per_s_per_device": float(profile.model_flops_per_s_per_device),
        "exposed_share": float(profile.phases["communication_exposed"] / profile.step_time_s),
        "bubble_share": float(profile.phases["pipeline_bubble"] / profile.step_time_s),
        "bound_level": str(profile.bound_level),
    }


def _summary(ladders: Sequence[Ladder], *, quick: bool) -> dict[str, Any]:
    """The gain and its factors in the first view over the plan of 2021, and those of the other views and baselines."""
    gains = {ladder.view: _gains_of(ladder) for ladder in ladders}
    factors = {ladder.view: ladder.factors() for ladder in ladders}
    first = ladders[0]
    return {
        "gain": gains[first.view][OF_2021],
        "factors": factors[first.view],
        "view": first.view,
        "baseline": OF_2021,
        "gains": gains,
        "factors_by_view": factors,
        "made_first_and_last": {} if quick else {name: list(both) for name, both in first.first_and_last().items()},
        "other_sizes": [] if quick else list(_at_other_sizes(first)),
        "published": dict(PUBLISHED),
    }


def _gains_of(ladder: Ladder) -> dict[str, float]:
    """The whole gain over each baseline."""
    return {name: ladder.seconds(made) / ladder.seconds(ALL) for name, made in BASELINES.items()}


def _at_other_sizes(ladder: Ladder) -> Iterator[dict[str, Any]]:
    """Yield the gains on other numbers of devices and sequences."""
    work = ladder.base["workload"]
    for devices, multiple in OTHER_SIZES:
        batch = multiple * work["global_batch"]
        base = {**ladder.base, "workload": {**work, "global_batch": batch}}
        found = _gains_of(replace(ladder, base=base, devices=devices, known={}))
        yield {"devices": devices, "global_batch": batch, "gains": found}


def _assumptions(views: Sequence[View], base: Mapping[str, Any]) -> tuple[str, ...]:
    more: Mapping[View, str] = {
        "ideal": "nvfp4 at its datasheet rate; with the 2021 plan, communication is not overlapped",
        "calibrated": "training uses Megatron-LM: the release of April 2021 with the 2021 plan, and today's release "
        "with the fastest plan, launchable or not; measured constants and host of B200 come with its peak",
    }
    work, order = base["workload"], ", ".join(ABOUT["change"].values.values())
    return (
        *(said_of(view, more[view]) for view in views),
        (
            f"{name_of(base['model'])} on {DEVICES:,} devices before and after, {work['global_batch']:,} sequences of "
            f"{work['sequence_length']:,} tokens in a step."
        ),
        "Baselines are A100s in fp16 with full recomputation, except for the best plan with any recomputation.",
        (
            "The 2021 plan follows arXiv 2104.04473: tensor and pipeline parallelism of 8, micro-batch 1, "
            "attention not fused."
        ),
        "B200 is that of a GB200 NVL72 rack; nvfp4 applies to linear layers, the rest computes in bf16.",
        (
            "After each change, degrees of parallelism, schedule, micro-batch and ZeRO stage are searched again; "
            "nothing is offloaded."
        ),
        f"Factors depend on the order: {order}. Another order has other factors but the same product.",
        "For other orders, only the gain of each change made first and last is predicted.",
    )


def _reading(summary: Mapping[str, Any], ladders: Sequence[Ladder]) -> tuple[str, ...]:
    lines = [_gains(view, gains) for view, gains in summary["gains"].items()]
    lines.append(f"The paper states about {PUBLISHED['gain']} without a baseline; nothing here is fitted to it.")
    for view, factors in summary["factors_by_view"].items():
        product = " x ".join(f"{name.replace('_', ' ')} {factor:.2f}" for name, factor in factors.items())
        lines.append(f"{view.capitalize()} view, in order: {product}.")
    ladder = ladders[0]
    first, last = ladder.at(BASELINES[BEST]).scenario.plan, ladder.at(ALL).scenario.plan
    lines.append(
        f"From the best A100 plan with any recomputation to B200, the micro-batch goes from {first.micro_batch} "
        f"to {last.micro_batch}, and recomputation from {first.recompute} to {last.recompute}."
    )
    lines += [_what_binds(ladder) for ladder in ladders]
    lines += [*_order_matters(summary["made_first_and_last"]), *_size_matters(summary["other_sizes"])]
    return tuple(lines)


def _gains(view: str, gains: Mapping[str, float]) -> str:
    return (
        f"{view.capitalize()} view: {gains[OF_2021]:.1f} times faster than A100s with the 2021 plan, "
        f"{gains[FULLY_RECOMPUTED]:.1f} times faster than their best plan with full recomputation, "
        f"{gains[BEST]:.1f} times faster than their best plan with any."
    )


def _what_binds(ladder: Ladder) -> str:
    """What binds most of the time before all changes and after each, in a sentence."""
    start: frozenset[str] = frozenset()
    levels = [f"{_level(ladder, start)} at first"]
    levels += [
        f"{_level(ladder, after)} after {change.name.replace('_', ' ')}"
        for change, before, after in ladder.steps(start)
        if _level(ladder, after) != _level(ladder, before)
    ]
    return f"{ladder.view.capitalize()} view: the bottleneck is {', '.join(levels)}."


def _level(ladder: Ladder, made: frozenset[str]) -> str:
    """What binds most of the time after some changes, as readers know it."""
    return LEVEL_NAMES[str(ladder.at(made).bound_level)]


def _order_matters(made: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield a sentence on the changes whose factors depend most on when they are made."""
    if made:
        widest = sorted(made, key=lambda name: max(made[name]) / min(made[name]), reverse=True)[:3]
        ranges = ", ".join(f"{name.replace('_', ' ')} {made[name][0]:.2f} and {made[name][1]:.2f}" for name in widest)
        yield f"The changes that depend most on the order gain, made first and last: {ranges}."


def _size_matters(sizes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence on the gain over the plan of 2021 on other numbers of devices and sequences."""
    if sizes:
        said = ", ".join(
            f"{size['gains'][OF_2021]:.1f} on {size['devices']:,} devices with {size['global_batch']:,} sequences"
            for size in sizes
        )
        yield f"The gain over the 2021 plan is {said}."
