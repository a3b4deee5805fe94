"""A model in words: what its layers are made of, its experts and mixers, how its checkpoint is stored."""

from collections.abc import Iterator

from sightline.report import units
from sightline.scenario import Heads, LayerKind, Model

_MIXERS = {
    "attention": "full attention",
    "sliding": "sliding-window attention",
    "chunked": "chunked attention",
    "latent": "latent attention",
    "sparse": "sparse attention",
    "compressed": "attention to folded tokens",
    "linear": "gated delta net",
    "state-space": "Mamba-2",
}


def model_rows(model: Model) -> Iterator[tuple[str, str]]:
    """Yield what was read of a model as pairs of a figure and its text, leaving out what it has not."""
    yield (
        "counted",
        f"{units.count(model.parameters)} parameters, {units.count(model.active_parameters)} used by a token",
    )
    for i, kind in enumerate(model.kinds):
        yield ("" if i else "layers"), _kind(model, kind)
    if model.experts:
        yield "experts", _experts(model)
    if model.latent:
        latent = model.latent
        queries = f", queries from {latent.query_rank}" if latent.query_rank else ""
        yield "cached latent", f"{latent.kv_rank} + {latent.rope_head_dim} rotary per token{queries}"
    if model.sparse:
        blocks = f" blocks of {model.sparse.block_tokens}" if model.sparse.block_tokens > 1 else ""
        yield (
            "indexer",
            f"{model.sparse.heads} heads of {model.sparse.head_dim}, selects {model.sparse.selected_tokens}{blocks}",
        )
    if model.linear or model.state_space:
        mixer = model.linear or model.state_space
        yield "state", f"{mixer.state_elements:,} elements per sequence and layer"  # type: ignore[union-attr]
    if model.window:
        yield "window", f"{model.window:,} tokens"
    yield "checkpoint", _stored(model)
    if model.prediction_layers:
        yield "prediction layers", f"{model.prediction_layers}, not counted above"


def _kind(model: Model, kind: LayerKind) -> str:
    """One kind of layers: how many, the mixer with its heads, the MLP with its width."""
    mixer = _MIXERS.get(kind.mixer, "")
    if kind.mixer in ("attention", "sliding", "chunked"):
        mixer += f" ({_heads(model.heads_of(kind))})"
    if kind.compression > 1:
        mixer += f" ({kind.compression} to one)"
    if kind.mixer == "sparse" and not kind.indexed:
        mixer += " by another layer's choice"
    mlp = {"dense": f"MLP of {model.width_of(kind):,}", "experts": "experts", "none": ""}[kind.mlp]
    return f"{kind.count} x {' + '.join(part for part in (mixer, mlp) if part)}"


def _heads(heads: Heads) -> str:
    value = f", values {heads.value_dim}" if heads.value_dim != heads.head_dim else ""
    return f"{heads.heads} heads on {heads.kv_heads} of {heads.head_dim}{value}"


def _experts(model: Model) -> str:
    experts = model.experts
    if experts is None:
        return ""
    text = f"{experts.count} of {experts.width:,}, {experts.per_token} per token"
    text += f", {experts.shared} shared of {experts.shared_width:,}" if experts.shared else ""
    return text + (f", in a latent of {experts.latent_width:,}" if experts.latent_width else "")


def _stored(model: Model) -> str:
    others = [f"{part} {form}" for part, form in model.weight_exceptions]
    cache = [f"cache {model.kv_cache}"] if model.kv_cache else []
    return "; ".join([model.weights, *others, *cache])
