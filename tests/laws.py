"""What must hold between two answers: twelve checks of any question, and random questions to hold them against.

One kind of step stays, and is no violation: tables of kernels step with the shape, so that one token more may be faster -
a product of aligned rows, a window that begins to hide tokens, one prompt fewer in a pass, a context that a step's
attention splits anew - but twice as many never are, beyond the few rows that vector kernels take.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sightline.loading import generation_from_mapping, scenario_from_mapping, to_mapping
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.sensitivity import scaled
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile
from sightline.scenario import Cluster, Generate, GenerationScenario, Scenario

Asked = Scenario | GenerationScenario
MORE = 1.01
"""Times as much of what is raised by a little."""
FEW_ROWS = 16
"""Up to so many rows of a product go to other kernels, which may take longer than those of a few more."""
TOLERANCE = 1e-9
"""Share of a time by which rounding may move it."""
SPLITS = 2e-3
"""A kernel may split a longer context among more units of a device, which makes a step this much faster."""


def answer(asked: Asked) -> Profile:
    """The prediction."""
    return profile_of(asked) if isinstance(asked, Scenario) else predict_generation(asked)


def seconds(profile: Profile) -> list[float]:
    """The times that no improvement may lengthen.

    In a steady loop of pools the sequences that decode faster are back sooner and wait longer for their first token.
    """
    plan, work = profile.scenario.plan, profile.scenario.workload
    looped = isinstance(work, Generate) and work.continuous and plan.disaggregate is not None
    keys = ("latency_s",) if looped else ("step_time_s", "ttft_s", "latency_s")
    return [float(profile.figure(key)) for key in keys if key in profile.task.metrics]


def excess(shorter: Profile, longer: Profile) -> float:
    """The largest share by which a time of what should be shorter is above that of what should be longer."""
    pairs = zip(seconds(shorter), seconds(longer), strict=True)
    return max(less / more - 1.0 for less, more in pairs)


def _on(asked: Asked, change: Callable[[Cluster], Cluster]) -> Profile:
    return answer(replace(asked, cluster=change(asked.cluster)))


def _faster(*numbers: str) -> Callable[[Asked], float]:
    """A check that more of each of these numbers lengthens nothing, nor of all of them; of latencies less."""

    def check(asked: Asked) -> float:
        before, together = answer(asked), asked.cluster
        clusters = []
        for number in numbers:
            together = _raised(together, number)
            clusters += [_raised(asked.cluster, number), together]
        return max(excess(answer(replace(asked, cluster=cluster)), before) for cluster in clusters)

    return check


def _raised(cluster: Cluster, number: str) -> Cluster:
    """The cluster with more of a number; arithmetic takes as much energy, so that its clock stays under the limit."""
    if number == "device.peak_flops":
        cluster = scaled(cluster, "device.tdp_w", MORE)
    return scaled(cluster, number, 1 / MORE if number.endswith("latency_s") else MORE)


def _faster_host(asked: Asked) -> float:
    def improved(cluster: Cluster) -> Cluster:
        launch_s = cluster.host.launch_time_s
        host = replace(cluster.host, launch_time_s=None if launch_s is None else launch_s / MORE)
        return replace(cluster, host=replace(host, speed=MORE * host.speed))

    before, after = answer(asked), _on(asked, improved)
    if not isinstance(asked, Scenario):
        return excess(after, before)
    # While devices wait for their hosts, replicas exchange and the slowest device catches up. Each counts alone.
    # Another stage that sets the pace may wait longer for its own.
    spared_s = max(before.phases["host"] - after.phases["host"], 0.0)
    return max(excess(after, before) - spared_s / float(before.step_time_s), 0.0)


def _larger_memory(asked: Asked) -> float:
    """More memory: nothing takes longer, and what fits still does.

    In a steady loop it lets more sequences share each step.
    """

    def improved(cluster: Cluster) -> Cluster:
        return replace(cluster, device=replace(cluster.device, memory_bytes=MORE * cluster.device.memory_bytes))

    before, after = answer(asked), _on(asked, improved)
    longer = 0.0 if getattr(asked.workload, "continuous", False) else excess(after, before)
    return max(longer, float(bool(before.fits) and not after.fits))


def _work(asked: Asked, **times: float) -> Profile:
    work = asked.workload
    return answer(replace(asked, workload=replace(work, **{key: n * getattr(work, key) for key, n in times.items()})))


def _twice_the_batch(asked: Asked) -> float:
    if isinstance(asked, Scenario):
        return excess(answer(asked), _work(asked, global_batch=2))
    few = asked.workload.batch < FEW_ROWS * asked.plan.pipeline_parallel
    before, after = answer(asked), _work(asked, batch=2)
    if asked.workload.continuous and not few:
        # When a prompt of a step has its turn depends on how the prompts of that step are cut.
        return float(before.latency_s) / float(after.latency_s) - 1.0
    return 0.0 if few else excess(before, after)


def _twice_the_length(asked: Asked) -> float:
    if isinstance(asked, Scenario):
        return excess(answer(asked), _work(asked, sequence_length=2))
    before, after = answer(asked), _work(asked, prompt_tokens=2)
    few = asked.workload.prompt_tokens <= FEW_ROWS
    # A loop without room for a sequence is answered as if it had some; a decode step that a prompt waits for may step.
    steps = (asked.workload.continuous and not after.fits) or asked.plan.engine.lmdeploy.first_alone
    return 0.0 if few or steps else excess(before, after) - SPLITS


def _twice_the_run(asked: Asked) -> float:
    """Twice the tokens of a run take twice as long; a batch with twice the output takes no less.

    In a steady loop of longer answers fewer prompts arrive.
    """
    if isinstance(asked, Scenario):
        run = replace(asked, workload=replace(asked.workload, total_tokens=1000 * asked.workload.tokens_per_step))
        return abs(float(_work(run, total_tokens=2).run_time_s) / float(answer(run).run_time_s) / 2.0 - 1.0)
    if asked.workload.continuous:
        return 0.0
    return float(answer(asked).latency_s) / float(_work(asked, output_tokens=2).latency_s) - 1.0


def _written_out(asked: Asked) -> float:
    """A question that is written out and read again has the same answer."""
    read: Any = scenario_from_mapping if isinstance(asked, Scenario) else generation_from_mapping
    again = answer(read(to_mapping(asked)))
    pairs = zip(seconds(answer(asked)), seconds(again), strict=True)
    return max(abs(new / old - 1.0) for old, new in pairs)


def _twice_the_price(asked: Asked) -> float:
    """Devices at twice the price cost twice as much for the same time."""

    def priced(usd: float) -> Profile:
        return _on(asked, lambda of: replace(of, device=replace(of.device, usd_per_hour=usd)))

    one, two = priced(1.0), priced(2.0)
    moved = max(abs(new / old - 1.0) for old, new in zip(seconds(one), seconds(two), strict=True))
    return max(moved, abs(float(two.usd_per_hour) / float(one.usd_per_hour) / 2.0 - 1.0))


CHECKS: Mapping[str, Callable[[Asked], float]] = {
    "more FLOP/s": _faster("device.peak_flops", "device.vector_flops"),
    "more memory bandwidth": _faster("device.memory_bandwidth"),
    "more of L2": _faster("device.l2_bandwidth"),
    "faster links": _faster("intra_node.bandwidth", "intra_node.latency_s"),
    "a faster network": _faster("network.bandwidth_per_node", "network.latency_s"),
    "a faster host": _faster_host,
    "more memory": _larger_memory,
    "twice the batch": _twice_the_batch,
    "twice the length": _twice_the_length,
    "twice the run": _twice_the_run,
    "written out": _written_out,
    "twice the price": _twice_the_price,
}
"""The share by which a law is broken, by what changes."""


def broken(asked: Asked) -> dict[str, float]:
    """Return the laws that are broken, and by how much."""
    found = {name: check(asked) for name, check in CHECKS.items()}
    return {name: share for name, share in found.items() if share > TOLERANCE}
