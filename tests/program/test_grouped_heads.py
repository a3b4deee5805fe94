"""Which releases of an engine decode heads that share keys and values together."""

import pytest
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.phases import price_generation
from sightline.program import CachedAttention


def heads_apart(model: str, framework: str, version: str) -> bool:
    plan = {"framework": framework, "framework_version": version, "tensor_parallel": 8}
    priced = price_generation(generation(model=model, cluster="8x h100-sxm-80gb", plan=plan))
    (core,) = (op for op in priced.decode.program.layers[0].operators if isinstance(op, CachedAttention))
    (prompt,) = (op for op in priced.prefill.program.layers[0].operators if isinstance(op, CachedAttention))
    assert not prompt.heads_apart
    return core.heads_apart


@pytest.mark.parametrize(
    ("model", "version", "apart"),
    [
        ("llama-2-70b", "0.7", True),  # before the kernels of grouped heads
        ("llama-2-70b", "0.8", False),  # 8 heads share
        ("mistral-7b", "0.9", True),  # 4 do
        ("falcon-180b", "0.9", True),  # 29 do
        ("llama-2-7b", "0.9", True),  # each has its own
        ("falcon-180b", "1.0", False),
    ],
)
def test_tensorrt_llm_learned_to_share_eight_heads_in_0_8(model, version, apart):
    assert heads_apart(model, "tensorrt-llm", version) == apart


def test_sharing_pays_where_the_context_is_long():
    def tpot_s(version: str) -> float:
        plan = {"framework": "tensorrt-llm", "framework_version": version, "tensor_parallel": 8, "dtype": "fp16"}
        found = generation(
            model="llama-2-70b",
            cluster="8x a100-sxm-80gb",
            plan=plan,
            batch=64,
            prompt_tokens=2048,
            output_tokens=2048,
        )
        return float(predict_generation(found).tpot_s)

    assert tpot_s("0.6") > 1.3 * tpot_s("0.9")
