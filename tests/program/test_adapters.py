"""Adapters, quantized weights and compilation: what they add to a program and what they take out of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightline.loading import scenario_from_mapping
from sightline.prediction.training.step_profile import predict
from sightline.program import Collective, Elementwise, Matmul, Program, write_out
from sightline.program.techniques.adapters import adapter_parameters
from sightline.program.techniques.low_precision import STORED_BYTES
from sightline.scenario import Adapter, Scenario


def scenario(model: str = "llama-2-7b", **plan: Any) -> Scenario:
    return scenario_from_mapping(
        {
            "model": model,
            "cluster": "1x a100-sxm-80gb",
            "workload": {"task": "finetune", "sequence_length": 512, "global_batch": 1},
            "plan": {"micro_batch": 1, **plan},
        }
    )


def program(**plan: Any) -> Program:
    return write_out(scenario(**plan))


def names(program: Program, passes: str = "backward") -> list[str]:
    return [op.name for op in getattr(program.layers[0], passes)]


def test_published_counts_of_trained_parameters() -> None:
    model = scenario().model
    # Lightning-AI/litgpt tutorials/resource-tables.md: rank 8 beside queries and values of Llama 2 7B.
    assert adapter_parameters(model, Adapter(rank=8, targets=("query", "value"))) == 4_194_304
    # The same counted on the program's one device.
    written = program(adapter={"kind": "lora", "rank": 8, "targets": ["query", "value"]})
    assert model.layers * written.layers[0].adapter_parameters == 4_194_304


def test_frozen_weights_have_no_gradients_but_pass_them_on() -> None:
    frozen = program(adapter="lora")
    assert "weight gradient" not in names(frozen)
    assert names(frozen).count("input gradient") == names(program()).count("input gradient")
    assert frozen.layers[0].own_trained_parameters == 0
    assert not [op for op in frozen.embedding.backward if op.name == "table gradient"]


@pytest.mark.parametrize("targets", ["all-linear", ["query", "value"], ["qkv"], ["down"]])
def test_every_adapter_has_two_matmuls_forward_and_four_backward(targets: Any) -> None:
    adapted = program(adapter={"kind": "lora", "rank": 16, "targets": targets})
    count = len(scenario(adapter={"kind": "lora", "targets": targets}).plan.adapter.projections(gated=True))
    assert names(adapted, "forward").count("adapter A") == count
    thin = [op for op in adapted.layers[0].backward if isinstance(op, Matmul) and op.name.startswith("adapter")]
    assert len(thin) == 4 * count


def test_the_flops_of_adapters_are_six_per_parameter_and_token() -> None:
    adapted = program(adapter={"kind": "lora", "rank": 16})
    operators = (*adapted.layers[0].forward, *adapted.layers[0].backward)
    flops = sum(op.flops for op in operators if op.name.startswith("adapter"))
    assert flops == pytest.approx(6 * 512 * adapted.layers[0].adapter_parameters)


def chain(**plan: Any) -> tuple[float, float]:
    """Bytes and kernels of a layer's forward pass beside the products of a query's adapter, without dropout."""
    adapter = {"kind": "lora", "rank": 16, "targets": ["query"], "dropout": 0}
    written = program(**{"adapter": adapter, "framework": "transformers", **plan})
    [around] = [op for op in written.layers[0].forward if op.name == "adapter chain"]
    assert isinstance(around, Elementwise)
    return float(around.traffic_bytes), float(around.kernels)


def test_what_runs_beside_an_adapter_is_the_trainers() -> None:
    tensor, weights = 2.0 * 512 * 4096, 6.0 * 16 * 2 * 4096
    # torchtune keeps adapters in bf16: scaled, and added.
    assert chain(framework="torchtune") == (5.0 * tensor, 2.0)
    # PEFT casts the input up to the fp32 of its adapters, and autocast takes both down, and both matrices.
    assert chain() == (weights + 6.0 * tensor + 5.0 * tensor, 6.0)
    # Beside quantized weights autocast alone casts; bitsandbytes' outputs in 4 bits are copied.
    assert chain(quantization="int8") == (weights + 5.0 * tensor, 4.0)
    assert chain(quantization="nf4") == (weights + 7.0 * tensor, 5.0)
    # A compiler has the next kernel read the outputs.
    assert chain(framework="torchtune", compile=True) == (tensor, 0.0)


def test_joined_adapters_have_the_parameters_of_separate_ones() -> None:
    plan = {"adapter": {"kind": "lora", "rank": 8, "targets": ["query", "value"]}}
    joined, separate = program(**plan, framework="litgpt"), program(**plan)
    assert joined.layers[0].adapter_parameters == separate.layers[0].adapter_parameters
    assert names(joined, "forward").count("adapter A") == 1


def test_also_trained_modules_are_copies_beside_the_frozen_ones() -> None:
    both = program(adapter={"kind": "lora", "also_trained": ["embedding", "head"]})
    assert both.embedding.copied_parameters == both.embedding.frozen_parameters
    assert [op for op in both.head.backward if op.name == "weight gradient"]
    assert [op for op in both.embedding.backward if op.name == "table gradient"]


@pytest.mark.parametrize(("form", "bits"), [("nf4", 4.127), ("nf4-single", 4.5), ("int8", 8.0)])
def test_bits_per_quantized_weight(form: str, bits: float) -> None:
    assert STORED_BYTES[form] * 8 == pytest.approx(bits, abs=1e-3)


def test_quantized_weights_are_expanded_before_each_matmul_of_theirs() -> None:
    written = program(quantization="nf4")
    for passes in ("forward", "backward"):
        assert names(written, passes).count("dequantize") == 4
    # What is not quantized is trained.
    assert "weight gradient" not in names(written)
    assert written.head.own_trained_parameters == written.head.parameters
    norms = written.layers[0].own_trained_parameters
    assert norms == 2 * scenario().model.norm_parameters


def test_a_library_expands_4_bit_codes_by_its_instructions_and_pytorch_integers_by_their_bytes() -> None:
    def expansion(form: str, **plan: Any) -> Elementwise:
        return next(op for op in program(quantization=form, **plan).layers[0].forward if op.part == "dequantize")

    code, integers = expansion("nf4"), expansion("int4")
    assert code.unit_cycles > code.elements
    assert code.traffic_bytes == pytest.approx((STORED_BYTES["nf4"] + 2.0) * code.elements)
    assert integers.unit_cycles == 0.0
    assert integers.traffic_bytes > (STORED_BYTES["int4"] + 2.0) * integers.elements
    # Until 2024 codes were those of fp16 weights, so that other types are cast.
    casts = {
        (date, dtype): "copy"
        in names(program(quantization="nf4", framework="deepspeed", framework_version=date, dtype=dtype))
        for date in ("2023-11", "2024-05")
        for dtype in ("bf16", "fp16")
    }
    assert [key for key, does in casts.items() if does] == [("2023-11", "bf16")]
    # A bound takes the bytes alone.
    assert expansion("nf4", framework="reference").unit_cycles == 0.0


def test_compiling_launches_and_moves_less_and_computes_the_same() -> None:
    eager, compiled = program(framework="transformers"), program(framework="transformers", compile=True)
    assert sum(op.kernels for op in compiled.layers[0].forward) < sum(op.kernels for op in eager.layers[0].forward)
    assert sum(op.bytes for op in compiled.layers[0].forward) < sum(op.bytes for op in eager.layers[0].forward)
    assert sum(op.flops for op in compiled.layers[0].forward) == sum(op.flops for op in eager.layers[0].forward)


def test_an_array_of_ranks_is_each_rank() -> None:
    one = scenario(adapter={"kind": "lora", "rank": 4})
    ranks = np.array([4, 16, 64])
    plan = replace(one.plan, adapter=Adapter(rank=ranks))
    many = write_out(replace(one, plan=plan)).layers[0].adapter_parameters
    each = [program(adapter={"kind": "lora", "rank": int(r)}).layers[0].adapter_parameters for r in ranks]
    assert many == pytest.approx(each)


def test_attention_beside_the_mlp_shares_its_norm() -> None:
    side_by_side = write_out(scenario("phi-1.5"))
    assert [op.module for op in side_by_side.layers[0].forward if op.name == "norm"] == ["attention norm"]
    assert side_by_side.layers[0].count * side_by_side.layers[0].parameters + side_by_side.embedding.parameters + (
        side_by_side.head.parameters
    ) == pytest.approx(scenario("phi-1.5").model.parameters, rel=1e-3)


def test_biases_beside_packed_weights_are_trained_where_no_adapter_is() -> None:
    biased = {"model": "qwen2.5-7b", "quantization": "int8"}
    assert names(program(**biased)).count("bias gradient") == 1
    assert "bias gradient" not in names(program(**biased, adapter={"kind": "lora", "rank": 8}))
    assert "bias gradient" not in names(program(quantization="int8"))


def cut(t: int, *, framework_version: str = "nemo", sequence_parallel: bool = True, **plan: Any) -> Scenario:
    return scenario_from_mapping(
        {
            "model": "llama-2-70b",
            "cluster": f"{t}x h100-sxm-80gb",
            "workload": {"task": "finetune", "sequence_length": 512, "global_batch": 1},
            "plan": {
                "framework": "megatron",
                "framework_version": framework_version,
                "sequence_parallel": sequence_parallel,
                "tensor_parallel": t,
                "micro_batch": 1,
                "adapter": {"kind": "lora", "rank": 16, "targets": ["qkv", "output"]},
                **plan,
            },
        }
    )


def collectives(one: Scenario, passes: str) -> list[tuple[str, str, str]]:
    layer = write_out(one).layers[0]
    found = [op for op in getattr(layer, passes) if isinstance(op, Collective) and np.any(op.count)]
    return [(op.module, op.kind, op.overlapped_with) for op in found]


def test_ranks_share_out_both_matrices_of_every_adapter() -> None:
    whole = write_out(cut(1, sequence_parallel=False)).layers[0]
    piece = write_out(cut(4)).layers[0]
    assert 4 * piece.adapter_parameters == whole.adapter_parameters
    operators = (*piece.forward, *piece.backward)
    flops = sum(op.flops for op in operators if op.name.startswith("adapter"))
    assert flops == pytest.approx(6 * 512 * piece.adapter_parameters)


def test_one_rank_exchanges_nothing_for_adapters() -> None:
    assert collectives(cut(1, sequence_parallel=False), "forward") == []
    assert collectives(cut(1, sequence_parallel=False), "backward") == []


def test_what_an_adapter_takes_is_gathered_whole_before_anything_runs() -> None:
    forward = collectives(cut(4, dtype="fp8"), "forward")
    assert forward[0] == ("qkv", "all_gather", "nothing")
    assert ("mlp", "all_gather", "projections") in forward
    gathers = [op for op in write_out(cut(4, dtype="fp8")).layers[0].forward if op.name == "all-gather"]
    # In 16 bits where the adapter needs it, in 8 where a product alone does.
    assert gathers[0].network_bytes == 2.0 * next(op for op in gathers if op.module == "mlp").network_bytes


def test_frozen_weights_gather_no_input_again_and_leave_nothing_to_reduce_beside() -> None:
    trained, frozen = collectives(cut(4, adapter="none"), "backward"), collectives(cut(4), "backward")
    assert (
        trained.count(("mlp", "all_gather", "projections")) == 1 == frozen.count(("mlp", "all_gather", "projections"))
    )
    assert ("mlp", "all_gather", "input gradient") in trained
    assert ("mlp", "all_gather", "input gradient") not in frozen
    assert ("mlp", "reduce_scatter", "weight gradient") in trained
    assert ("mlp", "reduce_scatter", "nothing") in frozen


@pytest.mark.parametrize("passes", ["forward", "backward"])
def test_outputs_of_an_adapter_reach_their_tokens_by_an_all_to_all_or_whole(passes: str) -> None:
    def sent(version: str) -> dict[str, float]:
        layer = write_out(cut(4, framework_version=version)).layers[0]
        of_output = [
            op for op in getattr(layer, passes) if isinstance(op, Collective) and op.overlapped_with == "nothing"
        ]
        return {op.kind: float(op.network_bytes) for op in of_output if op.module == "output projection"}

    whole = 2.0 * 512 * 8192
    assert sent("nemo")["all_gather"] == whole
    assert sent("mlperf")["all_to_all"] == whole / 4
    assert sent("nemo")["all_reduce"] == sent("mlperf")["all_reduce"] == 2.0 * 512 * 16


def test_an_array_of_ranks_of_tensor_parallelism_is_each() -> None:
    degrees = np.array([1, 2, 4, 8])
    one = cut(8)
    many = predict(replace(one, plan=replace(one.plan, tensor_parallel=degrees, data_parallel=8 // degrees)))
    for i, t in enumerate(degrees):
        plan = replace(one.plan, tensor_parallel=int(t), data_parallel=8 // int(t))
        assert many.step_time_s[i] == pytest.approx(predict(replace(one, plan=plan)).step_time_s)
