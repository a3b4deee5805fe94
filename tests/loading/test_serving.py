"""Scenarios of ``task: serve``: what they come to, and what is wrong with them."""

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.loading.written import to_mapping
from sightline.scenario import Arrival, Autoscale, KvTier, RequestShape, ServedAdapters, Sessions, Slo
from sightline.scenario.lengths import Lengths

REQUESTS = {"count": 100, "prompt_tokens": 512, "output_tokens": 64}


def scenario(plan: Any = None, **workload: Any) -> dict[str, Any]:
    asked = {"task": "serve", "requests": REQUESTS, **workload}
    load = {key: value for key, value in asked.items() if value is not None}
    return {"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "workload": load, "plan": plan or {}}


def problems(mapping: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as refused:
        sl.load(mapping, **options)
    return tuple(refused.value.problems)


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].glob("examples/serving/*.yaml")), ids=lambda p: p.name
)
def test_the_examples_load(path: Path) -> None:
    assert sl.load(path).workload.task == "serve"


def test_a_load_of_requests_arrives_all_at_once_unless_it_says_how():
    workload = sl.load(scenario()).workload
    assert workload.requests == RequestShape(count=100, prompt_tokens=512, output_tokens=64)
    assert workload.arrival == Arrival(process="all_at_once")
    assert (workload.sessions, workload.slo, workload.trace, workload.seed) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("keys", "process"),
    [("rate concurrency", "poisson"), ("ramp", "poisson"), ("rate cv", "gamma"), ("concurrency ramp_up", "closed")],
)
def test_keys_of_an_arrival_imply_its_process(keys: str, process: str) -> None:
    values = {"rate": 4, "concurrency": 8, "cv": 2, "ramp_up": 1, "ramp": [[10, 1], [10, 2]]}
    stated = scenario(arrival={key: values[key] for key in keys.split()})
    assert sl.load(stated).workload.arrival.process == process


def test_every_key_of_the_interface_is_read():
    lognormal = {"distribution": "lognormal", "mean": 1165, "cv": 0.5, "min": 16, "max": "4k"}
    workload = sl.load(
        scenario(
            requests={"count": 1e3, "prompt_tokens": lognormal, "output_tokens": [100, 200]},
            arrival={"process": "gamma", "rate": 4, "cv": 2, "think_time": "2 s"},
            sessions={
                "turns": {"distribution": "uniform", "low": 1, "high": 5},
                "prefix_tokens": "1k",
                "prefixes": 4,
                "calls": 3,
                "tool_tokens": [10, 20],
                "context_tokens": "8k",
                "summary_tokens": 500,
                "agents": 2,
                "tool_time": {"distribution": "lognormal", "mean": "500 ms", "cv": 3},
            },
            slo={"ttft": "300 ms", "tpot": 0.05, "latency": "1 min", "percentile": 99},
            seed=7,
        )
    ).workload
    prompts = Lengths(distribution="lognormal", mean=1165.0, deviation=582.5, low=16.0, high=4096.0)
    outputs = Lengths(distribution="empirical", values=(100.0, 200.0))
    assert workload.requests == RequestShape(count=1000, prompt_tokens=prompts, output_tokens=outputs)
    assert workload.arrival == Arrival(process="gamma", rate=4.0, cv=2.0, think_time_s=2.0)
    turns = Lengths(distribution="uniform", low=1.0, high=5.0)
    assert workload.sessions == Sessions(
        turns=turns,
        prefix_tokens=1024,
        prefixes=4,
        calls=3,
        tool_tokens=Lengths(distribution="empirical", values=(10.0, 20.0)),
        tool_time_s=Lengths(distribution="lognormal", mean=0.5, deviation=1.5, low=1e-3),
        context_tokens=8192,
        summary_tokens=500,
        agents=2,
    )
    assert workload.slo == Slo(ttft_s=0.3, tpot_s=0.05, latency_s=60.0, percentile=99.0)
    assert workload.seed == 7


def test_times_of_tools_may_be_listed():
    sessions = sl.load(scenario(sessions={"turns": 2, "calls": 3, "tool_time": [0.25, 2]})).workload.sessions
    assert sessions.tool_time_s == Lengths(distribution="empirical", values=(0.25, 2.0), low=1e-3)


