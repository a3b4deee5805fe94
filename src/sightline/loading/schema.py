"""The JSON schema of scenario files and the reference of their keys, both made of what descriptions declare.

``python -m sightline.loading.schema`` prints the schema.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from json import dumps
from typing import Any, Final, get_args

from sightline import validators
from sightline.loading.clusters.hardware import DEVICE, HOST, INTERCONNECT, NETWORK
from sightline.loading.models.family import MODEL
from sightline.loading.operations import OPERATORS
from sightline.loading.parts import MEASURED, SCENARIO
from sightline.loading.plans import POOL, TASKS
from sightline.scenario import Cluster, Generate, GenerationPlan, Model, Plan, Pretrain, Serve

Schema = dict[str, Any]
_SEVERAL: Final = {"$ref": "#/definitions/several"}
_RESTRICTION: Final[Schema] = {
    "description": "Several values that a search may choose from.",
    "type": "object",
    "properties": {"any": {"type": "array"}, **{key: {"type": "number"} for key in ("from", "to", "factor")}},
    "additionalProperties": False,
}


def schema() -> Schema:
    """Return the JSON schema of a scenario file, by which editors complete and check its keys."""
    pools = {"prefill": _object(_properties(POOL)), "decode": _object(_properties(POOL))}
    task = {"description": "What is asked.", "enum": list(TASKS)}
    operators = {key: kind for asked in OPERATORS.values() for key, kind in asked.keys.items()}
    operators["operator"] = validators.choice(*OPERATORS)
    workload = {**_properties(operators), **_searched(Serve, Generate, Pretrain), "task": task}
    plan = _searched(GenerationPlan, Plan) | {
        "framework": {
            "description": "A training framework or an inference engine, or {like: NAME} for a framework of your own.",
            "anyOf": [{"type": "string"}, _object({"like": {"type": "string"}})],
        },
        "framework_version": {"description": "A release line, a release or a date.", "type": ["string", "number"]},
        "disaggregate": {
            "description": "Separate workers for prefill and decode.",
            "anyOf": [_object(pools), {"enum": ["none", False]}],
        },
    }
    hardware = {part.key: _or_name(_object(_properties(part.keys, _texts(part.description)))) for part in _PARTS}
    cluster = {**_described(Cluster), **hardware}
    scenario = _properties(SCENARIO) | {
        "model": _or_name({"type": "object", "properties": _properties(MODEL, _texts(Model))})
        | _description("A model of the catalog, a path of Hugging Face, or the keys of a config.json."),
        "cluster": _or_name(_object(cluster))
        | _description("Devices as 8x h100, a cluster of the catalog, or its parts written out."),
        "workload": _object(workload),
        "plan": _object(plan),
        "measured": _object(_properties(MEASURED)) | {"patternProperties": {r"^\w+\.\w": {}}},
        "unread": {
            "description": "What was not understood of the launch that it comes from.",
            "type": ["array", "string"],
        },
        "sweep": {"description": "Lists of values by dotted key.", "type": "object"},
    }
    one = {"$ref": "#/definitions/scenario"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Sightline scenario",
        "anyOf": [one, {"type": "array", "items": one}],
        "definitions": {"scenario": _object(scenario), "several": _RESTRICTION},
    }


_PARTS: Final = (DEVICE, INTERCONNECT, NETWORK, HOST)


def reference(description: Any, above: str = "", *, defaults: bool = True) -> Iterator[tuple[str, str, str]]:
    """Yield each key of a description in Markdown, with the values that it takes and what it means.

    Keys of descriptions within it follow theirs, as ``arrival.rate``. Without ``defaults`` those of the description
    itself are left out: the frameworks have their own.
    """
    by_name = {field.name: field for field in fields(description)}
    for key, (name, kind) in validators.declared(description).items():
        meaning, field = _texts(description).get(key, "").replace("``", "`").rstrip("."), by_name[name]
        needed = isinstance(kind, validators.Needed)
        if defaults and not needed and isinstance(field.default, str | int | float) and "default:" not in meaning:
            usual = f"{field.default:g}" if isinstance(field.default, float) else str(field.default).lower()
            meaning = f"{meaning} (default: {usual})"
        yield f"`{above}{key}`", values_of(kind), meaning
        nested = _inner(field.type)
        if nested is not None:
            yield from reference(nested, f"{above}{key}.")


def values_of(kind: validators.Kind) -> str:
    """Return in Markdown the values that a kind takes; empty where its meaning says them."""
    match kind:
        case validators.Needed():
            return values_of(kind.kind)
        case validators.choice():
            return ", ".join(f"`{value}`" for value in kind.values)
        case validators.whole():
            return f"{kind.low} and more"
        case validators.quantity():
            return f"{kind.dimension.name}, as `{kind.dimension.example}`" if kind.dimension.base else "a number"
    words: Mapping[validators.Kind, str] = {
        validators.flag: "true, false",
        validators.fraction: "0 to 1",
        validators.text: "text",
    }
    return words.get(kind, "")


def _searched(*descriptions: type) -> Schema:
    """The schemas of keys that may state several values, as a search takes them."""
    found = {key: one for description in descriptions for key, one in _described(description).items()}
    return {key: {"anyOf": [one, _SEVERAL], **_description(one.pop("description", ""))} for key, one in found.items()}


def _described(description: Any) -> Schema:
    """The schema of each key of a description."""
    annotations = {field.name: field.type for field in fields(description)}
    found = _properties(validators.keys_of(description), _texts(description))
    for key, (field, _) in validators.declared(description).items():
        nested = _inner(annotations[field])
        if nested is not None:
            one = _object(_described(nested))
            others = {"type": ["string", "number", "boolean", "null"]}
            found[key]["anyOf"] = [one, {"type": "array", "items": {"anyOf": [one, others]}}, others]
    return found


def _inner(annotation: Any) -> Any:
    """The description with keys that a field holds, alone or in a tuple; None for any other field."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        return annotation if validators.declared(annotation) and not hasattr(annotation, "to_dict") else None
    return next((found for part in get_args(annotation) if (found := _inner(part))), None)


