"""The catalog as text: its kinds, the entries of a kind, one entry with the source of each figure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from sightline.profile.results import flatten
from sightline.report import units
from sightline.report.terminal import technology
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import plain_table
from sightline.report.terminal.prices import price_table, prices_table
from sightline.report.terminal.technology import in_time
from sightline.scenario import Heads, LayerKind, Model
from sightline.scenario.blocks import MIXER_WORDS, SOFTMAX

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "models": {
        "size": "parameters",
        "active": "active_parameters",
        "hidden": "hidden_size n_embd d_model",
        "layers": "num_hidden_layers n_layer n_layers",
        "heads": "num_attention_heads n_head n_heads",
        "kv": "num_key_value_heads num_kv_heads",
    },
    "devices": {
        "memory": "memory",
        "bandwidth": "memory_bandwidth",
        "16b FLOP/s": "peak_flops.bf16 peak_flops.fp16",
        "tdp": "tdp",
        "$/hour": "price",
    },
    "interconnects": {
        "bandwidth": "bandwidth",
        "latency": "latency",
        "topology": "topology",
        "peer to peer": "peer_to_peer",
    },
    "networks": {"per node": "bandwidth_per_node", "latency": "latency", "topology": "topology"},
    "hosts": {"cores": "cores", "memory": "memory", "bandwidth": "memory_bandwidth"},
    "clusters": {"devices": "devices", "in the node": "intra_node", "network": "network"},
    "engines": {
        "all-reduce": "collectives.all_reduce",
        "chunked prefill": "defaults.chunked_prefill",
        "token budget": "defaults.max_batched_tokens",
        "CUDA graphs": "defaults.cuda_graphs",
        "of memory": "memory.memory_fraction",
    },
    "inference": {
        "iteration, s": "constants.iteration_s",
        "prefill, s": "constants.prefill_s",
        "matmul x": "constants.matmul_slowdown",
        "TTFT spread": "constants.ttft_spread",
        "TPOT spread": "constants.tpot_spread",
        "evidence": "evidence",
    },
    **technology.COLUMNS,
}
"""Figures worth a column by kind, under their headings; of several keys the first that an entry has is shown."""

_UNITS = {"price": " USD/hour", "peak_flops": "FLOP/s", "fp32": " TFLOP/s", "fp16": " TFLOP/s"}
"""Units that a list's heading already has, by the beginning of the key."""

_LONGEST = 2000
"""Characters beyond which a text is data for programs, such as a packed table."""

_ABOUT = ("source", "sources", "date", "evidence", "evidences")


def kinds_table(listing: Mapping[str, Sequence[str]]) -> RenderableType:
    """Return the kinds with their number of entries and a few names."""
    rows = (
        (kind, str(len(names)), ", ".join(names[:4]) + (", ..." if len(names) > 4 else ""))
        for kind, names in listing.items()
    )
    return plain_table(("kind", "entries", "for example"), rows=rows)