def test_the_plan_has_the_fields_of_serving():
    plan = sl.load(
        scenario(
            {
                "max_sequences": 64,
                "scheduler": "priority",
                "router": "least-load",
                "kv_tiers": [{"bytes": "100 GB", "bandwidth": "25 GB/s"}, {"tokens": 1e6, "bandwidth": 3e9}],
                "lora_adapters": 8,
                "autoscale": {"min": 1, "max": 4, "startup": "1 min"},
            }
        )
    ).plan
    assert (plan.max_sequences, plan.scheduler, plan.router) == (64, "priority", "least-load")
    assert plan.kv_tiers == (
        KvTier(name="host", capacity_bytes=1e11, bandwidth=25e9),
        KvTier(name="host", capacity_tokens=10**6, bandwidth=3e9),
    )
    assert plan.lora_adapters == ServedAdapters(count=8)
    assert plan.autoscale == Autoscale(least=1, most=4, startup_s=60.0)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"framework": "vllm"}, (None, True, True)),
        ({"framework": "vllm", "framework_version": "0.6"}, (None, False, False)),
        ({"framework": "vllm", "max_batched_tokens": 512, "prefix_cache": False}, (512, True, False)),
        ({"framework": "lightllm"}, (None, False, True)),
    ],
)
def test_what_is_not_stated_is_the_engines_default_under_a_load(engine, said):
    plan = sl.load(scenario(engine)).plan
    assert (plan.max_batched_tokens, plan.chunked_prefill, plan.prefix_cache) == said


@pytest.mark.parametrize(
    "mapping",
    [
        scenario(),
        scenario(arrival={"process": "closed", "concurrency": 8, "think_time": 1}),
        scenario(arrival={"process": "poisson", "ramp": [[60, 1], [30, 0], [60, 4]]}, slo={"ttft": 1}),
        scenario(arrival={"process": "gamma", "rate": 2, "cv": 2, "concurrency": 3}),
        scenario(
            slo={
                "latency": 9,
                "classes": [
                    {"name": "chat", "share": 0.75, "ttft": 1},
                    {"name": "batch", "share": 0.25, "priority": 1},
                ],
            }
        ),
        scenario({"max_queued_requests": 9, "queue_timeout": "2 s"}, timeout="30 s"),
        scenario(
            {
                "kv_tiers": [{"tokens": 10, "bandwidth": 1e9}],
                "autoscale": {"min": 1, "max": 2, "startup": 3, "target": 9},
            },
            requests={**REQUESTS, "prompt_tokens": {"distribution": "normal", "mean": 100, "cv": 1, "max": 200}},
            sessions={"turns": 3, "prefix_tokens": 100},
        ),
    ],
)
def test_a_resolved_scenario_loads_back_as_the_same(mapping):
    first = sl.load(mapping)
    again = sl.load(to_mapping(first))
    assert (again.workload, to_mapping(again)) == (first.workload, to_mapping(first))


def test_stages_of_a_ramp_begin_where_those_before_them_end():
    stages = {"process": "poisson", "ramp": [[60, 1], ["1 min", 4], [10, 2]]}
    times = {"process": "poisson", "ramp": [[0, 1], [60, 4], [120, 2]]}
    assert sl.load(scenario(arrival=stages)).workload.arrival.ramp == ((0.0, 1.0), (60.0, 4.0), (120.0, 2.0))
    assert sl.load(scenario(arrival=times)).workload == sl.load(scenario(arrival=stages)).workload


def test_a_trace_is_found_beside_the_file(tmp_path):
    (tmp_path / "load.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n")
    (tmp_path / "serve.json").write_text(
        '{"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "workload": {"task": "serve", "trace": "load.csv"}}'
    )
    workload = sl.load(str(tmp_path / "serve.json")).workload
    assert (workload.trace, workload.arrival.process) == (str(tmp_path / "load.csv"), "trace")
    (refused,) = problems(str(tmp_path / "serve.json"), overrides={"workload.trace": "."})
    assert "workload.trace is '.'; " in refused
    (refused,) = problems(str(tmp_path / "serve.json"), overrides={"workload.trace": "lod.csv"})
    assert refused.endswith("did you mean 'load.csv'?")


