"""Requests to the page and to its interface for programs."""

from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

from fuzzing import raw, values
from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import as_json, written
from fuzzing.readers.scenarios import known_scenarios
from fuzzing.trees import Corpus

_ADDRESSES: Final = ("predict", "explain", "plan", "serve", "explore", "runs", "watch", "validate", "catalog")
_JSON: Final = "application/json"
_DEEP: Final = b'{"model": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def pages() -> Maker:
    """Bodies in JSON, addresses of views with their fields, and jobs."""
    corpus = Corpus(known_scenarios())

    def program(rng: Random) -> Input:
        """A request as programs send it; long work would go on after the answer, so that it is not begun here."""
        tree: Any = corpus.draw(rng)
        if rng.random() < 0.3:
            tree = {
                "scenario": tree,
                "options": rng.choice([{}, values.anything(rng), {"objective": values.scalar(rng)}]),
            }
        _, content = written(rng, tree, ".json")
        if rng.random() < 0.02:
            content = rng.choice([_DEEP, raw.noise(rng), b" " * 1_999_999, b"9" * 100_000, as_json([tree] * 100)])
        kind = _JSON if rng.random() < 0.95 else values.text(rng)
        return _sent("POST", f"/api/v1/{rng.choice(['predict', 'predict', 'explain'])}", content, kind)

    def view(rng: Random) -> Input:
        tree = corpus.draw(rng)
        pairs = [pair for pair in _fields(tree) if rng.random() < 0.9]
        pairs += [
            (rng.choice(["more", "config", "fragment", "wide", "kind", "name", "run", "a", "b"]), values.text(rng))
        ]
        query = urlencode(
            [(key, value[:2_000].encode("utf-8", "replace").decode()) for key, value in pairs], errors="replace"
        )
        name = rng.choice(_ADDRESSES) if rng.random() < 0.9 else quote(values.text(rng)[:100], errors="replace")
        return _sent("GET", f"/{name}?{query[:30_000]}", b"", "")

    def make(rng: Random) -> Input:
        return program(rng) if rng.random() < 0.6 else view(rng)

    return make


def _sent(method: str, address: str, body: bytes, kind: str) -> Input:
    header = kind.encode("ascii", "replace").decode().translate(dict.fromkeys(range(32))).strip()
    return Input(verb="request", arguments=(method, address, header), files={"body": body})


def _fields(tree: Any, within: str = "") -> list[tuple[str, str]]:
    if not isinstance(tree, dict):
        try:
            return [(within, str(tree))]
        except ValueError:  # an integer that Python does not write
            return [(within, "1e9999")]
    return [pair for name, inner in tree.items() for pair in _fields(inner, f"{within}.{name}".lstrip("."))]
