"""Mutations of parsed files: what a mapping of mappings and lists becomes when something is wrong with it."""

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any, TypeAlias

from fuzzing import values

Place: TypeAlias = tuple[Any, Any]
"""A container, and the key or index of a value in it."""


class Corpus:
    """Right documents, and which values their keys have: a wrong value is often right elsewhere."""

    def __init__(self, documents: Sequence[Any]) -> None:
        """Look at all documents."""
        self.documents = documents
        self.known: dict[str, list[Any]] = {}
        for document in documents:
            for within, key in places(document):
                self.known.setdefault(str(key), []).append(within[key])
        self.keys = sorted(self.known)

    def draw(self, rng: Random) -> Any:
        """Return a mutated document; one in forty is right."""
        document = copy.deepcopy(rng.choice(self.documents))
        return document if rng.random() < 1 / 40 else self.mutated(rng, document)

    def mutated(self, rng: Random, document: Any) -> Any:
        """Return a document of which a few places have changed; it may change itself."""
        box = [document]
        for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
            at = rng.choice(list(places(box)) or [([None], 0)])
            mutation = rng.choice(_MUTATIONS)
            try:
                mutation(rng, self, at)
            except (TypeError, ValueError, IndexError, ArithmeticError):  # of another type than the mutation is for
                _replace(rng, self, at)
        return box[0] if box else None


def places(value: Any) -> Iterator[Place]:
    """Yield every place of a document, from the outside in."""
    waiting = [value]
    while waiting:
        within = waiting.pop()
        for key in list(within) if isinstance(within, dict) else range(len(within)):
            yield within, key
            if isinstance(within[key], dict | list):
                waiting.append(within[key])


def _replace(rng: Random, _: Corpus, at: Place) -> None:
    within, key = at
    within[key] = values.anything(rng)


def _known(rng: Random, corpus: Corpus, at: Place) -> None:
    """A value that the key has in some other document."""
    within, key = at
    within[key] = copy.deepcopy(rng.choice(corpus.known.get(str(key)) or corpus.known[rng.choice(corpus.keys)]))


def _moved(rng: Random, corpus: Corpus, at: Place) -> None:
    """The value of some other key."""
    within, key = at
    within[key] = copy.deepcopy(rng.choice(corpus.known[rng.choice(corpus.keys)]))


def _added(rng: Random, corpus: Corpus, at: Place) -> None:
    """A key of some other place, with a value of it or another."""
    within, _ = at
    key = rng.choice(corpus.keys)
    value = copy.deepcopy(rng.choice(corpus.known[key])) if rng.random() < 0.7 else values.anything(rng)
    if isinstance(within, dict):
        within[key] = value
    else:
        within.insert(rng.randint(0, len(within)), value)


def _removed(_: Random, __: Corpus, at: Place) -> None:
    within, key = at
    del within[key]


def _repeated(rng: Random, _: Corpus, at: Place) -> None:
    """A value once more, or a small one often: what is repeated of what was repeated would have no end."""
    within, key = at
    if isinstance(within, list):
        is_small = len(within) < 1_000 and len(list(islice(places([within[key]]), 30))) < 30
        within[key:key] = [within[key]] * (rng.choice([1, 2, 1_000]) if is_small else 1)
    else:
        within[f"{key} "] = copy.deepcopy(within[key])


def _renamed(rng: Random, _: Corpus, at: Place) -> None:
    within, key = at
    if isinstance(within, dict):
        word = str(key)
        cut = rng.randint(0, len(word))
        within[rng.choice([word[:cut] + word[cut + 1 :], word.upper(), f".{word}", values.text(rng)])] = within.pop(key)
    else:
        within.reverse()


def _scaled(rng: Random, _: Corpus, at: Place) -> None:
    """A number that is near in meaning and far in size, or of another type."""
    within, key = at
    value = within[key]
    if not isinstance(value, int | float):
        _retyped(rng, _, at)
        return
    within[key] = values.one_of(
        rng,
        [
            lambda: -value,
            lambda: value * rng.choice([2, 3, 1_000, 10**6, 10**12, 10**30]),
            lambda: value / rng.choice([2, 3, 1_000, 10**9]),
            lambda: value + rng.choice([1, -1, 0.5]),
            lambda: str(value),
            lambda: f"{value} {rng.choice(values.UNITS)}",
            lambda: float(value),
        ],
    )


def _nested(rng: Random, _: Corpus, at: Place) -> None:
    within, key = at
    value = within[key]
    within[key] = rng.choice([[value], {"any": [value]}, {"from": value, "to": value}, values.deep(rng, value)])


def _flattened(rng: Random, _: Corpus, at: Place) -> None:
    """What a container holds instead of it."""
    within, key = at
    inner = within[key]
    within[key] = rng.choice(list(inner.values()) if isinstance(inner, dict) else inner)


def _retyped(rng: Random, _: Corpus, at: Place) -> None:
    """A text with something in, before or behind it."""
    within, key = at
    word = str(within[key])
    cut = rng.randint(0, len(word))
    within[key] = word[:cut] + rng.choice(["", values.text(rng), word[cut:] * 2]) + word[cut + rng.randint(0, 2) :]


_MUTATIONS: Sequence[Callable[[Random, Corpus, Place], None]] = (
    *(_replace, _replace, _known, _known, _moved, _added, _added, _removed, _repeated),
    *(_renamed, _scaled, _scaled, _scaled, _nested, _flattened, _retyped),
)
