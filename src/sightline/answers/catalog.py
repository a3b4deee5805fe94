"""The catalog as text: its kinds, the entries of a kind, one entry with the source of each figure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sightline.answers import units
from sightline.answers.outline import Lines, Link, Links, Outline, Part, Rows
from sightline.content import flatten
from sightline.quantities import BYTES_PER_SECOND, format_quantity
from sightline.scenario import Heads, LayerKind, Model
from sightline.scenario.blocks import MIXER_WORDS, SOFTMAX

KINDS = ("on-demand", "reserved", "spot")
"""Ways to rent, as offers name them."""


def price_columns(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the price of every device in USD per hour that predictions take, and the ranges of what is listed."""
    ranges = [[_range(price, kind) for price in entries.values()] for kind in KINDS]
    ranges[0] = [found or str(price["evidence"]) for found, price in zip(ranges[0], entries.values(), strict=True)]
    return {
        "$/hour": list(map(_amount, entries.values())),
        **dict(zip(("on demand", "reserved", "spot"), ranges, strict=True)),
        "as of": [str(price["date"]) for price in entries.values()],
    }


def _range(price: Mapping[str, Any], kind: str) -> str:
    """The lowest and the highest offer of a kind; empty where there is none."""
    listed = sorted((_amount(offer) for offer in price.get("offers", ()) if offer["kind"] == kind), key=float)
    return " - ".join(dict.fromkeys((listed[0], listed[-1]))) if listed else ""


def _amount(priced: Mapping[str, Any]) -> str:
    """Dollars per hour to the cent, as the column's heading has the unit."""
    return f"{float(str(priced['price']).removesuffix(' USD/hour')):.2f}"


_ORDERS: Mapping[str, tuple[str, ...]] = {
    "memories": ("family", "year"),
    "links": ("scope", "year"),
    "launches": ("date",),
}
"""What lists are sorted by; by name where that is the same."""


def in_time(kind: str, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a kind in the order of a list, those of technology with the figures that follow."""
    if kind == "nodes":
        from sightline.technology.parts import node_names

        return {name: entries[name] for name in node_names() if name in entries}
    follow = _FOLLOWING.get(kind)
    keys = _ORDERS.get(kind, ())
    ordered = sorted(entries.items(), key=lambda one: ([str(one[1].get(key, "")) for key in keys], one[0]))
    return {name: fields if follow is None else {**fields, **follow(name)} for name, fields in ordered}


def _memory(name: str) -> dict[str, str]:
    from sightline.technology.parts import memory

    return {"bandwidth": format_quantity(float(memory(name).bandwidth), BYTES_PER_SECOND)}


def _link(name: str) -> dict[str, str]:
    from sightline.technology.parts import link

    found = link(name)
    if found.usual_count is None:
        return {}
    return {"device_bandwidth": format_quantity(float(found.usual_count * found.bandwidth), BYTES_PER_SECOND)}


def _launch(name: str) -> dict[str, str]:
    from sightline.technology.launches import launch

    found = launch(name)
    return {} if found.price_usd is None else {"gflops_per_usd": units.digits(found.fp32 / found.price_usd / 1e9)}


_FOLLOWING: Mapping[str, Callable[[str], dict[str, str]]] = {"memories": _memory, "links": _link, "launches": _launch}
"""By kind, the figures that follow from an entry's own, as texts."""
_WORDS = {
    "bandwidth": "bandwidth of one stack or chip",
    "device_bandwidth": "of all links of a device, per direction",
    "gflops_per_usd": "GFLOP/s in fp32 per USD",
}


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
    "nodes": {
        "year": "year",
        "logic": "vendor.logic_density",
        "SRAM": "vendor.sram_density",
        "energy relative to 7 nm": "vendor.energy",
        "speed relative to 7 nm": "vendor.speed",
        "wafer": "wafer_price",
    },
    "dies": {
        "node": "node",
        "area": "die_area",
        "units": "units",
        "enabled": "enabled_units",
        "clock": "frequency",
        "memory": "memory",
        "stacks": "stacks",
    },
    "memories": {
        "year": "year",
        "per pin": "pin_rate",
        "pins": "pins",
        "per stack or chip": "bandwidth",
        "capacity": "capacity",
        "energy": "energy",
        "die edge": "edge",
        "die area": "area",
    },
    "links": {
        "year": "year",
        "per link": "bandwidth",
        "lanes": "lanes",
        "per device": "device_bandwidth",
        "energy": "energy",
        "die edge": "edge",
        "die area": "area",
        "latency": "latency",
    },
    "launches": {
        "date": "date",
        "price": "price",
        "fp32 TFLOP/s": "fp32",
        "fp16 matrix TFLOP/s": "fp16",
        "memory": "memory",
        "bandwidth": "memory_bandwidth",
        "tdp": "tdp",
        "node": "node",
        "GFLOP/s per USD": "gflops_per_usd",
    },
}
"""Figures worth a column by kind, under their headings; of several keys the first that an entry has is shown."""

_UNITS = {"price": " USD/hour", "peak_flops": "FLOP/s", "fp32": " TFLOP/s", "fp16": " TFLOP/s"}
"""Units that a list's heading already has, by the beginning of the key."""

