"""Every causal language model of transformers: its parameters, and its cache of keys, values and states."""

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading.models.config import read_model
from sightline.program.blocks.layer import mixer_of
from sightline.scenario import Model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import CONFIG_MAPPING  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: E402

CLASSES = {name: cls if isinstance(cls, str) else cls[0] for name, cls in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()}
QUICK = ("apertus", "bitnet", "electra", "falcon_h1", "gemma3n_text", "lfm2", "mamba", "minimax", "recurrent_gemma")

REFUSED = {
    *[
        "axk2",
        "bart",
        "bigbird_pegasus",
        "blenderbot",
        "blenderbot-small",
        "blt",
        "dots3_note",
        "dots3_note_text",
        "hrm_text",
        "inkling2_text",
    ],
    *[
        "inkling_text",
        "jetmoe",
        "marian",
        "mbart",
        "mllama",
        "musicgen",
        "musicgen_melody",
        "mvp",
        "pegasus",
        "plbart",
        "prophetnet",
        "reformer",
    ],
    *["trocr", "whisper", "xlnet", "xlstm", "xmod", "zamba", "zamba2", "zaya"],
}
"""Refused by name with a reason, in ``families.yaml``."""
UNBUILT = {
    *[
        "cohere_compass_text",
        "dbrx",
        "dots1",
        "gemma4_assistant",
        "gemma4_unified_assistant",
        "qwen4_exp",
        "qwen4_exp_text",
    ],
}
"""What transformers 5.23 does not build by default."""
STATED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 8},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "granitemoehybrid": {"layer_types": (["linear_attention"] * 7 + ["full_attention"]) * 4},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 48, "head_dim": 128},
}
"""What a config has to state for its class to be built, or to have layers of each kind."""
OF_TEXT = ("emu3", "gemma3n", "llama4", "qwen3_5", "qwen3_5_moe")
"""Whose class takes the config of its language model."""
OTHER = re.compile("vision|visual|image|audio|multi_modal|embed_tokens_extend|adaptor")
"""Tensors of other modalities."""


def config_of(name: str) -> Any:
    config = CONFIG_MAPPING[name](**STATED.get(name, {}))
    config = config.text_config if name in OF_TEXT else config
    config.is_decoder = True
    return config


def built(name: str, config: Any) -> Any:
    """The model on the meta device: shapes without weights."""
    cls = "Gemma3nForCausalLM" if name == "gemma3n" else CLASSES[name]
    with torch.device("meta"):
        return getattr(transformers, cls)(config).eval()


def tensors_of(name: str, model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the language model's tensors."""
    shapes = {key: tuple(weight.shape) for key, weight in model.named_parameters() if not OTHER.search(key)}
    if name == "longcat_flash":
        # The class also makes weights for the experts that hand tokens on unchanged; checkpoints have none.
        shapes = {key: (512, *s[1:]) if key.endswith("experts.gate_up_proj") else s for key, s in shapes.items()}
    return shapes


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in sorted(CLASSES.keys() - REFUSED - UNBUILT)],
)
def test_parameters_are_those_of_the_class(name: str) -> None:
    config = config_of(name)
    shapes = tensors_of(name, built(name, config))
    counted = read_model(config.to_dict()).model.parameters
    by_shape = Counter((re.sub(r"\.\d+\.", ".N.", key), shape) for key, shape in shapes.items())
    assert counted == pytest.approx(sum(map(math.prod, shapes.values())), rel=0.001), by_shape


@pytest.mark.parametrize("name", sorted(REFUSED & CLASSES.keys()))
def test_what_is_no_such_model_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InputError) as caught:
        read_model({"model_type": name})
    (problem,) = caught.value.problems
    assert problem.startswith(f"model.model_type is '{name}': a")
    assert problem.endswith("which is not predicted")


CACHED = {
    "keys and values": "afmoe cohere2 exaone4 gemma2 gemma3_text gemma4_text gpt2 gpt_oss granite_swa mistral mixtral qwen3_moe",
    "latents": "deepseek_v3 glm4_moe_lite hy_v3 youtu",
    "states": "bailing_hybrid bamba falcon_h1 granitemoehybrid jamba kimi_linear mamba mamba2 minimax olmo_hybrid qwen3_next",
    "convolutions": "lfm2 lfm3",
}
"""Names of `CLASSES` by what their cache holds."""


def cached_elements(cache: Any) -> Counter[str]:
    """Elements of a cache of transformers: keys and values, states, and the inputs that convolutions keep."""
    found: Counter[str] = Counter()
    for layer in getattr(cache, "layers", ()):
        for field, value in vars(layer).items():
            what = "conv" if "conv" in field else "state" if "recurrent" in field else "keys"
            tensors = value.values() if isinstance(value, dict) else (value,)
            found[what] += sum(t.numel() for t in tensors if isinstance(t, torch.Tensor) and t.dim() > 1)
    found["state"] += sum(t.numel() for t in getattr(cache, "linear_cache", ()) if isinstance(t, torch.Tensor))
    return found


def ours(model: Model, tokens: int) -> Counter[str]:
    """The same of ours: elements of 2 bytes of keys, values and convolutions, and of 4 of states."""
    found: Counter[str] = Counter()
    for kind in model.kinds:
        mixer = mixer_of(model, kind)
        cached = kind.count * float(mixer.cached_bytes(float(tokens), 2.0, 1.0))
        states = kind.count * getattr(mixer.figures, "state_elements", 0)
        if kind.mixer == "side-by-side":
            states = kind.count * mixer.figures.states.state_elements
        found["conv" if kind.mixer == "convolution" else "keys"] += round((cached - 4 * states) / 2)
        found["state"] += states
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", " ".join(CACHED.values()).split())
def test_the_cache_is_that_of_the_class_at_two_lengths(name: str) -> None:
    config = config_of(name)
    config._experts_implementation = "batched_mm"
    config._attn_implementation = "eager"
    module, model = built(name, config), read_model(config.to_dict()).model
    # A class keeps one token less than a window sees, for the new one adds itself.
    windowed = replace(model, window=model.window - 1) if model.window else model
    for tokens in (64, 640):
        with torch.no_grad(), torch.device("meta"):
            answer = module(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=True)
        theirs = cached_elements(answer.get("past_key_values", answer.get("cache_params")))
        mine = ours(windowed, tokens)
        assert (mine["keys"], mine["state"]) == (theirs["keys"], theirs["state"])
        if mine["conv"]:
            taps = model.convolution.conv_width
            assert mine["conv"] == theirs["conv"] * (taps - 1) // taps
