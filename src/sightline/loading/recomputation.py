"""``plan.recompute``: a word, a list of modules, or a mapping that says in which layers too."""

from collections.abc import Mapping
from typing import Annotated, Any

from sightline.loading.complaints import Complaints, check
from sightline.loading.fields import whole
from sightline.loading.schema import Section
from sightline.loading.word_lists import words_of
from sightline.scenario.recomputation import MODULES, Recomputation

SCALARS = ("selective", "full")


class RecomputeKeys(Section):
    """``plan.recompute`` as a mapping."""

    modules: Any = None
    layers: Annotated[int | None, whole(0, 10**5)] = None
    every: Annotated[int | None, whole(1, 10**5)] = None
    together: Annotated[int | None, whole(1, 10**5)] = None


def read_recompute(value: object, complaints: Complaints) -> str | Recomputation | None:
    """Return what ``value`` asks for; None after a mistake, which is noted."""
    before = len(complaints.problems)
    checked = check(RecomputeKeys, value, "plan.recompute", complaints) if isinstance(value, Mapping) else None
    stated: dict[str, Any] = {} if checked is None else dict(checked.values)
    modules = stated.pop("modules", "full" if checked is not None else value)
    key = "plan.recompute.modules" if checked is not None else "plan.recompute"
    words = words_of(modules, key, (*SCALARS, *MODULES), {}, complaints)
    if len(complaints.problems) > before:
        return None
    return _settled(words, stated, key, complaints)


def _settled(
    words: tuple[str, ...], stated: Mapping[str, Any], key: str, complaints: Complaints
) -> str | Recomputation | None:
    """The words and what is stated beside them, together."""
    if not words:
        return "none"
    scalars = [word for word in words if word in SCALARS]
    if scalars and len(words) == 1 and not stated:
        return scalars[0]
    if scalars and len(words) > 1:
        complaints.add(f"{key} lists {scalars[0]} beside modules; allowed: {scalars[0]} alone, or modules")
    elif scalars == ["selective"]:
        complaints.add(f"{key} is selective with {', '.join(stated)}; allowed with these: full, or a list of modules")
    elif not scalars and stated.get("together", 1) > 1:
        complaints.add(f"plan.recompute.together is {stated['together']} with modules; allowed: 1, or modules full")
    else:
        return Recomputation(modules=frozenset(() if scalars else words), **stated)
    return None