def test_a_trace_of_another_kind_is_named_and_a_wrong_one_refused(tmp_path):
    path = tmp_path / "load.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,3,4\n")
    assert (
        f"workload.trace {path} is read as an Azure LLM"
        in sl.load(scenario(requests=None, trace=str(path))).warnings[1]
    )
    path.write_text("arrival_s,prompt_tokens\n0,1\n")
    (said,) = problems(scenario(requests=None, trace=str(path)))
    assert said.startswith(f"{path} lacks the column output_tokens")


def test_lengths_are_read_from_a_file(tmp_path):
    (tmp_path / "lengths.txt").write_text("3\n5, 9\n")
    file = {"distribution": "empirical", "file": str(tmp_path / "lengths.txt")}
    workload = sl.load(scenario(requests={**REQUESTS, "prompt_tokens": file})).workload
    assert workload.requests.prompt_tokens.values == (3.0, 5.0, 9.0)
    (refused,) = problems(scenario(requests={**REQUESTS, "prompt_tokens": {**file, "file": "no.txt"}}))
    assert refused.startswith("workload.requests.prompt_tokens.file no.txt has 'No such file or directory'; allowed:")


def test_sweeps_and_overrides_reach_a_load():
    swept = sl.load(scenario(arrival={"process": "poisson", "rate": 1}), sweeps=["workload.arrival.rate=1,2,4"])
    assert [one.workload.arrival.rate for one in swept] == [1.0, 2.0, 4.0]
    assert sl.load(scenario(), ["workload.requests.count=7"]).workload.requests.count == 7


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (
            {"requests": None},
            "workload.requests is missing",
        ),
        ({"requests": {"count": 5, "prompt_tokens": 5}}, "workload.requests.output_tokens is missing; needed: tokens"),
        ({"requests": {**REQUESTS, "count": 0}}, "workload.requests.count is 0"),
        (
            {"requests": {**REQUESTS, "prompt_tokens": {"distribution": "lognormal", "mean": 5}}},
            "workload.requests.prompt_tokens.deviation is missing",
        ),
        (
            {"requests": {**REQUESTS, "prompt_tokens": {"distribution": "lognormal", "cv": 1}}},
            "workload.requests.prompt_tokens.mean is missing",
        ),
        (
            {"requests": {**REQUESTS, "prompt_tokens": {"distribution": "uniform", "low": 1, "high": 2, "cv": 1}}},
            "workload.requests.prompt_tokens.deviation does not apply",
        ),
        ({"arrival": {"rate": 0, "process": "poisson"}}, "workload.arrival.rate is 0; allowed: "),
        ({"arrival": {"process": "poisson"}}, "workload.arrival.rate is missing"),
        (
            {"arrival": {"process": "poison", "rate": 1}},
            "workload.arrival.process is 'poison'; allowed: trace, poisson",
        ),
        ({"arrival": {"process": "closed"}}, "workload.arrival.concurrency is missing"),
        (
            {"arrival": {"process": "poisson", "rate": 4, "concurrency": 2}, "sessions": {"turns": 2}},
            "workload.arrival.concurrency does not apply to sessions",
        ),
        (
            {"arrival": {"rate": 4, "ramp_up": 1}},
            "workload.arrival.ramp_up does not apply to process poisson, ",
        ),
        (
            {"arrival": {"process": "all_at_once", "rate": 4, "think_time": 0}, "sessions": {"turns": 2}},
            "workload.arrival.rate does not apply to process all_at_once, which takes think_time",
        ),
        ({"arrival": {"process": "trace"}}, "workload.arrival.process is trace"),
        (
            {"arrival": {"process": "constant", "ramp": [[10, 1], [10, 0]]}},
            "workload.arrival.ramp ",
        ),
        ({"arrival": {"process": "constant", "ramp": 4}}, "workload.arrival.ramp is 4"),
        ({"slo": {"percentile": 50}}, "workload.slo has no limit"),
        (
            {"slo": {"ttft": 1, "percentile": 100}},
            "workload.slo.percentile is 100",
        ),
        ({"slo": {"tfft": 1}}, "workload.slo.tfft is not a known key - did you mean 'ttft'?"),
        ({"slo": {"classes": [{"name": "chat", "share": 0.5, "ttft": 1}]}}, "workload.slo.classes have shares of 0.5"),
        (
            {"slo": {"ttft_p90": 1}},
            "workload.slo.ttft_p90 is not a known key; use ttft and workload.slo.percentile: 90",
        ),
        ({"slo": {"itl": 1}}, "workload.slo.itl is not a known key - did you mean 'tpot'?"),
        ({"slo": {"classes": [{"name": "a", "share": 0.5, "ttft": 1}] * 2}}, "workload.slo.classes has 'a' twice"),
        ({"slo": {"classes": [{"name": "a", "shar": 1, "ttft": 1}]}}, "workload.slo.classes[0].shar is not a known"),
        ({"slo": {"classes": [{"name": "chat", "share": 1}]}}, "workload.slo.classes has one without a limit"),
        ({"slo": {"ttft": "1 GB"}}, "workload.slo.ttft is '1 GB'"),
        (
            {"sessions": {"turns": 0}},
            "workload.sessions.turns is 0",
        ),
        *(
            (
                {"sessions": {"turns": 2, "calls": 2, name: {"distribution": "lognormal", "mean": 3}}},
                f"workload.sessions.{name}.deviation is missing; needed: standard deviation in {unit}",
            )
            for name, unit in (("tool_time", "seconds"), ("turns", "turns"), ("tool_tokens", "tokens"))
        ),
        ({"batch": 3}, "workload.batch applies to generate, operator"),
    ],
)
def test_a_mistake_is_a_sentence(workload, said):
    assert problems(scenario(**workload))[0].startswith(said)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"router": "round_robin"}, "plan.router is 'round_robin'; allowed: round-robin, least-load, prefix-aware"),
        ({"kv_tiers": [{"bandwidth": 1e9}]}, "plan.kv_tiers[0] has no size"),
        ({"kv_tiers": [{"bytes": 1, "bandwidth": 1e9, "shared": "rack"}]}, "plan.kv_tiers[0].shared is 'rack'"),
        ({"expert_spread": 1}, "plan.expert_spread is 1, but "),
        (
            {"autoscale": {"min": 3, "max": 2, "startup": 1}},
            "plan.autoscale.min is 3",
        ),
        ({"tensor_parallel": 3}, "plan.tensor_parallel is 3; allowed: "),
        (
            {"lora_adapters": -1},
            "plan.lora_adapters is -1",
        ),
    ],
)
def test_a_mistake_in_the_plan_is_a_sentence(plan, said):
    assert problems(scenario(plan))[0].startswith(said)


