"""Generation on unlike devices: prefill on one kind, decode on another, or replicas that share the batch by speed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sightline.errors import InputError
from sightline.prediction.common_figures import ADD_YOUR_OWN, weakest_evidence
from sightline.prediction.generation.batch_profile import evidence_of_passes
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import price_generation
from sightline.prediction.generation.policies import price_workers
from sightline.prediction.shares import balanced_shares
from sightline.profile import Profile
from sightline.scenario import Cluster, GenerationScenario, ServingScenario

Predict = Callable[[GenerationScenario], Profile]
"""The answer of a scenario of equal devices, or of one whose prefill runs elsewhere."""
Q = TypeVar("Q", GenerationScenario, ServingScenario)
NEVER_MEASURED = f"no published measurement of heterogeneous devices{ADD_YOUR_OWN}"
MOST_SHARES = 512
"""Shares of the batch that one group is priced with."""


def unlike_generation(scenario: GenerationScenario, predict: Predict) -> Profile:
    """Return the profile of generation on groups of unlike devices.

    Raises:
        InputError: fewer sequences than groups.
    """
    if scenario.plan.disaggregate is not None:
        return _of_pools(scenario, predict)
    return _of_replicas(scenario, predict)


def _joined(
    profile: Profile,
    scenario: GenerationScenario,
    memories: Iterable[tuple[Cluster, Mapping[str, Any]]],
    sentences: Sequence[str],
    **changes: Any,
) -> Profile:
    """The profile of the whole scenario from that of the part which sets its times, and the memory of each part."""
    fraction = float(scenario.plan.memory_fraction)
    filled = [(float(part.device.memory_bytes * fraction), memory) for part, memory in memories]
    usable_bytes, memory = max(filled, key=lambda part: float(part[1]["total"]) / part[0])
    is_missing = profile.missing or profile.evidence["framework"] != "datasheet"
    return profile.replace(
        scenario=scenario,
        memory_bytes=memory,
        usable_bytes=usable_bytes,
        fits=float(memory["total"]) / usable_bytes <= 1.0,
        advice=(),
        missing={"framework": NEVER_MEASURED} if is_missing else {},
        warnings=tuple(dict.fromkeys((*scenario.warnings, *sentences, *profile.warnings))),
        **changes,
    )


# Prefill on one kind of devices, decode on another.


def _of_pools(scenario: GenerationScenario, predict: Predict) -> Profile:
    """The faster of the assignments of two kinds of devices to prefill and decode that the plan leaves open."""
    answers = [_of_assignment(scenario, *pair, predict) for pair in assignments(scenario)]
    best, *others = sorted(answers, key=lambda answer: (not answer.fits, -float(answer.output_tokens_per_s)))
    if not others:
        return best
    slower = float(best.output_tokens_per_s / others[0].output_tokens_per_s)
    other = others[0].scenario.plan.disaggregate.prefill_device
    verdict = f"{slower:.2f} x the time" if others[0].fits or not best.fits else "more memory than available"
    return best.replace(warnings=(*best.warnings, f"prefill on {other} would take {verdict}"))


def assignments(scenario: GenerationScenario | ServingScenario) -> Iterator[tuple[Cluster, Cluster]]:
    """Yield groups that may prefill, each with the one that then decodes."""
    split, (one, other) = scenario.plan.disaggregate, scenario.cluster.groups
    if split is None:
        raise TypeError("the plan has no pools")
    for prefill, decode in ((one, other), (other, one)):
        enough = prefill.devices == split.prefill.devices and decode.devices == scenario.plan.devices
        if enough and split.prefill_device in ("", prefill.device.name):
            yield prefill, decode


def _of_assignment(scenario: GenerationScenario, prefill: Cluster, decode: Cluster, predict: Predict) -> Profile:
    """The answer with prefill on one group and decode on the other; keys and values cross the network between them."""
    split = scenario.plan.disaggregate
    if split is None:
        raise TypeError("the plan has no pools")
    named = replace(split, prefill_device=prefill.device.name)
    apart = replace(named, prefill_cluster=replace(prefill, network=scenario.cluster.network))
    seen = replace(scenario, cluster=decode, plan=replace(scenario.plan, disaggregate=apart), warnings=())
    profile, workers = predict(seen), price_workers(seen)
    alone = price_generation(workers.prefilling.scenario)
    memories = (
        (prefill, generation_memory(alone, alone, replace(alone.scenario.workload, output_tokens=1))),
        (decode, profile.memory_bytes),
    )
    sentences = [f"prefill on {prefill.in_words}, decode on {decode.in_words}"]
    evidence = [profile.evidence, evidence_of_passes(workers.prefilling.worker)]
    whole = replace(scenario, plan=replace(scenario.plan, disaggregate=named))
    return _joined(profile, whole, memories, sentences, evidence=weakest_evidence(evidence), energy_j=profile.energy_j)


# Replicas on every kind of devices.


def _of_replicas(scenario: GenerationScenario, predict: Predict) -> Profile:
    """Replicas of each group with their share of the batch; what all users see is what those of the slowest see."""
    seen = [on_group(scenario, group) for group in scenario.cluster.groups]
    shares = scenario.plan.group_batches or _shares(scenario, seen, predict)
    profiles = [predict(_with_batch(alone, share)) for alone, share in zip(seen, shares, strict=True)]
    pace = max(profiles, key=lambda profile: float(profile.latency_s))
    sentences = [
        f"{group.in_words}: {share} of {scenario.workload.batch} sequences, {float(profile.latency_s):.3g} s"
        for group, share, profile in zip(scenario.cluster.groups, shares, profiles, strict=True)
    ]
    whole = replace(scenario, plan=replace(scenario.plan, group_batches=tuple(shares)))
    return _joined(
        pace,
        whole,
        zip(scenario.cluster.groups, (profile.memory_bytes for profile in profiles), strict=True),
        sentences,
        evidence=weakest_evidence([profile.evidence for profile in profiles]),
        energy_j=sum(map(float, _energies_j(profiles, float(pace.latency_s)))),
        interval=_of_whole_batch(pace, scenario.workload.batch / pace.scenario.workload.batch),
    )


def on_group(scenario: Q, group: Cluster) -> Q:
    """Return the question with the replicas of one group of devices."""
    plan = scenario.plan
    replica = plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel
    own = replace(plan, replicas=group.devices // replica, group_batches=None)
    return replace(scenario, cluster=group, plan=own, warnings=())


def _with_batch(scenario: GenerationScenario, batch: Any) -> GenerationScenario:
    return replace(scenario, workload=replace(scenario.workload, batch=batch))


def _shares(scenario: GenerationScenario, seen: Sequence[GenerationScenario], predict: Predict) -> tuple[int, ...]:
    """The sequences of each group with which the last of them are answered first."""
    batch = int(scenario.workload.batch)
    most = batch - len(seen) + 1
    if most < 1:
        raise InputError(f"workload.batch is {batch}; allowed: {len(seen)} or more, one sequence per device group")
    every = np.arange(1, most + 1)
    tried = every if most <= MOST_SHARES else np.unique(np.linspace(1, most, MOST_SHARES).round().astype(int))
    latencies = [np.broadcast_to(predict(_with_batch(alone, tried)).latency_s, tried.shape) for alone in seen]
    seconds = [np.interp(every, tried, latency_s) for latency_s in latencies]
    shares = balanced_shares([1] * len(seen), seconds, batch)
    if shares is None:
        raise InputError(f"workload.batch is {batch}; allowed: at least one sequence per device group")
    return shares


def _energies_j(profiles: Sequence[Profile], whole_s: float) -> Iterator[float]:
    """Joules of each group, idle from the end of its own sequences to the end of all."""
    for profile in profiles:
        cluster = profile.scenario.cluster
        waiting_s = max(whole_s - float(profile.latency_s), 0.0)
        yield float(profile.energy_j) + cluster.devices * float(cluster.device.idle_w) * waiting_s


def _of_whole_batch(pace: Profile, more: float) -> dict[str, tuple[Any, Any]]:
    """The intervals of one group's answer with its rate that of the whole batch."""
    results = dict(pace.interval)
    if "output_tokens_per_s" in results:
        low, high = results["output_tokens_per_s"]
        results["output_tokens_per_s"] = (low * more, None if high is None else high * more)
    return results
