"""Of a list of plans distinct replicas alone are priced, and every plan is answered as it is alone."""

from dataclasses import replace

import numpy as np
import pytest
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.phases import FEWEST_PLANS, distinct, one_replica, price_generation
from sightline.scenario import Disaggregation, GenerationScenario

CLUSTER = "16x h200-sxm-141gb"
PAIRS = [(t, p) for t in (1, 2, 4, 8) for p in (1, 2) if t * p <= 16]


def several(rows: list[dict[str, int]]) -> dict[str, np.ndarray]:
    """The columns of rows that are repeated until they are a list of plans."""
    repeated = rows * (1 + FEWEST_PLANS // len(rows))
    return {name: np.array([row[name] for row in repeated]) for name in rows[0]}


def scenario(model: str = "qwen3-8b", continuous: bool = True) -> GenerationScenario:
    return generation(
        model=model, cluster=CLUSTER, prompt_tokens=900, plan={"framework": "vllm"}, continuous=continuous
    )


def agrees(of_list: GenerationScenario, alone: list[GenerationScenario]) -> None:
    """Whether every figure of a list is that of each plan alone."""
    together, single = predict_generation(of_list), [predict_generation(one) for one in alone]
    for key in ("ttft_s", "tpot_s", "output_tokens_per_s", "energy_j", "cost_usd_per_million_tokens"):
        wanted = [getattr(one, key) for one in single]
        assert np.asarray(getattr(together, key)) == pytest.approx(wanted, rel=1e-9), key
    for part in together.memory_bytes:
        wanted = [one.memory_bytes[part] for one in single]
        found = np.broadcast_to(together.memory_bytes[part], len(single))
        assert found == pytest.approx(wanted, rel=1e-9), part


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("model", ["qwen3-8b", "qwen3-30b-a3b", "deepseek-v2-lite"])
def test_a_list_says_what_each_plan_says_alone(model, continuous):
    base = scenario(model, continuous)
    rows = [
        {"t": t, "p": p, "r": 16 // (t * p), "batch": batch, "budget": budget, "chunked": chunked}
        for t, p in PAIRS
        for batch in (7, 64, 5000)
        for budget, chunked in ((256, True), (2048, True), (2048, False))
    ]
    columns = several(rows)

    def of(row):
        degrees = {"tensor_parallel": row["t"], "pipeline_parallel": row["p"], "replicas": row["r"]}
        chunks = {"max_batched_tokens": row["budget"], "chunked_prefill": row["chunked"]}
        return replace(
            base,
            plan=replace(base.plan, **degrees, **chunks),
            workload=replace(base.workload, batch=row["batch"]),
        )

    alone = [of({name: column[i].item() for name, column in columns.items()}) for i in range(len(rows))]
    alone = (alone * (1 + len(columns["t"]) // len(rows)))[: len(columns["t"])]
    agrees(of(columns), alone)


@pytest.mark.parametrize("continuous", [False, True])
def test_a_list_of_pools_says_what_each_says_alone(continuous):
    base = scenario(continuous=continuous)
    rows = [
        {"t": t, "x": x, "u": u, "y": (16 - t * x) // u, "batch": batch, "prompts": prompts}
        for t in (1, 2, 4)
        for x in (1, 2)
        for u in (2, 4)
        if (16 - t * x) % u == 0
        for batch in (16, 200)
        for prompts in (1, 4)
    ]
    columns = several(rows)

    def of(row):
        prefill = replace(base.plan, tensor_parallel=row["t"], replicas=row["x"])
        pools = Disaggregation(prefill=prefill, prefill_batch=row["prompts"])
        plan = replace(base.plan, tensor_parallel=row["u"], replicas=row["y"], disaggregate=pools)
        return replace(base, plan=plan, workload=replace(base.workload, batch=row["batch"]))

    alone = [of({name: column[i].item() for name, column in columns.items()}) for i in range(len(columns["t"]))]
    agrees(of(columns), alone)


def test_few_replicas_are_priced_however_many_plans_share_them():
    base = scenario()
    count = 1000
    replicas = np.arange(count) % 500 + 1
    many = replace(
        base, plan=replace(base.plan, replicas=replicas), workload=replace(base.workload, batch=4 * replicas)
    )
    priced = price_generation(many)
    assert priced.worker.scenario.workload.batch.shape == (1,)
    assert priced.place is not None
    assert priced.place.shape == (count,)


def test_meshes_and_single_plans_stay_as_they_are():
    base = scenario()
    mesh = replace(base.plan, replicas=np.arange(1, 101).reshape(-1, 1), tensor_parallel=np.array([1, 2]))
    for whole in (base, replace(base, plan=mesh)):
        assert one_replica(whole) == (whole, None)


def test_rows_are_told_apart_by_every_column_however_large():
    rng = np.random.default_rng(0)
    columns = [
        rng.integers(0, 3, 500) * 10**12,
        rng.integers(0, 3, 500) * 10**13,
        rng.integers(0, 2, 500) == 1,
        rng.integers(0, 3, 500) / 7.0,
    ]
    first, place = distinct(columns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(first) == len(set(rows))
    assert [rows[first[i]] for i in place] == rows
