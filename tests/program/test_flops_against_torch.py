"""FLOPs and parameters of the written-out program equal those of real model classes, to the last one.

The counter is PyTorch's own (`torch.utils.flop_counter`), the classes are Hugging Face's, built on the meta device, where
a model of any size costs nothing. Conventions:

- FLOPs are those of matrix products, 2 m n k each; element-wise work counts nothing, here as there.
- Attention counts every score, masked or not: the counter does not see the mask.
- Eager attention's backward pass has four products for the forward pass's two; flash attention's has five, because it
  computes the scores again: 2.5 times its forward pass. ``sdpa`` on the meta device is PyTorch's composition of separate
  products, so it counts as eager attention does; flash attention is counted on the operator it ends in.
- Llama's class makes its table of rotary angles with a product of positions and frequencies, which no training kernel
  does; the counter's own figure for that module is taken off.
- Experts run as one product per token and expert, as the counter sees no grouped kernel's rows; Llama 4's class runs every
  expert over every token, so its routed experts count by as much less.
- Per module the counter is right only in forward passes (in backward its hooks see other modules' products), so forward
  is compared per module kind and backward by its total.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from training_scenarios import training

from sightline.loading.models import resolve_model
from sightline.program import Block, Program, write_out
from sightline.quantities import Number
from sightline.scenario import Model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BATCH, SEQUENCE = 2, 16

TINY = {"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 64, "vocab_size": 97}
EDGES = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", TINY | {"n_inner": 96, "n_positions": 32} | EDGES),
    "llama": ("llama", TINY | {"intermediate_size": 96}),
    "llama with grouped queries": ("llama", TINY | {"num_key_value_heads": 2, "intermediate_size": 96}),
    "llama with wide heads": ("llama", TINY | {"num_key_value_heads": 1, "head_dim": 24, "intermediate_size": 96}),
    "bloom": ("bloom", TINY),
    "opt": ("opt", TINY | {"ffn_dim": 96, "max_position_embeddings": 64, "word_embed_proj_dim": 64}),
    "mpt": ("mpt", {"n_layers": 2, "n_heads": 8, "d_model": 64, "vocab_size": 97, "max_seq_len": 32}),
    "mixtral": (
        "mixtral",
        TINY | {"num_key_value_heads": 2, "intermediate_size": 48, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "qwen 3 with experts": (
        "qwen3_moe",
        TINY
        | {"num_key_value_heads": 2, "head_dim": 16, "moe_intermediate_size": 24, "intermediate_size": 96}
        | {"num_experts": 8, "num_experts_per_tok": 3},
    ),
    "deepseek v3": (
        "deepseek_v3",
        TINY
        | {"num_key_value_heads": 8, "intermediate_size": 96, "moe_intermediate_size": 24, "n_routed_experts": 8}
        | {"num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1}
        | {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
        | EDGES,
    ),
    "gpt-oss": (
        "gpt_oss",
        TINY
        | {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "num_local_experts": 4}
        | {"num_experts_per_tok": 2}
        | EDGES,
    ),
    "llama 4": (
        "llama4_text",
        TINY
        | {"num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 24, "intermediate_size_mlp": 96}
        | {"num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 32}
        | EDGES,
    ),
    "llama 3.1 8B": (
        "llama",
        {
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 128256,
        },
    ),
}
CLASSES = {
    "gpt2": "GPT2",
    "llama": "Llama",
    "bloom": "Bloom",
    "opt": "OPT",
    "mpt": "Mpt",
    "mixtral": "Mixtral",
    "qwen3_moe": "Qwen3Moe",
    "deepseek_v3": "DeepseekV3",
    "gpt_oss": "GptOss",
    "llama4_text": "Llama4",
}
MIXTURES = ("mixtral", "qwen 3 with experts", "deepseek v3", "gpt-oss", "llama 4")
KERNELS = {"bloom": ("eager",), "mpt": ("eager",), "llama 3.1 8B": ("flash",)} | dict.fromkeys(MIXTURES, ("eager",))
"""Where not all are counted: these classes have only their own eager attention, and one real size is enough; what a
kernel counts is the same with experts."""

WEIGHTLESS_NORMS = {"llama 4": 2 * 2 * 8}
"""Head norms without weights, which the reader does not tell from others: layers x (query and key) x head width."""

CASES = [(name, kernel) for name in CONFIGS for kernel in KERNELS.get(name, ("eager", "sdpa", "flash"))]

ATTENTIONS = ("attn", "self_attn", "self_attention")
PROJECTIONS = {
    "qkv": (
        *("q_proj", "k_proj", "v_proj", "c_attn", "query_key_value", "Wqkv"),
        *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
    ),
    "output projection": ("o_proj", "out_proj", "c_proj", "dense"),
}
MLPS = ("mlp", "ffn", "fc1", "fc2", "feed_forward")
MIXTURE = {
    "router": ("gate", "router"),
    "experts": ("experts",),
    "shared experts": ("shared_experts", "shared_expert"),
}
"""Parts of an MLP that is a mixture, and what classes call them."""


def flash_operator(module: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> tuple[Any, None]:
    """Attention through PyTorch's flash operator, which takes as many key as query heads."""
    del module
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True)[0].transpose(1, 2), None


