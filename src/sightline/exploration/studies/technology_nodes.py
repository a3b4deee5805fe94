"""Time of training and of generation from 12 nm to 1 nm, by memory and network, at one die area and power.

The studies of nodes in arXiv 2407.14645 and DeepFlow (UCLA). At every point the device's split and the plan are
searched again: a newer node has more arithmetic, which memory and links of the same generation cannot feed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.exploration import node_times
from sightline.exploration.base import StudyRequest, base_of, name_of, said_of
from sightline.exploration.node_narrative import NODES, ends, reading, said_of_ends, speedups, summary
from sightline.exploration.study_answer import BOUND_BY, Column, Figure, StudyAnswer, View, by_level, memories
from sightline.profile import LEVELS
from sightline.quantities import show
from sightline.technology.law import law
from sightline.technology.parts import SCALINGS, Scaling

BASE: Mapping[str, Any] = {
    "model": "gpt-3-175b",
    "cluster": {"devices": 1024},
    "workload": {"task": "pretrain", "global_batch": 1024, "sequence_length": 2048},
    "plan": {"framework": "megatron", "dtype": "bf16", "zero_stage": 1, "sequence_parallel": True},
}
GENERATION: Mapping[str, Any] = {
    "model": "llama-2-70b",
    "workload": {"task": "generate", "batch": 16, "prompt_tokens": 1024, "output_tokens": 256},
    "plan": {"framework": "vllm", "dtype": "bf16"},
}
OF_GENERATION = ("workload.batch", "workload.prompt_tokens", "workload.output_tokens")
"""Keys that are set of generation; a model is set of both, all others of training."""
VARIED = (
    *(f"cluster.{part}" for part in ("device", "per_node", "intra_node", "network")),
    *("workload.task", "plan.dtype", "plan.recompute", "plan.tensor_parallel", "plan.pipeline_parallel"),
    *("plan.data_parallel", "plan.micro_batch"),
)
MEMORIES = ("hbm2", "hbm2e", "hbm3", "hbm4")
GENERATIONS = ((3, "hdr"), (4, "ndr"), (5, "xdr"), (6, "gdr"))
"""Of NVLink, and of InfiniBand in its time."""
FABRICS = tuple(node_times.Fabric(link=f"nvlink{nvlink}", network=f"infiniband-{rate}") for nvlink, rate in GENERATIONS)
LINKS = {
    fabric.name: f"NVLink {nvlink} + InfiniBand {rate.upper()}"
    for fabric, (nvlink, rate) in zip(FABRICS, GENERATIONS, strict=True)
}
"""Links as readers know them."""
SEARCH = node_times.Search(
    choices=node_times.Choices(
        nodes=NODES, memories=MEMORIES, l2_shares=(0.03, 0.08, 0.15, 0.25, 0.4, 0.6), stacks=(1, 2, 3, 4, 5)
    )
)
QUICK_SEARCH = node_times.Search(
    choices=node_times.Choices(
        nodes=("12nm", "7nm", "3nm", "1nm"), memories=("hbm2", "hbm4"), l2_shares=(0.03, 0.15, 0.4), stacks=(1, 3, 5)
    ),
    plans=node_times.Plans(tensor_parallel=(4, 8), pipeline_parallel=(2, 4, 8, 16), micro_batch=(1, 2)),
)
ABOUT: Mapping[str, Column] = {
    **by_level("{}_share", "share"),
    "time_s": Column(label="time", unit="s"),
    "node": Column(label="logic node", values={node: node.replace("nm", " nm") for node in NODES}),
    "network": Column(label="links", values=LINKS),
    "memory": memories(MEMORIES),
    "speedup": Column(label="speed-up"),
    "area_of_l2": Column(label="L2 size", unit="share"),
    "bound_level": BOUND_BY,
    "most_stacks": Column(label="most stacks"),
    "peak_flops": Column(label="peak FLOP/s", unit="FLOP/s"),
    "memory_bandwidth": Column(label="memory bandwidth", unit="B/s"),
    "l2_bandwidth": Column(label="L2 bandwidth", unit="B/s"),
    "memory_bytes": Column(label="capacity", unit="B"),
    "tdp_w": Column(label="power", unit="W"),
}
Columns = dict[str, list[Any]]


def study(request: StudyRequest) -> StudyAnswer:
    """Return the times of the best device and plan at every node, memory and network."""
    base, served = _bases(request)
    search = QUICK_SEARCH if request.quick else SEARCH
    fabrics = (FABRICS[0], FABRICS[-1]) if request.quick else FABRICS
    views, choices = request.views("both"), search.choices
    parts: list[dict[str, Any]] = []
    steps = len(SCALINGS) * len(fabrics) * len(views) * (node_times.STEPS + 1)
    request.progress.begin(steps, "searching devices and plans")
    for scaling in SCALINGS:
        for fabric in fabrics:
            found = node_times.devices(choices, scaling, fabric)
            for view in views:
                request.progress.check()
                bests = {
                    **node_times.trainings(base, view, fabric, found, search, request.progress),
                    **node_times.generation(served, view, fabric, found, search),
                }
                parts += _parts(bests, view, scaling, fabric, choices)
                request.progress.advance()
    columns = {name: np.concatenate([np.asarray(part[name]) for part in parts]).tolist() for name in parts[0]}
    unfit = int(np.isnan(columns["time_s"]).sum())
    columns["speedup"] = speedups(columns)
    at_ends = ends(columns, choices.l2_shares)
    told = {**summary(columns, choices.nodes), "at_ends_of_search": at_ends}
    return StudyAnswer(
        study="technology-nodes",
        title="Training and generation from 12 nm to 1 nm, by memory and network",
        axes={
            "view": views,
            "scaling": SCALINGS,
            "network": [fabric.name for fabric in fabrics],
            "memory": choices.memories,
            "node": choices.nodes,
        },
        columns=columns,
        about=ABOUT,
        summary=told,
        assumptions=_assumptions(base, served),
        reading=() if unfit else [*reading(columns, told), *said_of_ends(at_ends, choices.l2_shares)],
        warnings=[f"no device and plan fit at {unfit:,} of {len(columns['node']):,} points"] if unfit else (),
        figures=tuple(_figures(views, fabrics, choices)),
        shown=(
            "task",
            "view",
            "scaling",
            "network",
            "memory",
            "node",
            "time_s",
            "speedup",
            "bound_level",
            "stacks",
            "area_of_l2",
        ),
    )


def _bases(request: StudyRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is trained and what generates, each with what is set of it."""
    stated = request.overrides
    generates = {key: value for key, value in stated.items() if key == "model" or key in OF_GENERATION}
    trains = {key: value for key, value in stated.items() if key not in OF_GENERATION}
    base = base_of(BASE, replace(request, overrides=trains), VARIED)
    count = base["cluster"].get("devices")
    if type(count) is not int or count < node_times.PER_NODE or count % node_times.PER_NODE:
        raise InputError(
            f"cluster.devices of technology-nodes is {show(count)}; allowed: a multiple of {node_times.PER_NODE}"
        )
    return base, base_of(GENERATION, replace(request, overrides=generates), ("workload.task",))


