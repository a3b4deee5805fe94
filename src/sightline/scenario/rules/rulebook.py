"""How rules are written down, worded for one plan and evaluated for many.

A rule is a function whose parameters name facts of a scenario. It yields checks: a mask that is true where a plan is
allowed, and the sentence for a plan that is not. Facts may be arrays that broadcast, so one rule serves the loader,
which reports sentences, and a search, which masks a million plans. A rule runs when all its facts are known: one wrong
value of a file then hides no other mistake and causes no misleading one. The name of the function is the rule's name
in counts of rejected plans and stays as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from inspect import signature
from math import prod
from operator import and_, is_
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import counted

Mask: TypeAlias = bool | np.bool_ | NDArray[np.bool_]


class Check(NamedTuple):
    """What a rule says of the plans: which are allowed, and why one that is not is refused."""

    allowed: Mask
    sentence: str | Callable[[], str]
    """With the rule's facts and ``figures`` in braces, or what words it. That is done for one plan only: wording arrays
    would be slow, and nobody reads it."""
    figures: Mapping[str, Any] = {}


class Beyond(NamedTuple):
    """Words of a sentence about a degree, which are left out where it is 1."""

    words: str
    degree: Any
    figure: Any = None
    """What the words name in addition."""

    def __format__(self, _: str) -> str:
        """The words, with the degree and the figure in place of their braces."""
        return self.words.format(self.degree, self.figure) if self.degree > 1 else ""


class Counted(NamedTuple):
    """A count with its noun in a sentence: 1 device, 8 devices."""

    number: Any
    noun: str = "device"

    def __format__(self, _: str) -> str:
        """The number, and the noun as the number needs it."""
        return counted(self.number, self.noun)


class Broken(str):
    """The sentence for a plan that breaks a rule, with the rule's name, and the field where one alone is wrong."""

    __slots__ = ("field", "rule")

    rule: str
    field: str

    def __new__(cls, sentence: str, rule: str, field: str = "") -> Self:
        """Return the sentence of a rule."""
        said = super().__new__(cls, sentence)
        said.rule, said.field = rule, field
        return said


Checks: TypeAlias = Iterator[Check]
Rule: TypeAlias = Callable[..., Checks]
Facts: TypeAlias = Mapping[str, Any]
"""What is known of a scenario: fields of plan and workload, figures of model and cluster, by name."""
Masks: TypeAlias = dict[Rule, tuple[Sequence[Any], NDArray[np.bool_]]]
"""Masks of rules, each with the facts that it was made of."""


class Verdict(NamedTuple):
    """Which plans of a mesh could run at all, and why the others could not."""

    valid: NDArray[np.bool_]
    """In the shape of the whole mesh."""
    rejected: Mapping[str, int]
    """Plans that break each rule; a plan that breaks several counts for each of them."""


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """Return the rules of a module in order: its functions that return `Checks`."""
    own = (f for f in vars(module).values() if isinstance(f, FunctionType) and f.__module__ == module.__name__)
    return tuple(f for f in own if f.__annotations__["return"] is Checks)


@cache
def needed(rule: Rule) -> tuple[str, ...]:
    """Return the names of the facts that a rule looks at."""
    return tuple(signature(rule).parameters)


_KEPT: Final[dict[Rule, list[Any]]] = {}
"""The facts of the plan by which each rule was last kept."""


def broken_rules(rules: Iterable[Rule], facts: Facts) -> Iterator[Broken]:
    """Yield a sentence for everything that one plan breaks, as far as the facts are known.

    Most facts of a row of a table are those of the row before: a rule that they kept is not asked again.
    """
    for rule in rules:
        try:
            known = [facts[name] for name in needed(rule)]
        except KeyError:
            continue
        broken = [] if known == _KEPT.get(rule) else [check for check in rule(*known) if not check.allowed]
        if not broken:
            _KEPT[rule] = known
        for _, sentence, figures in broken:
            named = {**dict(zip(needed(rule), known, strict=True)), **figures}
            said = sentence() if callable(sentence) else sentence.format(**named)
            yield Broken(said, rule.__name__, figures.get("field", ""))


def judged(questions: Iterable[tuple[Iterable[Rule], Facts]]) -> Verdict:
    """Return which plans of a mesh break none of the rules that are asked of facts, and how many break each.

    Masks stay as small as the axes that they depend on. Only the last steps touch the whole mesh.
    """
    asked = list(questions)
    arrays = [np.shape(v) for _, facts in asked for v in facts.values() if isinstance(v, np.ndarray)]
    shape = np.broadcast_shapes(*arrays)
    masks: dict[tuple[int, ...], list[NDArray[np.bool_]]] = {}
    rejected: dict[str, int] = {}
    for rules, facts in asked:
        for name, allowed in masks_of(rules, facts):
            broken = (allowed.size - int(np.count_nonzero(allowed))) * (prod(shape) // allowed.size)
            rejected[name] = rejected.get(name, 0) + broken
            masks.setdefault(allowed.shape, []).append(allowed)
    small = sorted((reduce(and_, same) for same in masks.values()), key=np.size)
    return Verdict(np.broadcast_to(reduce(and_, small, np.asarray(True)), shape), rejected)


def masks_of(rules: Iterable[Rule], facts: Facts, made: Masks | None = None) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name and the mask, true where it is kept, of each rule that something breaks.

    A mask lies on no more axes than the facts of its rule. Those of the very facts that one was ``made`` of are not
    made again.
    """
    for rule in rules:
        allowed = _allowed(rule, facts, {} if made is None else made)
        if not allowed.all():
            yield rule.__name__, allowed


def _allowed(rule: Rule, facts: Facts, made: Masks) -> NDArray[np.bool_]:
    """The mask of a rule, true where facts are not known."""
    names = needed(rule)
    if not all(name in facts for name in names):
        return np.asarray(True)
    known = [facts[name] for name in names]
    if rule in made and all(map(is_, made[rule][0], known)):
        return made[rule][1]
    # A check that nothing breaks is left out, so that its axes do not enlarge the mask.
    masks = (check.allowed for check in rule(*known))
    allowed = np.asarray(reduce(and_, (mask for mask in masks if not np.all(mask)), True))
    if "data_parallel" in names and np.any(part := np.mod(facts["data_parallel"], 1)):
        # Without a whole number of replicas there is nothing to ask: `device_count` rejects the plan.
        allowed = np.asarray(allowed | (part > 0))
    made[rule] = known, allowed
    return allowed


def is_one_of(value: Any, allowed: Iterable[Any]) -> Mask:
    """Return whether a value is one of a few, element by element where it is an array."""
    if isinstance(value, np.ndarray) and value.ndim:
        kind = str if value.dtype.kind == "U" else (int, float)
        return np.isin(value, [v for v in allowed if isinstance(v, kind)])
    return value in tuple(allowed)