def real_model(name: str, kernel: str = "eager") -> Any:
    family, figures = CONFIGS[name]
    kind = {"llama4_text": "Llama4Text"}.get(family, CLASSES[family])
    config = getattr(transformers, f"{kind}Config")(**figures)
    config._experts_implementation = "batched_mm"
    transformers.AttentionInterface.register("one_kernel", flash_operator)
    config._attn_implementation = "one_kernel" if kernel == "flash" else kernel
    kind = getattr(transformers, "GPT2LMHeadModel" if family == "gpt2" else f"{CLASSES[family]}ForCausalLM")
    with torch.device("meta"):
        return kind(config).to(torch.bfloat16)


def run(model: Any, *, backward: bool) -> dict[str, dict[Any, int]]:
    """Return the counter's FLOPs of one pass by module and operator."""
    from torch.utils.flop_counter import FlopCounterMode

    tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long, device="meta")
    inputs: dict[str, Any] = {"use_cache": False}
    if model.config.model_type not in ("bloom", "opt", "mpt"):
        # Given a whole mask they look for no padding, which would need values.
        inputs["attention_mask"] = torch.zeros(BATCH, 1, SEQUENCE, SEQUENCE, dtype=torch.bfloat16, device="meta")
    with torch.set_grad_enabled(backward), FlopCounterMode(display=False, depth=None) as counter:
        logits = model(tokens, **inputs).logits
        if backward:
            logits.sum().backward()
    return dict(counter.get_flop_counts())


def by_kind(counts: dict[str, dict[Any, int]]) -> dict[str, int]:
    """Add the counter's forward FLOPs up by module kind."""
    kinds = dict.fromkeys(("qkv", "attention core", "output projection", "mlp", "head", *MIXTURE), 0)
    for path, flops in counts.items():
        *_, parent, last = ["", *path.split(".")]
        total = sum(flops.values())
        if last in ATTENTIONS:
            kinds["attention core"] += total
        elif last in MLPS:
            kinds["mlp"] += total
        elif last == "lm_head":
            kinds["head"] += total
        for kind, names in PROJECTIONS.items():
            if parent in ATTENTIONS and last in names:
                kinds[kind] += total
                kinds["attention core"] -= total
        for kind, names in MIXTURE.items():
            if parent in MLPS and last in names:
                kinds[kind] += total
                kinds["mlp"] -= total
    return {kind: flops for kind, flops in kinds.items() if flops}


def total(counts: dict[str, dict[Any, int]]) -> int:
    """Return all FLOPs but those of the rotary table."""
    tables = [flops for path, flops in counts.items() if path.endswith(".rotary_emb")]
    return sum(counts["Global"].values()) - sum(sum(t.values()) for t in tables)


def over_every_token(name: str, counts: dict[str, dict[Any, int]], *, passes: int = 1) -> int:
    """Return what a class counts that runs every expert over every token, beyond the tokens that experts are sent."""
    if name != "llama 4":
        return 0
    routed = sum(sum(flops.values()) for path, flops in counts.items() if path.endswith("feed_forward.experts"))
    figures = CONFIGS[name][1]
    return passes * routed * (figures["num_local_experts"] - 1) // figures["num_local_experts"]


def read(real: Any) -> Model:
    """The class's own config, written as it is published and read back."""
    with TemporaryDirectory() as folder:
        real.config.to_json_file(f"{folder}/config.json")
        return resolve_model(f"{folder}/config.json", Path(folder)).model


def program(real: Any, kernel: str) -> Program:
    scenario = training(
        model=read(real),
        sequence_length=SEQUENCE,
        global_batch=BATCH,
        plan={"micro_batch": BATCH, "attention": "flash" if kernel == "flash" else "eager"},
    )
    return write_out(scenario)


def counted(program: Program) -> list[tuple[Block, int]]:
    return [(block, block.count) for block in program.blocks]


def flops_by_module(program: Program) -> dict[str, Number]:
    kinds: dict[str, Number] = {}
    for block, count in counted(program):
        for op in block.forward:
            kinds[op.module] = kinds.get(op.module, 0.0) + count * op.count * op.flops
    return {module: flops for module, flops in kinds.items() if flops}


@pytest.mark.parametrize(("name", "kernel"), CASES)
def test_forward_flops_of_every_module_kind_equal_the_counter(name: str, kernel: str) -> None:
    real = real_model(name, kernel)
    counts = run(real, backward=False)
    written = flops_by_module(program(real, kernel))
    beyond = over_every_token(name, counts)
    expected = by_kind(counts)
    if beyond:
        expected["experts"] -= beyond
    assert written == expected
    assert sum(written.values()) == total(counts) - beyond


@pytest.mark.parametrize(("name", "kernel"), CASES)
def test_flops_of_forward_and_backward_together_equal_the_counter(name: str, kernel: str) -> None:
    real = real_model(name, kernel)
    written = program(real, kernel)
    both = sum(count * op.flops for block, count in counted(written) for op in (*block.forward, *block.backward))
    beyond = over_every_token(name, run(real, backward=False), passes=3)
    assert both == total(run(real, backward=True)) - beyond


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_equal_those_of_the_class(name: str) -> None:
    real = real_model(name)
    parameters = sum(p.numel() for n, p in real.named_parameters() if not n.endswith(".sinks"))
    parameters += WEIGHTLESS_NORMS.get(name, 0)
    assert read(real).parameters == parameters
    assert sum(block.parameters * count for block, count in counted(program(real, "eager"))) == parameters


def test_the_kernels_really_differ() -> None:
    forward = [total(run(real_model("llama", kernel), backward=False)) for kernel in ("eager", "sdpa", "flash")]
    both = [total(run(real_model("llama", kernel), backward=True)) for kernel in ("eager", "sdpa", "flash")]
    assert forward[0] == forward[1] == forward[2]
    assert both[0] == both[1] < both[2]
