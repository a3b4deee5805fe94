"""Rows of AIConfigurator's sample: what was in flight, and how the devices were used."""

import csv

import pytest

from sightline.catalog import entry
from sightline.errors import InputError
from sightline.loading import generation_from_mapping
from sightline.validation.adapters import COLUMNS, row_of_cells
from sightline.validation.evaluation import suites
from sightline.validation.tables import Line

SPEC = entry("published", "aiconfigurator-disaggregated")["csv"]
SIDES = ("prefill", "decode")


def cells(**changes):
    """An aggregated row of InferenceX, eight devices with tensor parallelism."""
    row = dict.fromkeys(COLUMNS, "")
    row |= {f"{side}_{c}": "" for side in SIDES for c in ("num_workers", "tp_size", "attention_dp_size", "moe_ep_size")}
    row |= {"id": "dsr1_h200_trtllm_fp8_agg_1024x1024_c64_cfg181", "silicon_data_source": "db-dump", "mode": "agg"}
    row |= {"backend": "trtllm", "backend_version": "1.2.0rc6", "model_path": "deepseek-ai/DeepSeek-R1"}
    row |= {"system": "h200_sxm", "precision": "fp8", "isl": "1024", "osl": "1024", "batch_size": "64"}
    row |= {"tp_size": "8", "attention_dp_size": "1", "moe_tp_size": "8", "moe_ep_size": "1"}
    return row | {"silicon_ttft_ms": "900", "silicon_tpot_ms": "20", **changes}


def row(**changes):
    return row_of_cells(Line(cells(**changes), "here"), SPEC)


def layout(found):
    plan = {key.removeprefix("plan."): value for key, value in found.items()}
    return found["devices"], plan["tensor_parallel"], plan["data_parallel"], plan.get("expert_parallel", 1)


def test_what_a_row_asks():
    found = row()
    assert (found["model"], found["device"], found["plan.framework"]) == (
        "deepseek-v3",
        "h200-sxm-141gb",
        "tensorrt-llm",
    )
    assert (found["workload.batch"], found["workload.prompt_tokens"]) == (64, 922)
    assert (found["plan.framework_version"], found["plan.quantization"]) == ("1.2", ["fp8-block", "kv-fp8"])
    assert (found["measured.ttft_s"], found["measured.tpot_s"]) == (0.9, 0.02)
    assert layout(found) == (8, 8, 1, 1)


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        # tp, attention ranks, expert tensor parallel, expert parallel: devices, tp, attention ranks, expert parallel
        (("64", "1", "8", "8"), (8, 8, 1, 8)),
        (("1", "64", "8", "8"), (8, 1, 8, 8)),
        (("4", "4", "1", "16"), (4, 1, 4, 4)),
        (("2", "2", "1", "4"), (2, 1, 2, 2)),
        (("1", "8", "1", "8"), (8, 1, 8, 8)),
        (("4", "1", "1", "4"), (4, 4, 1, 4)),
    ],
)
def test_products_of_degrees_are_taken_apart(printed, meant):
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    assert layout(row(**dict(zip(names, printed, strict=True)))) == meant


def test_the_concurrency_of_the_name_is_what_is_in_flight():
    assert row(batch_size="1")["workload.batch"] == 64


def test_rows_that_state_their_own_columns_are_taken_at_their_word():
    stated = {"silicon_data_source": "x/aic-auto-gap-analysis/data/y.csv", "attention_dp_size": "", "backend": "vllm"}
    stated |= {"id": "q_agg_2000x1000_c9_tp1_epnone_17", "batch_size": "9", "tp_size": "1", "moe_tp_size": "2"}
    found = row(**stated, isl="2000")
    assert layout(found) == (2, 1, 2, 1)
    assert found["workload.prompt_tokens"] == 2000


def test_attention_ranks_follow_from_the_batch_of_a_rank():
    stated = {"silicon_data_source": "x/aic-auto-gap-analysis/data/y.csv", "attention_dp_size": "", "moe_ep_size": "8"}
    stated |= {"id": "r1_agg_4000x1000_c80_tp8_epnone_3", "batch_size": "10", "moe_tp_size": "1"}
    found = row(**stated)
    assert layout(found) == (8, 1, 8, 8)
    assert found["workload.batch"] == 80


def disaggregated(**changes):
    stated = {"mode": "disagg", "tp_size": "", "attention_dp_size": "", "moe_tp_size": "", "moe_ep_size": ""}
    stated |= {"decode_tp_size": "8", "decode_attention_dp_size": "1", "decode_moe_ep_size": "8", "batch_size": ""}
    stated |= {"prefill_tp_size": "8", "prefill_attention_dp_size": "1", "prefill_moe_ep_size": "8"}
    return row(**{**stated, **changes})


def test_workers_are_those_of_the_published_deployment():
    """InferenceX: 44 requests are four on each of eleven decode workers with multi-token prediction."""
    found = disaggregated(id="2026_r1_h200_sxm_trtllm_fp8_disagg_1024x1024_c44_tp8_0_ep8_0_659")
    sides = found["plan.disaggregate"]
    assert sides["decode"] == {"replicas": 11, "tensor_parallel": 8, "data_parallel": 1, "expert_parallel": 8}
    assert found["devices"] == 96
    assert found["plan.speculative"]["tokens"] > 0


