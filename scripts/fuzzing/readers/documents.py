"""Trees as files: YAML, JSON, TOML, and lines of JSON; texts that no tree becomes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from fuzzing import raw

ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "examples"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's, for files that are right."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """PyYAML's, which writes what is the same object twice as an alias."""


def read_yaml(path: Path) -> list[Any]:
    """Return the documents of a file of the repository."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), _Loader))


def as_yaml(tree: Any) -> bytes:
    """Return a tree as YAML."""
    text: str = yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return text.encode("utf-8", "surrogatepass")


def as_json(tree: Any) -> bytes:
    """Return a tree as JSON, also with what JSON lacks: NaN, infinities and keys twice."""
    return json.dumps(tree, skipkeys=True, default=str).encode()


def as_lines(tree: Any) -> bytes:
    """Return a list as lines of JSON."""
    rows = tree if isinstance(tree, list) else [tree]
    return b"".join(as_json(row) + b"\n" for row in rows)


FORMS: Final[Mapping[str, Callable[[Any], bytes]]] = {".yaml": as_yaml, ".json": as_json, ".jsonl": as_lines}


def written(rng: Random, tree: Any, *suffixes: str) -> tuple[str, bytes]:
    """Return a suffix and a tree as text of it; one in four is damaged as a text too."""
    suffix = rng.choice(suffixes)
    try:
        content = FORMS[suffix](tree)
    except (RecursionError, ValueError, TypeError, yaml.YAMLError):  # the tree is too odd to be written
        content = b"[" * 5_000
    if rng.random() < 0.25:
        content = raw.mutated(rng, content)
    return suffix, content


def yaml_text(rng: Random) -> bytes:
    """Return a text that YAML reads into far more, or far deeper, than is written; or that means something special."""
    depth = rng.choice([5, 30, 1_000])
    aliases = "".join(f"a{n}: &a{n} [{'x' if not n else f'*a{n - 1}, *a{n - 1}'}]\n" for n in range(depth))
    merged = "".join(f"b{n}: &b{n} {{<<: [{'' if not n else f'*b{n - 1}'}], k{n}: 1}}\n" for n in range(depth))
    return rng.choice(
        [
            f"{aliases}model: *a{depth - 1}\ncluster: *a{depth - 1}\nplan: {{offload: *a{depth - 1}}}\n",
            f"{merged}model: *b{depth - 1}\nworkload: *b{depth - 1}\n",
            "model: &m {same_as: *m}\ncluster: *m\n",
            "model: llama-2-7b\ncluster: 8x a100-sxm-80gb\nplan: &p {tensor_parallel: *p}\n",
            "? [a, b]\n: 1\n? {x: 1}\n: 2\n",
            "!!python/object/apply:os.system [ls]\n",
            "--- a\n" * depth,
            "-" * depth + " x\n",
            "- " * depth + "x\n",
            "{a: " * depth + "1" + "}" * depth,
            "sweep:\n" + "".join(f"  plan.k{n}: [{', '.join(map(str, range(depth)))}]\n" for n in range(5)),
            "a: |\n" + " x\n" * depth,
            "a: !!binary gg\nb: !!set {x, y}\nc: !!omap [a: 1]\n",
            "%YAML 9.9\n---\na: 1\n",
        ]
    ).encode()
