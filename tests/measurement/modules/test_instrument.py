"""Real models told apart by module: work to the FLOP, every phase, and nothing left behind."""
# ruff: noqa: E402 - imports that need PyTorch come after the check that it is there

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from sightline.errors import InputError
from sightline.loading.models import read_model
from sightline.measurement.modules.instrument import (
    Instrument,
    instrument,
)
from sightline.measurement.modules.timeline import (
    HostReader,
    Marks,
)
from sightline.measurement.modules.wrapping import roles_of
from sightline.measurement.timing import HostClock
from sightline.profile import Row

TOKENS, HIDDEN, WIDTH, VOCABULARY, LAYERS, HEADS, KV_HEADS = 24, 64, 96, 128, 2, 4, 2
BATCH = 2
LLAMA = {
    "hidden_size": HIDDEN,
    "intermediate_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
}
GPT2 = {
    "n_embd": HIDDEN,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "vocab_size": VOCABULARY,
    "n_positions": 64,
    "attn_pdrop": 0.0,
}
OPT = {
    "hidden_size": HIDDEN,
    "ffn_dim": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "vocab_size": VOCABULARY,
    "word_embed_proj_dim": HIDDEN,
    "max_position_embeddings": 64,
}
BLOOM = {"hidden_size": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": VOCABULARY}
KINDS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": {**LLAMA, "head_dim": 16},
    "gpt2": GPT2,
    "opt": OPT,
    "bloom": BLOOM,
}
LAYER_MODULES = {"attention norm", "qkv", "attention core", "output projection", "residual", "mlp norm", "mlp"}


def model_of(kind: str = "llama", attention: str = "sdpa", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**KINDS[kind], **changes})
    if kind == "bloom":
        attention = "eager"
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).train()


def tokens() -> Any:
    return torch.randint(0, VOCABULARY, (BATCH, TOKENS), generator=torch.Generator().manual_seed(1))