def _assumptions(base: Mapping[str, Any], served: Mapping[str, Any]) -> tuple[str, ...]:
    work, prompts = base["workload"], served["workload"]
    return (
        said_of("ideal", "training collectives are overlapped where possible"),
        said_of("calibrated", "calibrated shares from H100, with Megatron and vLLM"),
        (
            f"Every device has the {node_times.DIE_AREA_M2 * 1e6:.0f} mm2 and {node_times.POWER_W:.0f} W of A100, "
            "including memory and links."
        ),
        (
            f"The clock is the highest that the node allows, V100's {law().fastest_hz / 1e9:.2f} GHz times the node's "
            "speed over that of 7 nm where it is faster (under `vendor` as foundries claim, under `ideal` never), or "
            "what the power cap leaves."
        ),
        (
            f"At every point are searched: the share of L2, stacks of memory from 1 to the most that edge, power and "
            f"package allow, {node_times.SITES} as next to A100's die, and the plan; arithmetic is in bf16. "
            "One plan has the degrees and micro-batch that are best with the oldest node and memory."
        ),
        (
            f"{base['cluster']['devices']:,} devices train {name_of(base['model'])}, {work['global_batch']:,} "
            f"sequences of {work['sequence_length']:,} tokens in a step; {node_times.SERVED_ON} generate with "
            f"{name_of(served['model'])}, {prompts['batch']:,} prompts of {prompts['prompt_tokens']:,} tokens at once."
        ),
        "Nodes of eight devices: NVLink 3 with InfiniBand HDR, 4 with NDR, 5 with XDR, 6 with GDR, a port per device.",
        "Scaling `vendor`: foundry claims, with stalled SRAM scaling; `ideal`: equal factors at each step (DeepFlow).",
        (
            "Gains are per step of the scaling model's own: under `vendor` each node is one (after 2 nm A14 as 1.4 nm "
            "and A10 as 1 nm), under `ideal` a step is 1 / 0.67 of the density of logic, so that 2 nm to 1 nm is one."
        ),
    )


def _parts(
    bests: Mapping[str, node_times.Best],
    view: View,
    scaling: Scaling,
    fabric: node_times.Fabric,
    choices: node_times.Choices,
) -> Iterator[dict[str, Any]]:
    """The rows of one view, scaling and network as columns: a task, memory and node each."""
    shape = (len(choices.nodes), len(choices.memories))
    node, memory = np.meshgrid(np.array(choices.nodes), np.array(choices.memories), indexing="ij")
    for task in node_times.TASKS:
        best = bests[task]
        fits = np.isfinite(best.time_s)
        shares = {name: np.where(fits, best.figures[name], np.nan) for name in node_times.SHARES}
        largest = np.stack([best.figures[name] for name in node_times.SHARES]).argmax(axis=0)
        columns = {
            "task": np.full(shape, task),
            "view": np.full(shape, view),
            "scaling": np.full(shape, scaling),
            "network": np.full(shape, fabric.name),
            "memory": memory,
            "node": node,
            "time_s": np.where(fits, best.time_s, np.nan),
            "bound_level": np.where(fits, np.array(LEVELS)[largest], ""),
            **best.figures,
            **shares,
        }
        yield {name: values.T.ravel() for name, values in columns.items()}


def _figures(
    views: Sequence[View], fabrics: Sequence[node_times.Fabric], choices: node_times.Choices
) -> Iterator[Figure]:
    """Lines of speed over the nodes, and shares of what binds with the oldest links."""
    view, ends = views[0], (fabrics[0].name, fabrics[-1].name)
    of = {"view": view, "scaling": "vendor"}
    for task in node_times.TASKS:
        yield Figure(
            kind="lines",
            title=f"Speed of {task} by logic node with the oldest and the newest links, {view} view",
            x="node",
            y="speedup",
            series="memory",
            panel="network",
            log=frozenset({"y"}),
            where={**of, "task": task, "network": ends},
        )
    for memory in (choices.memories[0], choices.memories[-1]):
        yield Figure(
            kind="stacks",
            title=f"Bottleneck with {ABOUT['memory'].values[memory]} and {LINKS[ends[0]]}, {view} view",
            x="node",
            y=node_times.SHARES,
            panel="task",
            names={"y": "share of time"},
            where={**of, "memory": memory, "network": ends[0]},
        )