def test_one_expert_for_all_is_the_most_uneven():
    (said,) = problems(scenario({"expert_spread": 12}) | {"model": "qwen3-30b-a3b"})
    assert said.startswith("plan.expert_spread is 12; allowed: up to 11.3")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"router": "least-load", "replicas": 1}, "plan.router least-load has no effect"),
        (
            {"router": "precise-prefix", "replicas": 2, "prefix_cache": False},
            "plan.router precise-prefix finds nothing",
        ),
        ({"balanced_prompts": True, "framework": "tensorrt-llm"}, "plan.balanced_prompts has no effect"),
        (
            {"max_sequences": 8, "speculative": {"tokens": 2, "acceptance": 0.7, "disable_above": 8}},
            "plan.speculative.disable_above 8 has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_told(plan, said):
    devices = plan.get("replicas", 1)
    loaded = sl.load(scenario(plan) | {"cluster": f"{devices}x h100-sxm-80gb"})
    assert [warning for warning in loaded.warnings if warning.startswith(said)]


def test_a_batch_has_no_use_for_what_only_a_load_has():
    batch = {"task": "generate", "batch": 1, "prompt_tokens": 5, "output_tokens": 5}
    (said,) = problems(scenario({"router": "least-load"}) | {"workload": batch})
    assert said.startswith("plan.router is 'least-load'")


def test_a_share_in_place_of_a_percentile_is_told():
    assert (
        "workload.slo.percentile 0.9 means 0.9 % of the requests, not 90 %"
        in sl.load(scenario(slo={"ttft": 1, "percentile": 0.9})).warnings
    )
    assert not [said for said in sl.load(scenario(slo={"ttft": 1, "percentile": 99})).warnings if "percentile" in said]


@pytest.mark.parametrize(("key", "limit"), [("tpot", 50), ("ttft", 300), ("latency", 5000)])
def test_a_limit_that_is_no_number_of_seconds_is_told(key: str, limit: int) -> None:
    def told(stated: object) -> list[str]:
        return [said for said in sl.load(scenario(slo={key: stated})).warnings if "workload.slo" in said]

    (said,) = told(limit)
    assert f"workload.slo.{key} is {limit}" in said
    assert f"{limit}ms" in said
    assert not told(f"{limit} s")
    assert not told(limit / 1e3)


@pytest.mark.parametrize(
    ("model", "plan", "degrees"),
    [
        ("llama-3.1-70b", {}, (8, 2)),
        ("llama-3.1-70b", {"tensor_parallel": 4}, (4, 4)),
        ("llama-3.1-405b", {}, (16, 1)),
        ("llama-3.1-405b", {"quantization": "fp8"}, (8, 2)),
        ("deepseek-v3", {}, (16, 1)),
        ("deepseek-v3", {"quantization": "w4a16"}, (8, 2)),
    ],
)
def test_a_replica_stays_within_a_node_that_holds_it(model: str, plan: Any, degrees: tuple[int, int]) -> None:
    asked = {**scenario(plan), "model": model, "cluster": "16x h100-sxm-80gb"}
    found = sl.load(asked)
    assert (found.plan.tensor_parallel, found.plan.replicas) == degrees
    assert any("sightline plan" in said for said in found.warnings) == ("tensor_parallel" not in plan)
    assert not any("sightline plan" in said for said in sl.load({**asked, "cluster": "8x h200-sxm-141gb"}).warnings)


def test_predicting_a_load_points_to_the_simulation():
    with pytest.raises(InputError, match=r"workload.task is 'serve'.*sightline simulate.*task: generate"):
        sl.predict(sl.load(scenario()))


def test_plans_under_a_load_have_the_defaults_that_the_engine_has_there():
    served = sl.load(scenario({"framework": "tgi"})).plan
    assert (served.chunked_prefill, served.prefix_cache, served.kv_block_tokens) == (True, True, 1)
    assert served.max_batched_tokens is None
    stated = sl.load(scenario({"framework": "tgi", "chunked_prefill": False, "kv_block_tokens": 16})).plan
    assert (stated.chunked_prefill, stated.prefix_cache, stated.kv_block_tokens) == (False, True, 16)
    before = sl.load(scenario({"framework": "tgi", "framework_version": "2"})).plan
    assert (before.chunked_prefill, before.prefix_cache, before.kv_block_tokens) == (False, False, 16)


def test_a_limit_of_requests_in_the_server_is_read_and_written():
    plan = {"framework": "vllm", "max_concurrent_requests": 1000}
    read = sl.load(scenario(plan))
    assert read.plan.max_concurrent_requests == 1000
    assert to_mapping(read)["plan"]["max_concurrent_requests"] == 1000
    assert problems(scenario({"max_concurrent_requests": 0}))


def test_groups_in_attention_are_read_as_data_parallel_ranks():
    asked = scenario({"tensor_parallel": 8, "attention_data_parallel": 4}) | {"cluster": "8x h100-sxm-80gb"}
    plan = sl.load({**asked, "model": "mixtral-8x7b"}).plan
    assert (plan.tensor_parallel, plan.data_parallel, plan.attention_data_parallel) == (2, 4, 1)
    (dense,) = problems(asked)
    assert "llama-3.1-8b has no experts" in dense
    asked["plan"]["attention_data_parallel"] = 3
    (uneven,) = problems({**asked, "model": "mixtral-8x7b"})
    assert "allowed: a divisor of plan.tensor_parallel 8" in uneven


@pytest.mark.parametrize(
    ("key", "tokens"), [("context_tokens", 200_000), ("prefix_tokens", 131_072), ("summary_tokens", 131_072)]
)
def test_a_conversation_fits_in_the_model_s_context(key, tokens):
    (problem,) = problems(scenario(sessions={"turns": 2, key: tokens}))
    assert f"workload.sessions.{key} is {tokens:,}" in problem
    assert "131,072" in problem