def train(on_model: Instrument, model: Any, steps: int = 2) -> list[Row]:
    """Rows of training steps; the first one counts."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer, x = torch.optim.AdamW(trained), tokens()
    for _ in range(steps):
        with on_model.recording():
            with on_model.phase("forward"):
                loss = model(input_ids=x, labels=x, use_cache=False).loss
            with on_model.phase("backward"):
                loss.backward()
            with on_model.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
    return on_model.rows()


@pytest.fixture
def on() -> Iterator[Callable[[Any], Instrument]]:
    """Put an instrument on a model for the length of a test."""
    made: list[Instrument] = []

    def put(model: Any) -> Instrument:
        made.append(instrument(model, None, HostClock()))
        return made[-1]

    yield put
    for one in made:
        one.remove()


def flops(rows: list[Row], phase: str, module: str) -> float:
    return sum(float(r.flops) for r in rows if (r.phase, r.module) == (phase, module))


def seconds(rows: list[Row], phase: str) -> float:
    return sum(float(r.time_s) for r in rows if r.phase == phase)


def modules(rows: list[Row], phase: str) -> set[str]:
    return {r.module for r in rows if r.phase == phase and r.block == "layer"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_every_module_has_its_flops_forward_and_twice_of_them_backward(
    kind: str, attention: str, on: Callable[[Any], Instrument]
) -> None:
    model = model_of(kind, attention)
    rows = train(on(model), model)
    context = HIDDEN
    keys = HIDDEN if kind in ("gpt2", "opt", "bloom") else KV_HEADS * HIDDEN // HEADS
    width = {"gpt2": 8 * HIDDEN, "bloom": 8 * HIDDEN, "opt": 2 * WIDTH}.get(kind, 3 * WIDTH)
    per_token = 2 * BATCH * TOKENS * HIDDEN
    expected = {
        "qkv": LAYERS * per_token * (context + 2 * keys),
        "output projection": LAYERS * per_token * context,
        "mlp": LAYERS * per_token * width,
        "head": per_token * VOCABULARY,
        "attention core": LAYERS * 4 * BATCH * TOKENS * TOKENS * context,
    }
    for module, count in expected.items():
        assert flops(rows, "forward", module) == count, module
        flash = module == "attention core" and kind != "bloom" and attention == "sdpa"
        assert flops(rows, "backward", module) == (2.5 if flash else 2) * count, module
    rotary = {"rope"} if kind in ("llama", "mistral", "qwen2", "qwen3") else set()
    assert modules(rows, "forward") == modules(rows, "backward") == LAYER_MODULES | rotary


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_modules_sum_to_the_total_of_pytorchs_counter(kind: str, on: Callable[[Any], Instrument]) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model, x = model_of(kind, "eager"), tokens()
    with FlopCounterMode(display=False) as counter:
        model(input_ids=x, labels=x, use_cache=False).loss.backward()
    rows = train(on(model), model)
    assert sum(r.flops for r in rows) == counter.get_total_flops()


def test_llama_2_7b_on_350_tokens_is_the_known_4_689_teraflop(on: Callable[[Any], Instrument]) -> None:
    config = transformers.LlamaConfig(
        hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, vocab_size=32000
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager")
        x, mask = torch.zeros((1, 350), dtype=torch.long), torch.zeros((1, 1, 350, 350))
    on_model = on(model)
    with on_model.counting():
        with on_model.phase("forward"):
            loss = model(input_ids=x, attention_mask=mask, use_cache=False).logits.sum()
        with on_model.phase("backward"):
            loss.backward()
    rows = on_model.rows()  # nothing was timed
    forward, backward = (sum(r.flops for r in rows if r.phase == phase) for phase in ("forward", "backward"))
    assert forward == pytest.approx(4.689e12, rel=1e-4)
    assert backward == 2 * forward


class Told:
    """Time that passes when it is told to, in any unit."""

    def __init__(self) -> None:
        self.now, self.each_reading = 0.0, 0.0

    def read(self) -> float:
        self.now += self.each_reading
        return self.now

    def before(self, call: Callable[..., Any], passes: float) -> Callable[..., Any]:
        """``call``, before which time passes."""

        def later(*args: Any, **kwargs: Any) -> Any:
            self.now += passes
            return call(*args, **kwargs)

        return later


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(HostReader, "read", staticmethod(told.read))
    return told


def test_what_the_instrument_takes_itself_is_in_no_module(
    time: Told, on: Callable[[Any], Instrument], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("enter", "leave"):
        monkeypatch.setattr(Marks, name, time.before(getattr(Marks, name), 1.0))
    on_model = on(model := model_of())
    rows = train(on_model, model)
    assert {float(r.time_s) for r in rows} == {0.0}
    # Six modules of a layer that are entered and left, RoPE and the core; the final norm and the head.
    assert on_model.own_s[0] >= 2 * 6 * LAYERS


def test_times_sum_to_the_step_and_none_is_missing(time: Told, on: Callable[[Any], Instrument]) -> None:
    model, x = model_of(), tokens()
    on_model = on(model)
    train(on_model, model, steps=1)
    assert not on_model.steps  # what counted is no time
    time.now, time.each_reading = 0.0, 1.0
    with on_model.recording():
        with on_model.phase("forward"):
            loss = model(input_ids=x, labels=x).loss
        with on_model.phase("backward"):
            loss.backward()
    rows = on_model.rows()
    (own_s,) = on_model.own_s
    # From the first reading to the last.
    assert sum(float(r.time_s) for r in rows) + own_s == time.now - 1
    assert own_s > 0
    assert all(r.time_s > 0 for r in rows)
    assert {r.phase for r in rows} == {"forward", "backward", "host"}


def test_what_a_module_takes_backward_is_found_there_and_nowhere_else(
    time: Told, on: Callable[[Any], Instrument]
) -> None:
    """Attention is called with keyword arguments only, for which full backward hooks read next to nothing."""
    model = model_of()
    layer = model.model.layers[1]
    gradients = {
        "qkv": (layer.self_attn.k_proj, 1.0),
        "output projection": (layer.self_attn.o_proj, 10.0),
        "mlp": (layer.mlp.down_proj, 100.0),
        "head": (model.lm_head, 1000.0),
    }
    for module, takes in gradients.values():
        module.weight.register_post_accumulate_grad_hook(time.before(lambda _: None, takes))
    rows = train(on(model), model)
    found = {r.module: float(r.time_s) for r in rows if r.time_s}
    assert found == {name: takes for name, (_, takes) in gradients.items()}
    assert {r.phase for r in rows if r.time_s} == {"backward"}


def test_recomputation_is_a_phase_and_not_counted_twice(on: Callable[[Any], Instrument]) -> None:
    plain, again = model_of(), model_of()
    again.activation_checkpointing_enable()
    without = train(on(plain), plain)
    rows = train(on(again), again)
    for module in LAYER_MODULES | {"rope"}:
        for phase in ("forward", "backward"):
            assert flops(rows, phase, module) == flops(without, phase, module)
        redone = flops(without, "forward", module)
        # What is not kept needs no recomputation: it ends before the product with the last weight.
        assert flops(rows, "recompute", module) == (redone * 2 / 3 if module == "mlp" else redone)
    assert modules(rows, "recompute") == LAYER_MODULES | {"rope"}
    counts = {r.phase: r.count for r in rows if r.module == "mlp"}
    assert counts == {"forward": LAYERS, "backward": LAYERS, "recompute": LAYERS}


@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
def test_frozen_weights_have_no_weight_gradient_and_adapters_have(on: Callable[[Any], Instrument]) -> None:
    peft = pytest.importorskip("peft")
    rank, model = 4, model_of()
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=rank, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    rows = train(on(adapted), adapted)
    per_token = 2 * BATCH * TOKENS
    assert flops(rows, "backward", "mlp") == flops(rows, "forward", "mlp")
    assert flops(rows, "backward", "head") == flops(rows, "forward", "head")
    adapters = LAYERS * per_token * rank * (2 * HIDDEN + HIDDEN + KV_HEADS * HIDDEN // HEADS)
    base = LAYERS * per_token * HIDDEN * (HIDDEN + 2 * KV_HEADS * HIDDEN // HEADS)
    assert flops(rows, "forward", "qkv") == base + adapters
    # Nothing before the first layer's adapters has a gradient: their inputs need none.
    inputs = (LAYERS - 1) / LAYERS
    down = LAYERS * per_token * rank * 2 * HIDDEN
    assert flops(rows, "backward", "qkv") == inputs * base + 2 * adapters - down * (1 - inputs)
    assert not any(r.phase == "backward" and r.block == "embedding" for r in rows)


def test_experts_are_a_module_of_their_own(on: Callable[[Any], Instrument]) -> None:
    KINDS["mixtral"] = {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}
    model = model_of("mixtral")
    rows = train(on(model), model)
    per_token = 2 * BATCH * TOKENS * HIDDEN
    widths = {"experts": 2 * 3 * WIDTH, "router": 4}
    for module, width in widths.items():
        assert flops(rows, "forward", module) == LAYERS * per_token * width
    # The router's gradients are those of the experts' weights too, and run among theirs.
    backward = sum(flops(rows, "backward", module) for module in widths)
    assert backward == 2 * LAYERS * per_token * sum(widths.values())


LATENT = {
    "hidden_size": HIDDEN,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "q_lora_rank": 24,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}


@pytest.mark.parametrize("kind", ["deepseek_v3", "deepseek_v2"])
def test_latent_attention_and_its_experts_are_told_apart(kind: str, on: Callable[[Any], Instrument]) -> None:
    KINDS[kind] = LATENT
    model = model_of(kind, "eager")
    rows = train(on(model), model)
    head, layers, dense = 16 + 8, 3, 1
    queries, down, up = HEADS * head, 24 + 20 + 8, HEADS * (16 + 12)
    tokens_flops = 2 * BATCH * TOKENS
    expected = {
        "qkv": layers * tokens_flops * (HIDDEN * down + 24 * queries + 20 * up),
        "attention core": layers * 2 * BATCH * TOKENS**2 * HEADS * (head + 12),
        "output projection": layers * tokens_flops * HEADS * 12 * HIDDEN,
        "mlp": dense * tokens_flops * 3 * HIDDEN * WIDTH,
        "shared experts": (layers - dense) * tokens_flops * 3 * HIDDEN * 2 * 32,
        "experts": (layers - dense) * tokens_flops * 3 * HIDDEN * 2 * 32,
        "router": (layers - dense) * tokens_flops * HIDDEN * 8,
    }
    for module, count in expected.items():
        assert flops(rows, "forward", module) == count, module
    among = ("experts", "router")
    for module, count in expected.items():
        assert module in among or flops(rows, "backward", module) == 2 * count, module
    assert sum(flops(rows, "backward", module) for module in among) == 2 * sum(expected[m] for m in among)
    assert modules(rows, "forward") >= {*expected, "rope", "attention norm", "mlp norm", "residual"}


@pytest.mark.parametrize("kind", ["gemma2", "gemma3_text", "qwen3_moe"])
def test_windows_and_many_experts_are_told_apart(kind: str, on: Callable[[Any], Instrument]) -> None:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    KINDS[kind] = {**LLAMA, "head_dim": 16, **(experts if kind == "qwen3_moe" else {"sliding_window": 8})}
    model = model_of(kind, "eager")
    rows = train(on(model), model)
    tokens_flops = 2 * BATCH * TOKENS * HIDDEN
    mlp = {"experts": 2 * 3 * 32, "router": 4} if kind == "qwen3_moe" else {"mlp": 3 * WIDTH}
    expected = {
        "qkv": LAYERS * tokens_flops * (HIDDEN + 2 * KV_HEADS * 16),
        "output projection": LAYERS * tokens_flops * HIDDEN,
        "attention core": LAYERS * 4 * BATCH * TOKENS**2 * HIDDEN,
        "head": tokens_flops * VOCABULARY,
        **{module: LAYERS * tokens_flops * width for module, width in mlp.items()},
    }
    for module, count in expected.items():
        assert flops(rows, "forward", module) == count, module
    total = sum(float(r.flops) for r in rows if r.phase == "backward")
    assert total == 2 * sum(expected.values())
    assert modules(rows, "forward") == LAYER_MODULES - {"mlp"} | {"rope", *mlp}


def test_generation_has_a_prefill_and_decodes(on: Callable[[Any], Instrument]) -> None:
    model, x = model_of().eval(), tokens()
    on_model = on(model)
    for _ in range(2):
        with on_model.recording(), torch.inference_mode():
            with on_model.phase("prefill"):
                out = model(input_ids=x, use_cache=True)
            for _ in range(3):
                with on_model.phase("decode"):
                    out = model(input_ids=x[:, :1], past_key_values=out.past_key_values, use_cache=True)
    rows = on_model.rows()
    assert modules(rows, "prefill") == modules(rows, "decode") == LAYER_MODULES | {"rope"}
    assert TOKENS * flops(rows, "decode", "mlp") == 3 * flops(rows, "prefill", "mlp")
    assert {r.count for r in rows if r.module == "qkv"} == {LAYERS, 3 * LAYERS}


def test_losses_and_gradients_are_those_of_the_bare_model(on: Callable[[Any], Instrument]) -> None:
    bare, model, x = model_of(), model_of(), tokens()
    bare(input_ids=x, labels=x).loss.backward()
    train_step = on(model)
    with train_step.counting():
        pass
    with train_step.recording():
        with train_step.phase("forward"):
            loss = model(input_ids=x, labels=x).loss
        with train_step.phase("backward"):
            loss.backward()
    for a, b in zip(bare.parameters(), model.parameters(), strict=True):
        # A branch's gradient is summed by itself first, which may round otherwise.
        torch.testing.assert_close(a.grad, b.grad)


def test_removing_leaves_the_model_and_its_library_as_they_were() -> None:
    from transformers.models.llama import modeling_llama

    model = model_of()
    names = ("apply_rotary_pos_emb", "ALL_ATTENTION_FUNCTIONS")
    before = [getattr(modeling_llama, n) for n in names]
    on_model = instrument(model, None, HostClock())
    assert getattr(modeling_llama, names[0]) is not before[0]
    on_model.remove()
    assert [getattr(modeling_llama, n) for n in names] == before
    assert not any("forward" in vars(m) for m in model.modules())


def test_a_step_that_fails_is_not_recorded_and_the_next_one_is(on: Callable[[Any], Instrument]) -> None:
    model = model_of()
    on_model = on(model)
    train(on_model, model)
    with pytest.raises(IndexError), on_model.recording(), on_model.phase("forward"):
        model(input_ids=torch.full((1, 4), VOCABULARY + 5))
    assert len(on_model.steps) == 1
    train(on_model, model, steps=1)
    assert len(on_model.steps) == 2


def test_compiled_models_and_unknown_ones_have_phases_only(on: Callable[[Any], Instrument]) -> None:
    unknown = torch.nn.Sequential(torch.nn.Linear(4, 4))
    on_model = on(unknown)
    assert not on_model.by_module
    for _ in range(2):
        with on_model.recording():
            with on_model.phase("forward"):
                loss = unknown(torch.ones(2, 4)).sum()
            with on_model.phase("backward"):
                loss.backward()
    assert seconds(on_model.rows(), "backward") > 0
    assert not on(torch.compile(model_of())).by_module


def test_an_unknown_phase_and_a_wrong_model_are_sentences(on: Callable[[Any], Instrument]) -> None:
    model = model_of()
    with pytest.raises(InputError, match="phase is 'warmup'; a step has: forward, backward"), on(model).phase("warmup"):
        pass
    other = read_model({**LLAMA, "model_type": "llama", "num_hidden_layers": 1})
    with pytest.raises(InputError, match="model has 1 layers, but the model to measure has 2"):
        instrument(model, other.model, HostClock())


def test_what_chooses_experts_has_an_address_of_its_own() -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_local_experts": 4}
    found = roles_of(MixtralForCausalLM(MixtralConfig(**sizes, **heads)))
    named = [(type(role.module).__name__, role.region.module) for role in found.roles]
    assert named.count(("MixtralTopKRouter", "router")) == 2
    assert named.count(("MixtralSparseMoeBlock", "experts")) == 2
