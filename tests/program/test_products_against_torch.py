"""Products of small models whose layers are not attention alone: as many FLOPs as PyTorch's counter finds.

The counter sees scans as the products that a class writes them in, and convolutions as one; both are left out here, as is
attention's core (`test_flops_against_torch` has it).
"""

from typing import Any

import pytest
from training_scenarios import training

from sightline.loading.models.config import read_model
from sightline.program import write_out
from sightline.program.operators import Matmul

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BATCH, SEQUENCE = 2, 16
ENCODER = {"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 64, "vocab_size": 97}
ENCODER |= {"intermediate_size": 96, "is_decoder": True}
TINY = ENCODER | {"num_hidden_layers": 4, "num_key_value_heads": 2, "pad_token_id": 0}
MAMBA = {"mamba_n_groups": 1, "mamba_d_state": 8, "mamba_d_head": 16}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "apertus": ("Apertus", TINY),
    "bamba": ("Bamba", TINY | MAMBA | {"attn_layer_indices": [1], "mamba_n_heads": 8}),
    "bert": ("Bert", ENCODER),
    "bitnet": ("BitNet", TINY),
    "electra": ("Electra", ENCODER | {"embedding_size": 32}),
    "falcon_h1": ("FalconH1", TINY | MAMBA | {"mamba_d_ssm": 64, "mamba_n_heads": 4}),
    "gemma4_text": (
        "Gemma4",
        TINY
        | {"head_dim": 8, "global_head_dim": 16, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 97}
        | {"num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2},
    ),
    "jamba": (
        "Jamba",
        TINY
        | {"num_experts": 1, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 4, "mamba_d_state": 8},
    ),
    "lfm2": ("Lfm2", TINY | {"layer_types": ["conv", "full_attention"] * 2, "block_auto_adjust_ff_dim": False}),
    "mamba": (
        "Mamba",
        {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "time_step_rank": 4, "vocab_size": 97},
    ),
    "recurrent_gemma": (
        "RecurrentGemma",
        TINY | {"num_hidden_layers": 3, "lru_width": 64, "intermediate_size": 192, "head_dim": 8},
    ),
    "rwkv": ("Rwkv", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 97, "context_length": 32}),
    "rembert": ("RemBert", ENCODER | {"input_embedding_size": 32, "output_embedding_size": 48}),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_products_are_those_that_the_counter_finds(name: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    cls, figures = CONFIGS[name]
    config = transformers.CONFIG_MAPPING[name](**figures)
    config._attn_implementation = "eager"
    real = getattr(transformers, f"{cls}LMHeadModel" if cls == "Bert" else f"{cls}ForCausalLM")(config)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        real(input_ids=torch.zeros(BATCH, SEQUENCE, dtype=torch.long), use_cache=False)
    found = counter.get_flop_counts()["Global"]
    aten = torch.ops.aten
    products = sum(found.get(op, 0) for op in (aten.mm, aten.addmm, aten.baddbmm))
    plan = {"micro_batch": BATCH, "attention": "eager"}
    model = read_model(config.to_dict()).model
    program = write_out(training(model=model, sequence_length=SEQUENCE, global_batch=BATCH, plan=plan))
    written = [
        block.count * op.count * op.flops
        for block in program.blocks
        for op in block.forward
        if isinstance(op, Matmul) and op.module != "attention core"
    ]
    assert sum(written) == products
    assert sum(block.count * block.parameters for block in program.blocks) == model.parameters