def entries_table(kind: str, entries: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    """Return the entries of a kind, one line each, with their main figures."""
    if kind == "prices":
        return prices_table(entries)
    if kind not in COLUMNS:
        columns = columns_of(kind, entries)
        return plain_table(("name", *columns), rows=zip(entries, *columns.values(), strict=True))
    ordered = in_time(kind, entries)
    return Listing(
        labels=[Column(heading="name", cells=list(ordered), is_number=False)],
        figures=[
            Column(heading=heading, cells=cells, is_number=False)
            for heading, cells in columns_of(kind, ordered).items()
        ],
    )


def columns_of(kind: str, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the main figures of entries under their headings; of kinds without any the sources."""
    flat = [flatten(fields) for fields in entries.values()]
    columns = COLUMNS.get(kind, {"source": "source"})
    return {heading: [_first(of, keys.split()) for of in flat] for heading, keys in columns.items()}


def about(fields: Mapping[str, Any]) -> str:
    """Return where an entry comes from: source, date and kind of evidence."""
    return (
        f"{fields.get('source', 'no source stated')} ({fields.get('date', 'undated')}, {fields.get('evidence', '-')})"
    )


def figures_of(fields: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return each figure of an entry, its value, and where it comes from when that is not the entry's own source."""
    sources, evidences = (
        stated if isinstance(stated, Mapping) else {} for stated in map(fields.get, ("sources", "evidences"))
    )
    found = []
    for key, value in flatten({k: v for k, v in fields.items() if k not in _ABOUT}).items():
        root = key.partition(".")[0]
        note = [str(part) for part in (of.get(key, of.get(root)) for of in (sources, evidences)) if part]
        found.append((key, _figure(key, value), "; ".join(note)))
    return found


def entry_table(
    kind: str, name: str, fields: Mapping[str, Any], meaning: Sequence[tuple[str, str]] = ()
) -> RenderableType:
    """Return one entry: each value, and where it comes from when that is not the entry's own source.

    ``meaning`` is what the entry was read as, shown above its values.
    """
    if kind == "prices":
        return price_table(name, fields)
    figures = figures_of(fields)
    differs = any(note for _, _, note in figures)
    table = plain_table(("figure", "value", *(["source, if different"] if differs else [])))
    for row in figures:
        table.add_row(*(row if differs else row[:2]))
    heading = Group(Text(name, style="bold"), Text(about(fields), style="dim"), Text())
    read = (plain_table(("read as", ""), rows=meaning), Text()) if meaning else ()
    return Group(heading, *read, table)


def meaning_of(kind: str, name: str) -> list[tuple[str, str]]:
    """Return what an entry is read as, where its own keys say it only to those who know the family."""
    if kind != "models":
        return technology.meaning(kind, name)
    from pathlib import Path

    from sightline.loading.models import resolve_model

    return list(model_rows(resolve_model(name, Path()).model))


def _first(fields: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((_listed(key, fields[key]) for key in keys if key in fields), "")


def _figure(key: str, value: Any) -> str:
    """A cell; parameters are counted in thousands, millions, ..., years have no separators."""
    if key == "year":
        return str(value)
    return units.count(value) if key in ("parameters", "active_parameters") else _cell(value)


def _listed(key: str, value: Any) -> str:
    """A cell of a list; without the unit where the heading has it, and memory in one unit for all entries."""
    if isinstance(value, str) and value.endswith(" MiB"):
        return units.size(float(value.removesuffix(" MiB")) * 2**20)
    unit = next((unit for start, unit in _UNITS.items() if key.startswith(start)), None)
    return _figure(key, value) if unit is None else str(value).removesuffix(unit)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{value:,.0f}"
    if not isinstance(value, list):
        text = str(value)
        return text if len(text) <= _LONGEST else f"{len(text):,} characters; use --json"
    if any(isinstance(item, list | dict) for item in value):
        return f"{len(value)} lines; use --json"
    runs = [(item, len(list(same))) for item, same in groupby(value)]
    if len(runs) < len(value) / 2:
        return "; ".join(f"{times} x {_cell(item)}" for item, times in runs)
    text = "; ".join(_cell(item) for item in value)
    return text if len(text) <= _LONGEST else f"{len(value):,} values; use --json"


def model_rows(model: Model) -> Iterator[tuple[str, str]]:
    """Yield what was read of a model as pairs of a figure and its text, leaving out what it has not."""
    yield (
        "counted",
        f"{units.count(model.parameters)} parameters, {units.count(model.active_parameters)} active per token",
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
    mixer = MIXER_WORDS[kind.mixer].label
    if MIXER_WORDS[kind.mixer].figures == (SOFTMAX,):
        mixer += f" ({_heads(model.heads_of(kind))})"
    if kind.compression > 1:
        mixer += f" ({kind.compression} to one)"
    if kind.mixer == "sparse" and not kind.indexed:
        mixer += " chosen by another layer"
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
