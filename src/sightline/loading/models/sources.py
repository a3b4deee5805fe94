"""Where a scenario's model comes from: a name of the catalog, a ``config.json`` or its folder, or an inline mapping."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.loading.input.no_files import files_allowed
from sightline.loading.input.paths import stated_path
from sightline.loading.input.sources import read_json, read_text
from sightline.loading.models.config import ReadModel, read_model
from sightline.quantities import show


def resolve_model(value: str | Mapping[str, Any], folder: Path) -> ReadModel:
    """Return the model that ``value`` stands for; paths are relative to ``folder``.

    Raise `InputError` with every mistake.
    """
    if isinstance(value, str) and value in catalog.names("models"):
        return _of_catalog(value)
    written = value if isinstance(value, Mapping) else {}
    base = value if isinstance(value, str) else value.get("same_as")
    config, name = _published(base, folder) if base is not None else ({}, "")
    return read_model({**config, **written}, name=name, written=written)


@cache
def _of_catalog(name: str) -> ReadModel:
    return read_model(catalog.entry("models", name), name=name)


def _published(value: object, folder: Path) -> tuple[Mapping[str, Any], str]:
    """A config of the catalog or of a file, and the model's name."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"model is {show(value)}; allowed: a name of the catalog, a path or a mapping")
    if value in catalog.names("models"):
        return catalog.entry("models", value), value
    try:
        path = stated_path(folder, str(Path(value).expanduser()))
        if files_allowed() and path.is_dir():
            path /= "config.json"
        found = files_allowed() and path.is_file()
    except (OSError, ValueError, RuntimeError):
        found = False
    if not found and (named := _without_vendor(value)) in catalog.names("models"):
        return catalog.entry("models", named), named
    if not found:
        raise InputError(_not_found(value))
    config = {**_stored_formats(path.parent), **_config(path)}
    return config, path.parent.resolve().name if path.name == "config.json" else path.stem


def _without_vendor(value: str) -> str:
    """The name that is written, also behind its repository's vendor: of meta-llama/Meta-Llama-3-8B it is llama-3-8b."""
    vendor, slash, name = value.rpartition("/")
    if slash and ("/" in vendor or not vendor.strip("~.")):
        return ""
    found = catalog.name_of("models", name)
    brand = f"{vendor.partition('-')[0].lower()}-"
    return found if found in catalog.names("models") else found.lower().removeprefix(brand)


def _stored_formats(folder: Path) -> Mapping[str, Any]:
    """The formats that ModelOpt wrote into a file next to the config."""
    path = folder / "hf_quant_config.json"
    stated = _config(path).get("quantization") if path.is_file() else None
    return {"quantization_config": stated} if isinstance(stated, Mapping) else {}


def _config(path: Path) -> Mapping[str, Any]:
    text = read_text(path)
    try:
        config = read_json(text, infinities=True)
    except InputError as error:
        raise InputError([f"{path}: {problem}" for problem in error.problems]) from None
    if not isinstance(config, Mapping):
        raise InputError(f"{path} is not a model's config: it holds {show(config)}, not a mapping")
    return config


def _not_found(value: str) -> str:
    """A path that is not there, or a name that the catalog lacks; repository names lose their vendor and suffix."""
    known = catalog.names("models")
    spelled = value.rsplit("/", 1)[-1].lower().removesuffix(".json").removesuffix("-hf").removesuffix("-instruct")
    near = f" - did you mean '{spelled}'?" if spelled in known else nearest(spelled, known)
    if not files_allowed():
        return f"model is {show(value)}; allowed: a name of the catalog, or a mapping; files are not opened here{near}"
    if value.lower().endswith(".json"):
        return f"model is {show(value)}, and there is no such file; paths are relative to the scenario's{near}"
    return (
        f"model is {show(value)}; allowed: a name of the catalog (`sightline catalog models`), "
        f"the path of a config.json or of its folder, or a mapping{near}"
    )