def _properties(keys: validators.Keys, texts: Mapping[str, str] | None = None) -> Schema:
    return {key: {**_description((texts or {}).get(key, "")), **_of_kind(kind)} for key, kind in keys.items()}


def _description(said: str) -> Schema:
    return {"description": said.replace("``", "")} if said else {}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _or_name(whole_one: Schema) -> Schema:
    """The schema of a part that may be a name of the catalog."""
    return {"anyOf": [{"type": "string"}, whole_one, _SEVERAL]}


def _of_kind(kind: validators.Kind) -> Schema:
    """The schema of a kind of values; empty for one that takes several forms."""
    match kind:
        case validators.Needed():
            return _of_kind(kind.kind)
        case validators.choice():
            return {"enum": list(kind.values)}
        case validators.tokens():
            return {"type": ["integer", "string"]}
        case validators.whole():
            return {"type": "integer", "minimum": kind.low, "maximum": kind.high}
        case validators.quantity():
            return {"type": ["number", "string"], "examples": [kind.dimension.example]}
    simple: Mapping[validators.Kind, Schema] = {
        validators.flag: {"type": "boolean"},
        validators.fraction: {"type": "number", "minimum": 0, "maximum": 1},
        validators.text: {"type": ["string", "number"]},
    }
    return dict(simple.get(kind, {}))


@cache
def _texts(description: Any) -> Mapping[str, str]:
    """What stands under each field of a description, by key: Python itself does not keep it."""
    texts: dict[str, str] = {}
    for kind in reversed(description.__mro__[:-1]):
        tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
        body = next(
            node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__
        )
        texts |= dict(_under_fields(body))
    return {key: texts[field] for key, (field, _) in validators.declared(description).items() if field in texts}


def _under_fields(body: Sequence[ast.stmt]) -> Iterable[tuple[str, str]]:
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            said = getattr(below.value, "value", "")
            yield field.target.id, " ".join(str(said).split())


if __name__ == "__main__":
    sys.stdout.write(dumps(schema(), indent=1) + "\n")