def test_a_deployment_published_with_and_without_drafts_is_two_readings():
    """Ten requests on five workers of B200: InferenceX lists them without drafts and with three."""
    named = {"id": "x_disagg_1024x1024_c10_tp8_ep8_1", "system": "b200_sxm", "precision": "fp4"}
    named |= {"decode_num_workers": "5", "prefill_tp_size": "4"}
    found = disaggregated(**named)
    assert "plan.speculative" not in found
    assert found["alternative"]["plan.speculative"]["tokens"] == 3
    assert found["alternative"]["plan.disaggregate"] == found["plan.disaggregate"]
    assert "alternative" not in disaggregated(**named | {"id": "x_disagg_1024x1024_c1365_tp8_ep8_1"})


def test_a_row_without_a_deployment_has_the_workers_of_its_columns():
    found = disaggregated(id="x_disagg_1024x1024_c77_tp8_ep8_1", isl="77", decode_num_workers="3")
    assert found["plan.disaggregate"]["decode"]["replicas"] == 3
    assert found["devices"] == 32
    assert "plan.speculative" not in found


def test_devices_of_all_workers_together_are_parted():
    found = disaggregated(id="x_disagg_77x1024_c5_tp36_ep1_1", isl="77", decode_tp_size="36", prefill_tp_size="36")
    assert found["devices"] == 36
    assert found["plan.disaggregate"]["decode"]["replicas"] == 4


def test_an_unknown_system_keeps_its_name():
    assert row(system="z900_sxm")["device"] == "z900-sxm"


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match="here: column 'isl'"):
        row_of_cells(Line({k: v for k, v in cells().items() if k != "isl"}, "here"), SPEC)


def test_every_row_of_the_sample_is_a_case_that_loads(data):
    with (data / "aiconfigurator" / "silicon_sample.csv").open() as lines:
        rows = sum(1 for _ in csv.DictReader(lines))
    names = ["aiconfigurator-aggregated", "aiconfigurator-disaggregated"]
    cases = [case for suite in suites(data, names) for case in suite.cases]
    assert len(cases) == rows
    for case in cases[::7]:
        assert generation_from_mapping(case.scenario).workload.batch >= 1


def image(name, day="2026-03-20"):
    return f"source_file=x.csv; measured={day}T00:00:00Z; wip=False; image=lmsysorg/{name}"


def sglang(**changes):
    stated = {"backend": "sglang", "backend_version": "0.5.9", "model_path": "Qwen/Qwen3.5-397B-A17B-FP8"}
    stated |= {"system": "b200_sxm", "tp_size": "4", "moe_tp_size": "4"}
    return row(**{**stated, **changes})


def test_a_deployment_that_was_only_published_with_drafts_has_them():
    drafting = sglang(id="q_b200_sglang_fp8_agg_1024x1024_c64_tp4_ep1_1")
    assert drafting["plan.speculative"]["tokens"] == 3
    assert "plan.speculative" not in sglang(id="q_b200_sglang_fp8_agg_1024x1024_c64_tp4_ep4_1")
    elsewhere = {"system": "b300_sxm", "id": "q_b300_sglang_fp8_agg_1024x1024_c64_tp4_ep1_1"}
    assert sglang(**elsewhere, silicon_data_source=image("sglang:v0.5.9-cu130"))["plan.speculative"]["tokens"] == 3
    assert "plan.speculative" not in sglang(**elsewhere, silicon_data_source=image("sglang:v0.5.9-cu130-amd64"))


@pytest.mark.parametrize(
    ("day", "ranks", "drafted"), [("2025-12-15", "1", None), ("2026-01-14", "1", 3), ("2026-01-14", "8", 1)]
)
def test_the_day_tells_runs_with_drafts_from_those_without(day, ranks, drafted):
    source = image("x:1", day)
    found = row(backend_version="1.1.0rc2.post2", silicon_data_source=source, attention_dp_size=ranks, tp_size="8")
    assert found.get("plan.speculative", {}).get("tokens") == drafted


def test_the_cache_has_the_type_that_the_engine_was_launched_with():
    assert sglang()["plan.quantization"] == ["fp8-block", "kv-fp8"]
    assert sglang(precision="bf16")["plan.quantization"] == "none"
    automatic = {"model_path": "openai/gpt-oss-120b", "precision": "fp4"}
    assert row(**automatic)["plan.quantization"] == ["mxfp4"]
    assert row(**automatic, system="b200_sxm")["plan.quantization"] == ["mxfp4", "kv-fp8"]


def test_routers_in_fp32_are_multiplied_as_the_engine_was_told_on_the_day():
    minimax = {
        "model_path": "MiniMaxAI/MiniMax-M2.5",
        "system": "b300_sxm",
        "backend": "vllm",
        "backend_version": "0.19.0",
    }
    before, after = (row(**minimax, silicon_data_source=image("x:1", day)) for day in ("2026-04-20", "2026-04-21"))
    assert before["plan.quantization"] == ["fp8-block", "kv-fp8"]
    assert after["plan.quantization"] == ["fp8-block", "kv-fp8", "router-tf32"]


@pytest.mark.parametrize(
    ("printed", "source", "meant"),
    [("0.5.10.post1", image("sglang:v0.5.10.post1"), "0.5.10"), ("", image("x", "2025-11-17"), "0.5.3")],
)
def test_releases_of_sglang_have_three_parts(printed, source, meant):
    assert sglang(backend_version=printed, silicon_data_source=source)["plan.framework_version"] == meant