_LONGEST = 2000
"""Characters beyond which a text is data for programs, such as a packed table."""

_ABOUT = ("source", "sources", "date", "evidence", "evidences")


Address = Callable[[str, str], str]
"""Returns the address that shows a kind, or an entry of it."""
_SHOWN = 4
"""Names of a kind that stand for the others."""


def kinds_outline(listing: Mapping[str, Sequence[str]], address: Address | None = None) -> Outline:
    """Return the kinds with their number of entries and a few names; on pages each leads to its entries."""
    rows = [
        (
            Link(kind, address(kind, "")) if address else kind,
            f"{len(names):,}",
            ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN),
        )
        for kind, names in listing.items()
    ]
    table = Rows(headings=("kind", "entries", "for example"), rows=rows, numbers=False)
    return Outline(parts=[table])


def entries_outline(
    kind: str, entries: Mapping[str, Mapping[str, Any]], address: Address | None = None, word: str = ""
) -> Outline:
    """Return the entries of a kind, one line each, with their main figures; of those that have a ``word`` in it."""
    is_price = kind == "prices"
    ordered = entries if is_price else in_time(kind, entries)
    columns = price_columns(entries) if is_price else columns_of(kind, ordered)
    lines = zip(ordered, *columns.values(), strict=True)
    found = [line for line in lines if word.lower() in " ".join(line).lower()]
    said = f"{len(found):,} of {len(entries):,} {kind}" if word else f"{len(entries):,} {kind}"
    is_listed = is_price or kind in COLUMNS
    table = Rows(
        headings=("name", *columns),
        rows=[(Link(name, address(kind, name)) if address else name, *cells) for name, *cells in found],
        numbers=[False, *[is_price] * len(columns)] if is_listed else False,
        least=["as of"],
    )
    return Outline(about=[said] if address else (), parts=[table])


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


def entry_outline(kind: str, name: str, fields: Mapping[str, Any], links: Sequence[Link] = ()) -> Outline:
    """Return one entry: what it is read as, each figure, and where it comes from when that is not its own source."""
    is_price = kind == "prices"
    figures = figures_of({key: fields[key] for key in fields if not (is_price and key == "offers")})
    differs = any(note for _, _, note in figures)
    return Outline(
        title=name,
        about=[about(fields)],
        parts=[
            Links(links=links),
            Rows(title="Derived", headings=("", ""), rows=meaning_of(kind, name), numbers=False),
            *([_offers(fields)] if is_price else []),
            Rows(
                title="Figures",
                headings=("figure", "value", *(["source, if different"] if differs else [])),
                rows=figures if differs else [row[:2] for row in figures],
                numbers=False,
            ),
        ],
    )


def _offers(price: Mapping[str, Any]) -> Rows:
    """What providers list for a device."""
    rows = [
        (f"{offer['provider']}: {offer['source']}", str(offer["kind"]), str(offer["date"]), _amount(offer))
        for offer in price.get("offers", ())
    ]
    headings = ("provider and source", "kind", "date", "$/hour")
    return Rows(title="Offers", headings=headings, rows=rows, numbers=[False, False, False, True])


def meaning_of(kind: str, name: str) -> list[tuple[str, str]]:
    """Return what an entry is read as, where its own keys say it only to those who know the family."""
    if kind != "models":
        follow = _FOLLOWING.get(kind)
        return [(_WORDS[key], text) for key, text in follow(name).items()] if follow else []
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
    if (mixer := model.linear or model.state_space or model.convolution) and mixer.state_elements:
        yield "state", f"{mixer.state_elements:,} elements per sequence and layer"
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


_ANCHOR = {"models": "model", "clusters": "cluster", "frameworks": "framework", "created": "saved"}


def anchors_outline(anchors: Sequence[Mapping[str, Any]]) -> Outline:
    """Return a line for each saved anchor."""
    rows = [(str(anchor["name"]), *(_stated(anchor.get(key)) for key in _ANCHOR)) for anchor in anchors]
    table = Rows(headings=("anchor", *_ANCHOR.values()), rows=rows, numbers=False)
    return Outline(parts=[table])


def anchor_outline(anchor: Mapping[str, Any]) -> Outline:
    """Return one anchor: what it was measured on, what was measured, and what that corrects."""
    measured = [
        f"measured {key}: {units.seconds(value)}"
        for one in anchor.get("measurements", ())
        for key, value in one["measured"].items()
    ]
    return Outline(
        title=str(anchor["name"]),
        about=[f"{label}: {_stated(anchor.get(key))}" for key, label in _ANCHOR.items()],
        sentences=measured,
        parts=[part for entry in anchor.get("taught", ()) for part in _corrections(entry)],
    )


def _corrections(entry: Mapping[str, Any]) -> Iterator[Part]:
    rows = [
        (
            str(one["constant"]),
            *(units.digits(float(one[key])) for key in ("assumed", "value")),
            " to ".join(units.digits(float(end)) for end in one["interval"]),
        )
        for one in entry["learned"]
    ]
    yield Lines(lines=[str(entry["sentence"])])
    yield Rows(headings=("constant", "assumed", "your value", "80 %"), rows=rows)


def _stated(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "-")
