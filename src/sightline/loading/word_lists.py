"""A word or a list of words where a key takes either."""

from collections.abc import Mapping

from sightline.errors import nearest
from sightline.loading.complaints import Complaints
from sightline.quantities import show


def words_of(
    value: object, key: str, known: tuple[str, ...], same: Mapping[str, str], complaints: Complaints
) -> tuple[str, ...]:
    """Return a word or a list of words, each once in our spelling; ``none`` and an empty list are no words."""
    listed = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    found: list[str] = []
    for word in listed:
        ours = same.get(word, word) if isinstance(word, str) else word
        if ours in known and ours not in found:
            found.append(str(ours))
        elif ours not in known and not (word == "none" and len(listed) == 1):
            near = nearest(word, (*known, *same)) if isinstance(word, str) else ""
            complaints.add(f"{key} is {show(word)}; allowed: none, {', '.join(known)}{near}")
    return tuple(found)
