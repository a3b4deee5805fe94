"""Files of others that are given in place of a scenario: what they are, and what takes them."""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from sightline import catalog
from sightline.errors import InputError
from sightline.folders import located
from sightline.loading.parts import SCENARIO
from sightline.loading.sources import Source, read_source
from sightline.loading.traces.clients import client_of
from sightline.loading.traces.shapes import SHAPES

_IMPORT: Final = "use `sightline import {file}`"
_TRACE: Final = "use `sightline simulate --model NAME --cluster CLUSTER --set workload.trace={file}`"
_RESULT: Final = "use `sightline simulate SCENARIO --anchor {file}@SCENARIO`"


class _Form(NamedTuple):
    """What a file of others is, the keys by which it is known, and what takes it."""

    name: str
    keys: frozenset[str]
    use: str


def _form(name: str, keys: str, use: str) -> _Form:
    return _Form(name, frozenset(keys.split()), use)


MODEL: Final = _form("a Hugging Face config", "architectures model_type", "use --model {file}")
FORMS: Final = (
    _form("a LLaMA-Factory configuration", "finetuning_type model_name_or_path stage", _IMPORT),
    _form("an axolotl configuration", "base_model", _IMPORT),
    MODEL,
    _form("a DeepSpeed configuration", "zero_optimization train_micro_batch_size_per_gpu train_batch_size", _IMPORT),
    _form("an accelerate configuration", "compute_environment distributed_type", _IMPORT),
    _form("a Kubernetes or Docker Compose file", "apiVersion services", _IMPORT),
    _form("a profiler trace", "traceEvents", "use `sightline explain {file}`"),
    _form("an adapter's configuration", "peft_type", "use --model with its base model and --set plan.adapter=lora"),
    _form("a part of a model", "weight_map tokenizer_class _from_model_config", "use --model with its folder"),
)
"""Forms of mappings, in the order in which they are tried: each has one of its keys."""
_TEXTS: Final = (
    _form("a launch script", r"(?s)#!.*|.*^[^:,#\n]*\b(?:torchrun|deepspeed|accelerate)\s.*", _IMPORT),
    _form("a torchtitan configuration", r"(?s).*^\[(?:model|training|parallelism)\]\s*$.*", _IMPORT),
    _form("a profiler trace", r'(?s).*"traceEvents".*', "use `sightline explain {file}`"),
    _form("a request trace", r'(?s)\s*\{"[^\n]*(?:input_length|prompt_tokens|output_length)"[^\n]*\}\s*\n.*', _TRACE),
)
"""Forms of texts that are no YAML, JSON or CSV; their key is a pattern of their first kilobytes."""
_FOLDERS: Final = {
    "config.json": MODEL,
    "launch.sh": _form("the folder of a launch", "", _IMPORT),
    "run.json": _form("the folder of a measured run", "", "use `sightline predict {file}/run.json`"),
}
"""What a folder is, by a file in it."""
_ENDINGS: Final = dict(zip((".sh", ".toml", ".gz", ".jsonl"), _TEXTS, strict=True)) | {
    ".parquet": _TEXTS[3],
    **dict.fromkeys((".safetensors", ".gguf", ".bin", ".pt"), FORMS[-1]),
}
_HEAD: Final = 2**16


def read_known(source: object, *, skip_invalid: bool = False) -> Source:
    """Return what `read_source` reads; raise `InputError` that names what takes a file of another form."""
    is_path = isinstance(source, Path) or (isinstance(source, str) and source != "-" and "\n" not in source)
    try:
        read = read_source(source, skip_invalid=skip_invalid)
    except InputError:
        if is_path and (said := of_path(Path(str(source)))):
            raise InputError(said) from None
        raise
    # The first row of a table, as its others are.
    first = next(islice((document.mapping for document in read.documents), 1), None)
    if form := of_mapping(first):
        raise InputError(_said(form, read.documents[0].place or "this"))
    if is_path and isinstance(first, str) and (said := of_path(Path(str(source)))):
        raise InputError(said)
    return read


def of_mapping(mapping: Any) -> _Form | None:
    """Return which form of others a mapping has; None for a scenario, and where nothing is known of it."""
    keys = frozenset(map(str, mapping)) if isinstance(mapping, Mapping) else frozenset()
    if not keys or {key.partition(".")[0] for key in keys} & {*SCENARIO, "sweep"}:
        return None
    shape = next((shape for shape in SHAPES if shape.fits(list(keys))), None)
    if shape is not None:
        return _Form(shape.name.partition(":")[0] or "a request trace", keys, _TRACE)
    if client := client_of(mapping):
        return _Form(client.name, keys, _TRACE if client.columns else _RESULT)
    return next((form for form in FORMS if form.keys & keys), None)


def of_file(path: Path, wanted: str) -> str:
    """Return what is said of a file that is not what is ``wanted``; empty where it may be, or is unknown."""
    mapping: Any = None
    with suppress(InputError):
        mapping = read_source(path).documents[0].mapping
    if not isinstance(mapping, Mapping):
        return of_path(path, wanted)
    if len({str(key).partition(".")[0] for key in mapping} & {*SCENARIO}) > 1:
        return f"{path} is a scenario, not {wanted}: use `sightline predict {path}`"
    form = of_mapping(mapping)
    return _said(form, str(path), wanted) if form and not (form is MODEL and wanted == "a model") else ""


def of_path(path: Path, wanted: str = "a scenario") -> str:
    """Return what is said of a path that holds not what is ``wanted``; empty where nothing is known of it."""
    form, name = _ENDINGS.get(path.suffix.lower()), str(path)
    found = located(path)
    with suppress(OSError, ValueError):
        if found.is_dir():
            held = next((form for file, form in _FOLDERS.items() if (found / file).is_file()), None)
            return _said(held, name, wanted) if held else ""
        if found.is_file():
            with found.open("rb") as file:
                head = file.read(_HEAD).decode(errors="replace")
            form = form or next((one for one in _TEXTS if re.match(min(one.keys), head, re.MULTILINE)), None)
            return _said(form, name, wanted) if form else ""
    model = catalog.name_of("models", name)
    if model in catalog.names("models"):
        return f"{name} is a model, not a file: use --model {name}"
    return ""


def _said(form: _Form, place: str, wanted: str = "a scenario") -> str:
    file = place.partition(", ")[0]
    return f"{file} is {form.name}, not {wanted}: {form.use.format(file=file)}"
