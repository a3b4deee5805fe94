"""Matmuls on the roofline, against what arXiv 2407.14645 finds and what can be computed by hand."""

from dataclasses import replace

import pytest
from generation_scenarios import generation
from training_scenarios import training

from sightline.errors import InputError
from sightline.loading import generation_from_mapping
from sightline.prediction.roofline_table import roofline, roofline_table

MATMULS = ["qkv", "scores", "context", "output projection", "mlp up", "mlp down"]


def table(model="llama-2-7b", cluster="1x a100-sxm-80gb", prompt=1024, batch=1, **plan):
    workload = {"task": "generate", "batch": batch, "prompt_tokens": prompt, "output_tokens": 200}
    return roofline_table(
        generation_from_mapping({"model": model, "cluster": cluster, "workload": workload, "plan": plan})
    )


def rows(of, phase):
    return {row.matmul: row for row in of.rows if row.phase == phase}


@pytest.mark.parametrize("cluster", ["1x a100-sxm-80gb", "1x h100-sxm-80gb"])
@pytest.mark.parametrize("model", ["llama-2-7b", "llama-2-13b", "llama-2-70b"])
def test_decoding_is_memory_bound_and_prefill_is_not_but_for_attention(model, cluster):
    found = table(model, cluster)
    assert [row.matmul for row in found.rows] == MATMULS * 2
    assert {row.bound for row in rows(found, "decode").values()} == {"memory"}
    # A product with a head's 128 elements on one side never does more than 128 FLOP per byte of bf16.
    expected = {name: "memory" if name in ("scores", "context") else "compute" for name in MATMULS}
    assert {name: row.bound for name, row in rows(found, "prefill").items()} == expected


def test_a_short_prompt_is_compute_bound_on_a100_but_memory_bound_on_h100():
    bounds = [rows(table(cluster=f"1x {name}", prompt=200), "prefill")["qkv"].bound for name in DEVICES]
    assert bounds == ["compute", "memory"]


DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb")


def test_figures_of_the_scores_by_hand():
    row = rows(table(prompt=200), "prefill")["scores"]
    assert (row.batch, row.m, row.n, row.k) == (32, 200, 200, 128)
    assert row.flops == 2 * 32 * 200 * 200 * 128
    assert row.bytes == 2 * 32 * (2 * 200 * 128 + 200 * 200)
    assert row.roofline_s == pytest.approx(row.bytes / 2039e9)


def test_query_heads_that_share_keys_are_rows_of_one_product():
    row = rows(table("llama-2-70b", batch=4), "decode")["scores"]
    assert (row.batch, row.m, row.k) == (4 * 8, 8, 128)
    assert row.intensity == pytest.approx(8, rel=0.1)


def test_enough_sequences_make_decoding_compute_bound():
    found = rows(table(batch=1024), "decode")
    assert found["mlp up"].bound == "compute"
    assert found["scores"].bound == "memory"


def test_tensor_parallelism_shrinks_the_products():
    whole, cut = (rows(table(cluster=f"{n}x h100-sxm-80gb", tensor_parallel=n), "prefill")["mlp up"] for n in (1, 4))
    assert cut.n == whole.n / 4


def test_quantized_weights_raise_the_intensity_of_decoding():
    plain, small = (rows(table(quantization=q), "decode")["mlp down"] for q in ("none", "w4a16"))
    assert small.intensity == pytest.approx(plain.intensity * 2 / (0.5 + 2 / 128), rel=0.02)


def test_nothing_is_predicted_faster_than_its_roofline():
    for cluster in DEVICES:
        assert all(row.predicted_s >= 0.999 * row.roofline_s for row in table(cluster=f"1x {cluster}").rows)


def test_experts_are_products_of_the_active_ones():
    found = rows(table("mixtral-8x7b", "2x h100-sxm-80gb", batch=16, tensor_parallel=2), "decode")
    assert 1 <= found["experts up"].batch <= 8
    assert found["experts up"].batch * found["experts up"].m == pytest.approx(32, rel=0.05)


def test_another_device_may_be_named_or_handed_over() -> None:
    scenario = generation(model="llama-2-7b", cluster="1x a100-sxm-80gb")
    other = generation(model="llama-2-7b", cluster="1x h100-sxm-80gb")
    tables = [roofline(scenario, "h100-sxm-80gb"), roofline(scenario, other.cluster.device)]
    for table in tables:
        assert table.scenario.cluster.device.name == "h100-sxm-80gb"
        assert [row.ridge for row in table.rows] == [row.ridge for row in roofline_table(other).rows]
    assert roofline(scenario).rows == roofline_table(scenario).rows


def test_the_table_is_a_data_frame() -> None:
    found = roofline(generation(model="llama-2-7b", cluster="1x a100-sxm-80gb"))
    assert found.table["matmul"].to_list() == [row.matmul for row in found.rows]
    assert found.table["bound"].to_list() == [row.bound for row in found.rows]


def test_training_has_no_roofline() -> None:
    with pytest.raises(InputError, match=r"workload\.task is 'pretrain'"):
        roofline(training())
    with pytest.raises(InputError, match="device is 'h999'"):
        roofline(generation(model="llama-2-7b", cluster="1x a100-sxm-80gb"), "h999")


def test_a_device_without_the_number_format_is_a_sentence() -> None:
    scenario = generation(model="llama-2-7b", cluster="1x a100-sxm-80gb", plan={"dtype": "bf16"})
    with pytest.raises(InputError, match=r"plan\.dtype is 'bf16'; allowed on v100-sxm2-32gb: fp32, fp16"):
        roofline(scenario, "v100-sxm2-32gb")


def test_the_longest_leg_names_the_level() -> None:
    scenario = generation(model="llama-2-7b", cluster="1x a100-sxm-80gb")
    slow = replace(scenario.cluster.device, l2_bandwidth=1e11)
    for row in (*roofline(scenario).rows, *roofline(scenario, slow).rows):
        legs = {"compute": row.compute_s, "dram": row.memory_s, "l2": row.l2_s}
        assert row.least_s == max(legs.values()) == legs[row.bound_level]
    assert {row.bound_level for row in roofline(scenario, slow).rows} == {"l2"}
